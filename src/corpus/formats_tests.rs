use super::*;

fn error(format: Format, text: &str) -> String {
    parse(format, text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn spec_bench_rows_keep_their_text_byte_for_byte() {
    let file = "\u{feff}{\"question_id\": 81, \"category\": \"w\", \"turns\": [\" a\\n\\u00e9\\t\", \"e\\u0301 \\u2028\"], \"reference\": [\"r\"]}\r\n\n   \n{\"question_id\": \"x\", \"category\": \"w\", \"turns\": [\"b\"]}";
    let rows = parse(Format::SpecBench, file.as_bytes()).unwrap();
    assert_eq!(rows[0].turns, [" a\né\t", "e\u{301} \u{2028}"]);
    assert_eq!((rows[0].id.as_str(), rows[1].id.as_str(), rows.len()), ("81", "x", 2));
}

#[test]
fn speed_bench_tiers_come_from_the_sub_category_or_from_an_entropy_category() {
    let line = |extra: &str, category: &str| {
        let row = format!(
            r#"{{"question_id": "a", "category": "{category}", "messages": [{{"role": "user", "content": "hi"}}]{extra}}}"#
        );
        parse(Format::SpeedBench, row.as_bytes()).unwrap().remove(0)
    };
    assert_eq!(line("", "coding").tier, None);
    assert_eq!(line("", "low_entropy").tier.as_deref(), Some("low_entropy"));
    assert_eq!(line(r#", "sub_category": "sort""#, "mixed").tier.as_deref(), Some("sort"));
    assert_eq!(line("", "coding").turns, ["hi"]);
}

#[test]
fn the_users_messages_are_the_turns() {
    let file = r#"{"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "2"}]}"#;
    let rows = parse(Format::OpenaiMessages, file.as_bytes()).unwrap();
    assert_eq!(rows[0].turns, ["1", "2"]);
    assert_eq!((rows[0].id.len(), rows[0].category.as_str()), (32, "uncategorized"));
}

#[test]
fn a_plain_row_names_its_text_in_one_of_three_ways() {
    let file =
        "{\"prompt\": \"a\", \"id\": 7}\n{\"text\": \"b\", \"category\": \"c\"}\n{\"turns\": [\"c\", \"d\"]}";
    let rows = parse(Format::Jsonl, file.as_bytes()).unwrap();
    assert_eq!(rows[0].id, "7");
    assert_eq!(rows[1].category, "c");
    assert_eq!(rows[2].turns, ["c", "d"]);
}

#[test]
fn an_id_made_from_the_text_does_not_depend_on_the_line() {
    let one = parse(Format::Jsonl, b"{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}").unwrap();
    let two = parse(Format::Jsonl, b"\n{\"prompt\": \"b\"}\n{\"prompt\": \"a\"}").unwrap();
    assert_eq!((&one[0], &one[1]), (&two[1], &two[0]));
}

#[test]
fn every_problem_names_its_line_and_the_way_out() {
    let spec = |text: &str| error(Format::SpecBench, text);
    let row = |id: &str| format!(r#"{{"question_id": {id}, "category": "w", "turns": ["a"]}}"#);
    let messages = |list: &str| {
        error(Format::SpeedBench, &format!(r#"{{"question_id": "a", "category": "c", "messages": {list}}}"#))
    };
    let errors = [
        spec("\n\n"),
        spec("[1]"),
        spec(r#"{"question_id": 1, "category": "w", "turns": ["a"]"#),
        spec(r#"{"question_id": 1, "question_id": 2}"#),
        spec(r#"{"category": "w", "turns": ["a"]}"#),
        spec(r#"{"question_id": 1.5, "category": "w", "turns": ["a"]}"#),
        spec(r#"{"question_id": "", "category": "w", "turns": ["a"]}"#),
        spec(r#"{"question_id": 1, "turns": ["a"]}"#),
        spec(r#"{"question_id": 1, "category": "w", "turns": []}"#),
        spec(r#"{"question_id": 1, "category": "w", "turns": ["a", " \n"]}"#),
        spec(r#"{"question_id": 1, "category": "w", "turns": "a"}"#),
        spec(r#"{"question_id": 1, "category": "w", "turns": ["a", 2]}"#),
        spec(r#"{"question_id": 1, "category": "w", "turns": ["\ud800"]}"#),
        spec(&format!("{}\n\n{}", row("81"), row("\"81\""))),
        messages(r#"[{"role": "system", "content": "be brief"}]"#),
        messages(r#"[{"role": "user"}]"#),
        messages(r#"[{"role": "user", "content": [{"type": "text"}]}]"#),
        error(Format::Jsonl, r#"{"id": 3}"#),
        error(Format::Jsonl, r#"{"prompt": "a", "text": "b"}"#),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    the corpus file holds no row; name a file with one JSON object a line
    line 1: the line is no JSON object; write one JSON object a line
    line 1, column 50: the line ends in the middle of its JSON; write one JSON object a line
    line 1, column 36: the key "question_id" is there twice; write one JSON object a line
    line 1: question_id is missing; add it, or choose the format that the file has
    line 1: question_id is a number, expected a text or a whole number; correct the row, or choose the format that the file has
    line 1: question_id is empty; give every row an id of its own
    line 1 (row 1): category is missing; add it, or choose the format that the file has
    line 1 (row 1): the row has no turn; give it at least one text to send
    line 1 (row 1): turn 2 is empty; give it a text, or take the row out
    line 1 (row 1): turns is a text, expected an array; correct the row, or choose the format that the file has
    line 1 (row 1): turns[1] is a number, expected a text; correct the row, or choose the format that the file has
    line 1, column 54: unexpected end of hex escape; write one JSON object a line
    line 3 (row 81): the id was already used on line 1; give every row an id of its own
    line 1 (row a): messages[0].role is "system", and only a user's messages can be sent as turns; put its text into the user's message, or take the row out
    line 1 (row a): messages[0].content is missing; add it, or choose the format that the file has
    line 1 (row a): messages[0].content is an array, expected a text; correct the row, or choose the format that the file has
    line 1 (row 3): the row has none of prompt, text and turns; name its text `prompt`
    line 1: the row has both prompt and text; keep the one that is to be sent
    "#);
}

#[test]
fn bytes_that_are_not_utf_8_are_placed() {
    let mut file = br#"{"question_id": 1, "category": "w", "turns": ["a"]}"#.to_vec();
    file.extend(b"\n{\"question_id\": 2, \"category\": \"\xff\"}");
    let error = parse(Format::SpecBench, &file).unwrap_err();
    assert_eq!((error.line, error.column), (Some(2), Some(33)));
}

#[test]
fn a_corpus_row_that_still_holds_placeholder_text_is_refused() {
    let row = |id: usize, text: &str| {
        format!(
            r#"{{"question_id": "r{id}", "category": "c", "messages": [{{"role": "user", "content": "{text}"}}]}}"#
        )
    };
    let rows: Vec<_> = (0..9).map(|id| row(id, if id == 1 { "real" } else { PLACEHOLDER })).collect();
    insta::assert_snapshot!(error(Format::SpeedBench, &rows.join("\n")), @"line 1 (row r0): 8 of 9 rows still hold SPEED-Bench's placeholder instead of text: r0, r2, r3, r4, r5, …; resolve the data set with NVIDIA's SPECDEC_BENCH tool and name the file that it wrote");
    let within = row(0, &format!("see: {PLACEHOLDER}."));
    assert!(parse(Format::SpeedBench, within.as_bytes()).is_err());
}
