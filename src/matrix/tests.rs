//! The four forms, as a reader meets them.

use super::fixture::stage_f;
use super::*;
use crate::evidence::matrix::{CategoryTimings, Cell, Column, MatrixRow, Quantity, ShownMeasurement};

const HOSTILE: &str = "<script>alert('x')</script> | \"a\"\n| b | [c](d) & `e`";

fn small(cell: Cell) -> Matrix {
    Matrix {
        schema_version: 1,
        plan: "tiny".to_owned(),
        description: "One column.".to_owned(),
        columns: vec![Column {
            key: "rows".to_owned(),
            title: "Rows".to_owned(),
            meaning: "Rows sent.".to_owned(),
            group: "Run".to_owned(),
        }],
        rows: vec![MatrixRow {
            subject: "s".to_owned(),
            target: "t".to_owned(),
            mode: "ordinary".to_owned(),
            status: "planned".to_owned(),
            missing: vec![],
            cells: vec![cell],
            measurements: vec![],
            categories: vec![],
            busy: vec![],
        }],
    }
}

fn hostile() -> Matrix {
    let mut matrix = small(Cell::value(HOSTILE).with_note(HOSTILE).shown_in(Some("e/<x>|\"y\".json")));
    matrix.plan = HOSTILE.to_owned();
    matrix.description = HOSTILE.to_owned();
    matrix.columns[0].key = HOSTILE.to_owned();
    matrix.columns[0].title = HOSTILE.to_owned();
    matrix.columns[0].meaning = HOSTILE.to_owned();
    matrix.columns[0].group = HOSTILE.to_owned();
    matrix.rows[0].subject = HOSTILE.to_owned();
    matrix.rows[0].target = HOSTILE.to_owned();
    matrix.rows[0].missing = vec![HOSTILE.to_owned()];
    matrix.rows[0].measurements = vec![measurement(HOSTILE, HOSTILE, 2, 3)];
    matrix.rows[0].categories = vec![CategoryTimings {
        category: HOSTILE.to_owned(),
        samples: 1,
        quantities: vec![quantity([Some(1.0); 4], Some(HOSTILE))],
    }];
    matrix
}

fn measurement(role: &str, node: &str, attempt: u32, of: u32) -> ShownMeasurement {
    ShownMeasurement { role: role.to_owned(), node: node.to_owned(), attempt, of }
}

fn quantity([p50, p90, p95, p99]: [Option<f64>; 4], unavailable: Option<&str>) -> Quantity {
    Quantity {
        name: "request latency (client)".to_owned(),
        unit: "ms".to_owned(),
        count: 1,
        p50,
        p90,
        p95,
        p99,
        unavailable: unavailable.map(str::to_owned),
    }
}

mod markdown;

mod a_busy_machine {
    use super::*;

    /// The qualified subject, measured while others used the machine.
    fn busy() -> Matrix {
        let mut matrix = stage_f();
        matrix.rows[0].busy =
            vec!["others used 34 % of the CPU".to_owned(), "another process was on the GPU".to_owned()];
        matrix
    }

    fn lines_about<'a>(page: &'a str, word: &str) -> Vec<&'a str> {
        page.lines().filter(|line| line.contains(word)).map(str::trim).collect()
    }

    #[test]
    fn stands_beside_the_status_and_beside_the_figures_of_its_subject_only() {
        let Rendered { markdown, html, .. } = render(&busy()).unwrap();
        let quiet = render(&stage_f()).unwrap();
        assert!(!quiet.markdown.contains("busy") && !quiet.html.contains("class=\"busy\""));
        insta::assert_snapshot!(lines_about(&markdown, "others used").join("\n"), @"
        | **stage-f/llama-cpp/ordinary** | llama-cpp | **ordinary generation** | **aiperf-qualified** | Qualified corpus input, ordinary generation. **Measured on a busy machine: others used 34 % of the CPU, another process was on the GPU.** |
        **busy**: others used 34 % of the CPU, another process was on the GPU
        ");
        insta::assert_snapshot!(lines_about(&html, "others used").join("\n"), @r#"
        <p class="busy"><strong>busy</strong> Measured on a busy machine: others used 34 % of the CPU, another process was on the GPU.</p>
        <p class="busy"><strong>busy</strong> others used 34 % of the CPU, another process was on the GPU</p>
        "#);
    }
}

mod csv_form {
    use super::*;

    #[test]
    fn has_one_line_per_subject_and_column() {
        let csv = render(&stage_f()).unwrap().csv;
        assert_eq!(csv.matches("\r\n").count(), 1 + 2 * 56);
        let some = [0, 1, 8, 36, 39, 57, 58].map(|at| csv.split("\r\n").nth(at).unwrap());
        insta::assert_snapshot!(some.join("\n"), @r#"
        subject,target,mode,status,group,column,value,unavailable_or_note,evidence
        stage-f/llama-cpp/ordinary,llama-cpp,ordinary,aiperf-qualified,Subject,model,SmolLM2-135M-Instruct (Q4_1),family llama,evidence/stage-f/llama-cpp/ordinary/bundle.json
        stage-f/llama-cpp/ordinary,llama-cpp,ordinary,aiperf-qualified,Qualified corpus input,selection,c83f367ed859de2b3a1bdc0b2e6535435adab8360c7e5c48c8e676b5034683e3,,evidence/stage-f/llama-cpp/ordinary/corpus.json
        stage-f/llama-cpp/ordinary,llama-cpp,ordinary,aiperf-qualified,Speculative execution,accept_length,,speculation was off,evidence/stage-f/llama-cpp/ordinary/correlation.json
        stage-f/llama-cpp/ordinary,llama-cpp,ordinary,aiperf-qualified,Steady-state timing,latency,"p50 5897.8, p90 7809.7, p95 8281.0, p99 8658.0",8 samples,evidence/stage-f/llama-cpp/ordinary/correlation.json
        stage-f/trtmc/ordinary,trtmc,ordinary,planned,Subject,model,Qwen/Qwen3-0.6B (FP16),"baseline TRTMC 0bccb5e93af0e5ad346aaf44e404396f54b2e7de, AIPerf e1daadd10faa395100384358131d784d6858c5ae, family qwen",
        stage-f/trtmc/ordinary,trtmc,ordinary,planned,Subject,engine,,"target trtmc needs a GPU (there is no nvidia-smi on PATH), the site value trtmc_source, the site value trtmc_build, the site value trtmc_checkpoint, the program trtmc, the program trtmc-server",
        "#);
    }

    #[test]
    fn quotes_by_rfc_4180() {
        let csv = render(&small(Cell::value("a,\"b\"\nc"))).unwrap().csv;
        assert!(csv.ends_with("s,t,ordinary,planned,Run,rows,\"a,\"\"b\"\"\nc\",,\r\n"), "{csv}");
    }
}

#[test]
fn which_of_several_measurements_is_shown_stands_with_its_subject_and_always_in_the_json() {
    let mut matrix = small(Cell::value("8"));
    matrix.rows[0].measurements =
        vec![measurement("host", "host", 1, 1), measurement("load", "load[target=t]", 2, 3)];
    let rendered = render(&matrix).unwrap();
    let said = |page: &str| {
        let lines = page.lines().filter(|line| line.contains("measurement 2 of 3 is shown"));
        (lines.count(), page.contains("1 of 1"), page.contains("made more than once under one key"))
    };
    assert_eq!(said(&rendered.markdown), (1, false, true), "{}", rendered.markdown);
    let (lines, single, _) = said(&rendered.html);
    assert_eq!((lines, single), (1, false), "{}", rendered.html);
    let json: Matrix = serde_json::from_str(&rendered.json).unwrap();
    assert_eq!(json.rows[0].measurements, matrix.rows[0].measurements);
    matrix.rows[0].measurements.pop();
    let rendered = render(&matrix).unwrap();
    assert!(!rendered.markdown.contains("measurement ") && !rendered.html.contains("measurement "));
}

#[test]
fn json_is_the_matrix_itself() {
    let json = render(&stage_f()).unwrap().json;
    assert_eq!(serde_json::from_str::<Matrix>(&json).unwrap(), stage_f());
}

mod html {
    use super::*;

    #[test]
    fn every_tag_is_closed_in_order() {
        for matrix in [stage_f(), hostile(), small(Cell::unavailable("it was not run"))] {
            let html = render(&matrix).unwrap().html;
            assert_eq!(unclosed(&html), Vec::<String>::new());
        }
    }

    #[test]
    fn nothing_is_fetched_from_anywhere() {
        let html = render(&stage_f()).unwrap().html;
        for request in ["=\"http", "=\"//", "url(", "@import", " src=", "<link", "<script", "//cdn"] {
            assert!(!html.contains(request), "{request}");
        }
        assert!(html.contains("default-src 'none'"));
    }

    #[test]
    fn every_evidence_file_is_linked_from_each_of_its_cells() {
        let matrix = stage_f();
        let html = render(&matrix).unwrap().html;
        for row in &matrix.rows {
            for path in row.cells.iter().filter_map(|cell| cell.evidence.as_deref()) {
                let cells = row.cells.iter().filter(|cell| cell.evidence.as_deref() == Some(path)).count();
                assert_eq!(html.matches(&format!("href=\"{path}\"")).count(), cells + 1, "{path}");
            }
        }
    }

    #[test]
    fn ordinary_generation_stands_in_the_statement_in_every_subject_and_in_every_table() {
        let html = render(&stage_f()).unwrap().html;
        assert!(html.contains("<strong>Ordinary generation</strong>"));
        let tables = 6;
        let (card, percentiles) = (1, 1);
        assert_eq!(
            html.matches(r#"<span class="mode ordinary">ordinary generation</span>"#).count(),
            2 * (card + tables + percentiles)
        );
    }

    #[test]
    fn speculative_mode_is_not_called_speculative_execution() {
        let mut matrix = small(Cell::value("1"));
        matrix.rows[0].mode = "speculative".to_owned();
        matrix.rows[0].status = "aiperf-qualified".to_owned();
        let rendered = render(&matrix).unwrap();
        assert!(rendered.html.contains(r#"<span class="mode speculative">speculative mode</span>"#));
        assert!(rendered.markdown.contains("| **s** | t | **speculative mode** |"));
    }

    #[test]
    fn an_absent_value_is_a_word_a_class_and_a_reason() {
        let html = render(&small(Cell::unavailable("speculation was off"))).unwrap().html;
        assert!(
            html.contains(r#"<td role="cell" class="cell none" data-subject="s, ordinary generation">"#),
            "{html}"
        );
        assert!(html.contains(
            r#"<span class="word">unavailable</span> <span class="note">speculation was off</span></td>"#
        ));
    }

    #[test]
    fn a_value_with_a_note_shows_both() {
        let html = render(&small(Cell::value("0").with_note("of 16"))).unwrap().html;
        assert!(html.contains(r#">0 <span class="note">of 16</span></td>"#), "{html}");
    }

    #[test]
    fn hostile_text_stays_text() {
        let html = render(&hostile()).unwrap().html;
        assert!(!html.contains("<script"));
        assert!(!html.contains("\"a\""));
        assert!(html.contains("&lt;script&gt;"));
        assert!(html.contains("href=\"e/%3Cx%3E%7C%22y%22.json\""), "{html}");
    }

    #[test]
    fn a_reason_that_most_cells_share_stands_once_and_its_cells_lead_to_it() {
        let matrix = stage_f();
        let reason = &matrix.rows[1].missing[0];
        let html = render(&matrix).unwrap().html;
        let text = |html: &str| html.matches(&format!("> {reason}")).count();
        assert_eq!(text(&html), 1);
        let cells = matrix.rows[1].cells.iter().filter(|cell| cell.note.as_ref() == Some(reason)).count();
        let cell = format!(
            "<a class=\"why\" href=\"#why-a\" title=\"{reason}\"><span class=\"word\">unavailable</span>"
        );
        assert_eq!(html.matches(&cell).count(), cells);
        assert_eq!(html.matches("id=\"why-a\"").count(), 1);
        assert!(html.contains(&format!("This is why {cells} of 56 cells are unavailable.")));
    }

    #[test]
    fn a_shared_reason_that_is_not_what_is_missing_is_listed_with_its_subject() {
        let mut matrix = small(Cell::unavailable("the server was killed"));
        let column = matrix.columns[0].clone();
        let cell = matrix.rows[0].cells[0].clone().shown_in(Some("e.json"));
        matrix.columns.resize(5, column);
        matrix.rows[0].cells.resize(5, cell);
        let rendered = render(&matrix).unwrap();
        assert!(
            rendered.markdown.contains("- **(a)** the server was killed (5 of 5 cells)"),
            "{}",
            rendered.markdown
        );
        assert_eq!(rendered.markdown.matches("*unavailable* (a) |").count(), 1);
        assert_eq!(rendered.markdown.matches("[*unavailable*][e1] (a) |").count(), 4);
        assert!(
            rendered
                .html
                .contains("</sup> the server was killed <span class=\"share\">(5 of 5 cells)</span>")
        );
    }

    #[test]
    fn what_the_run_did_stands_above_the_table_of_its_group() {
        let html = render(&stage_f()).unwrap().html;
        let section = html.split("Speculative execution</h2>").nth(1).unwrap();
        let before_the_table = section.split("<table").next().unwrap();
        assert!(before_the_table.contains("<strong>ordinary generation</strong>"), "{before_the_table}");
        assert!(
            before_the_table.contains("acceptance is unavailable: speculation was off"),
            "{before_the_table}"
        );
    }

    #[test]
    fn a_long_digest_is_short_for_the_eye_and_whole_on_demand() {
        let digest = "0123456789abcdef".repeat(4);
        let html = render(&small(Cell::value(&digest))).unwrap().html;
        assert!(
            html.contains(&format!(">0123456789ab…<details><summary>in full</summary><code>{digest}</code>")),
            "{html}"
        );
    }

    #[test]
    fn a_command_is_shown_option_by_option() {
        let html = render(&small(Cell::value("tool --model m --flag"))).unwrap().html;
        assert!(html.contains(
            r#"<code class="command"><span>tool</span> <span>--model m</span> <span>--flag</span></code>"#
        ));
    }

    /// Tags that are opened and not closed, or closed out of order.
    fn unclosed(html: &str) -> Vec<String> {
        const VOID: [&str; 3] = ["meta", "rect", "circle"];
        let mut open: Vec<String> = Vec::new();
        for tag in html.split('<').skip(1).filter(|tag| !tag.starts_with('!')) {
            let name: String = tag.chars().take_while(|c| c.is_alphanumeric() || *c == '/').collect();
            match name.strip_prefix('/') {
                Some(name) if open.last().map(String::as_str) == Some(name) => drop(open.pop()),
                Some(name) => open.push(format!("/{name}")),
                None if VOID.contains(&name.trim_end_matches('/')) => {}
                None => open.push(name),
            }
        }
        open
    }
}

mod percentiles {
    use super::*;

    fn with(quantity: Quantity) -> Matrix {
        let mut matrix = small(Cell::value("1"));
        matrix.rows[0].categories =
            vec![CategoryTimings { category: "math".to_owned(), samples: 2, quantities: vec![quantity] }];
        matrix
    }

    #[test]
    fn a_single_missing_percentile_is_said_and_gets_no_bar() {
        let rendered = render(&with(quantity([Some(5.0), Some(6.0), Some(6.5), None], None))).unwrap();
        assert!(rendered.markdown.contains("| math | 2 | 1 | 5.00 | 6.00 | 6.50 | *unavailable* |"));
        assert!(!rendered.html.contains("<svg"));
        assert!(rendered.html.contains("no bar, a percentile is unavailable"));
    }

    #[test]
    fn a_quantity_without_values_is_one_line_with_its_reason() {
        let rendered = render(&with(quantity([None; 4], Some("no engine times")))).unwrap();
        assert!(rendered.markdown.contains("**request latency (client)**: *unavailable*: no engine times"));
    }

    #[test]
    fn percentiles_of_zero_are_values() {
        let rendered = render(&with(quantity([Some(0.0); 4], None))).unwrap();
        assert!(rendered.markdown.contains("| math | 2 | 1 | 0.000 | 0.000 | 0.000 | 0.000 |"));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let error = render(&with(quantity([Some(f64::NAN); 4], None))).unwrap_err();
        assert!(error.to_string().contains("is not a finite number"), "{error}");
        let error = render(&with(quantity([None; 4], None))).unwrap_err();
        assert!(error.to_string().contains("neither a value nor a reason"), "{error}");
    }
}

mod refusals {
    use super::*;

    fn refusal(matrix: &Matrix) -> String {
        render(matrix).unwrap_err().to_string()
    }

    #[test]
    fn a_cell_without_value_and_reason() {
        let silent = Cell { value: None, note: None, evidence: None };
        for cell in [silent, Cell::value(""), Cell::unavailable(" ")] {
            assert!(refusal(&small(cell)).contains(r#"column "rows" of subject "s" has neither"#));
        }
    }

    #[test]
    fn a_row_that_does_not_fit_the_columns() {
        let mut matrix = small(Cell::value("1"));
        matrix.rows[0].cells.clear();
        assert!(refusal(&matrix).contains(r#"subject "s" has 0 cells for 1 columns"#));
    }

    #[test]
    fn a_mode_or_status_of_another_language() {
        let mut matrix = small(Cell::value("1"));
        matrix.rows[0].mode = "fast".to_owned();
        assert!(refusal(&matrix).contains(r#"has mode "fast"; use one of: ordinary, speculative"#));
        matrix.rows[0].mode = "speculative".to_owned();
        matrix.rows[0].status = "passed".to_owned();
        assert!(refusal(&matrix).contains(r#"has status "passed"; use one of: planned"#));
    }

    #[test]
    fn evidence_that_is_not_beside_the_report() {
        for path in ["/etc/x.json", "javascript:alert(1)", "file:///x", "C:\\x", ""] {
            let cell = Cell::value("1").shown_in(Some(path));
            assert!(refusal(&small(cell)).contains("use a path relative to the report"), "{path}");
        }
    }
}
