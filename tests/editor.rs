//! What an author sees in an editor: the YAML language server that VS Code,
//! Neovim, Helix and others run, with the schemas of this project.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "editor/client.rs"]
mod client;
#[path = "editor/install.rs"]
mod install;
mod support;

use std::fs;
use std::path::Path;

use client::{Complaint, Editor};
use orchestrate::node::KINDS;
use support::PROJECT;

const MODELINE: &str = "# yaml-language-server: $schema=../schemas/plan.schema.json\n";
const LOAD: &str = "  load:
    aiperf:
      client: ${nodes.client}
      server: ${nodes.server}
      corpus: ${nodes.corpus}
      bundle: ${nodes.bundle}
      max_tokens: 48
";

/// A plan with these nodes, which begin on its fifth line.
fn plan(nodes: &str) -> String {
    format!("{MODELINE}orchestrate: 1\nname: written-in-an-editor\nnodes:\n{nodes}")
}

fn complaints(editor: &mut Editor, nodes: &str) -> Vec<Complaint> {
    editor.write(&plan(nodes)).complaints
}

#[test]
fn the_shipped_files_are_without_complaint() {
    let mut editor = Editor::start();
    let plans = Path::new(PROJECT).join("plans");
    let files = support::files_below(&plans);
    let yaml = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let mut seen = 0;
    for path in yaml {
        let text = fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(PROJECT).unwrap().to_str().unwrap();
        assert!(text.starts_with("# yaml-language-server: $schema="), "{name} names no schema");
        assert_eq!(editor.open(name, &text).complaints, [], "{name}");
        seen += 1;
    }
    assert!(seen >= 4, "only {seen} files below {}", plans.display());
}

#[test]
fn an_empty_node_is_offered_every_kind() {
    let mut editor = Editor::start();
    let open = editor.write(&plan("  corpus:\n    ▮"));
    let proposals = editor.proposals(&open);
    for kind in KINDS {
        let proposal = proposals.iter().find(|proposal| proposal.label == *kind);
        assert!(!proposal.unwrap_or_else(|| panic!("no {kind}")).documentation.is_empty(), "{kind}");
    }
    let corpus = proposals.iter().find(|proposal| proposal.label == "pin_corpus").unwrap();
    assert!(corpus.inserts.contains("format: "), "{corpus:?}");
    assert!(proposals.iter().any(|proposal| proposal.label == "needs"), "{proposals:?}");
}

#[test]
fn a_kind_is_offered_its_settings_with_defaults_and_units() {
    let mut editor = Editor::start();
    let open = editor.write(&plan(&format!("{LOAD}      ▮")));
    let proposals = editor.proposals(&open);
    let concurrency = proposals.iter().find(|proposal| proposal.label == "concurrency").unwrap();
    assert!(concurrency.documentation.contains("Unit: requests. Default: 1."), "{concurrency:?}");
    assert!(concurrency.inserts.contains("concurrency: "), "{concurrency:?}");
    assert!(!proposals.iter().any(|proposal| proposal.label == "max_tokens"), "it is there already");
    let engines = editor.write(&plan("  b:\n    build_bundle:\n      engine:\n        ▮"));
    let engines: Vec<_> = editor.proposals(&engines).into_iter().map(|proposal| proposal.label).collect();
    assert_eq!(engines, ["llama_cpp", "trtmc"]);
}

#[test]
fn a_choice_is_offered_its_words_with_their_meanings() {
    let mut editor = Editor::start();
    let open = editor.write(&plan(&format!("{LOAD}      dataset: ▮")));
    let proposals = editor.proposals(&open);
    let words: Vec<_> = proposals.iter().map(|proposal| proposal.label.as_str()).collect();
    assert_eq!(words, ["spec_bench", "speed_bench"]);
    assert!(proposals[0].documentation.contains("first turns only"), "{proposals:?}");
}

#[test]
fn a_setting_is_explained_under_the_cursor() {
    let mut editor = Editor::start();
    let text = plan(&format!("{LOAD}      dataset: spec_bench\n      con▮currency: 1\n"));
    let open = editor.write(&text);
    let shown = editor.hover(&open);
    assert!(shown.contains("#### concurrency") && shown.contains("closed loop"), "{shown}");
    assert!(shown.contains("Unit: requests. Default: 1."), "{shown}");
    let open = editor.write(&plan(&format!("{LOAD}      data▮set: spec_bench\n")));
    let shown = editor.hover(&open);
    assert!(shown.contains("How the pinned rows reach AIPerf."), "{shown}");
    assert!(shown.contains("* `speed_bench`: A SPEED-Bench file"), "{shown}");
    let open = editor.write(&plan("  host:\n    probe▮_host: {}\n"));
    let shown = editor.hover(&open);
    assert!(shown.contains("#### probe\\_host") && shown.contains("what the machine is"), "{shown}");
}

#[test]
fn a_mistake_is_flagged_on_its_line() {
    let mut editor = Editor::start();
    let load = format!("{LOAD}      dataset: spec_bench\n");
    let of = |line: u64, message: &str| vec![Complaint { line, message: message.to_owned() }];
    assert_eq!(
        complaints(&mut editor, &format!("{load}      concurency: 1\n")),
        of(13, "Property concurency is not allowed.")
    );
    assert_eq!(
        complaints(&mut editor, &format!("{load}      concurrency: two\n")),
        of(13, "A whole number, or a reference such as ${params.NAME}.")
    );
    assert_eq!(
        complaints(&mut editor, &format!("{load}    timeout: 5 minutes\n")),
        of(13, "A length of time: a whole number with its unit (ms, s, m, h or d), such as 30s.")
    );
    assert_eq!(
        complaints(&mut editor, &format!("{LOAD}      dataset: spec_bech\n")),
        of(12, "Value is not accepted. Valid values: \"spec_bench\", \"speed_bench\".")
    );
    assert_eq!(complaints(&mut editor, LOAD), of(6, "Missing property \"dataset\"."));
    assert_eq!(
        complaints(&mut editor, "  host:\n    needs: []\n"),
        of(5, &format!("A node names its kind: {}.", KINDS.join(", ")))
    );
}

#[test]
fn a_reference_may_stand_for_a_number_a_word_and_a_time() {
    let mut editor = Editor::start();
    let nodes = format!(
        "{LOAD}      dataset: ${{params.dataset}}\n      concurrency: ${{params.c}}\n      streaming: ${{params.s}}\n    timeout: ${{params.t}}\n"
    );
    assert_eq!(complaints(&mut editor, &nodes), []);
}
