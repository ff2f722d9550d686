use std::fmt::Write as _;

use super::*;

fn read(text: &str) -> Tree {
    let mut slips = Vec::new();
    let tree = parse(text, &mut slips);
    assert_eq!(slips, []);
    tree.unwrap()
}

fn wrong(text: &str) -> Slip {
    let mut slips = Vec::new();
    parse(text, &mut slips);
    slips.into_iter().next().unwrap()
}

#[test]
fn every_value_knows_its_line_and_column() {
    let tree = read("a: 1\nb:\n  - x\n  - {c: true}\n");
    assert_eq!(tree.get("a").unwrap().at, Position { line: 1, column: 4 });
    let items = tree.get("b").unwrap().items();
    assert_eq!(items[0].at, Position { line: 3, column: 5 });
    assert_eq!(items[1].entries()[0].at, Position { line: 4, column: 6 });
    assert_eq!(items[1].get("c").unwrap().value, Value::Bool(true));
}

#[test]
fn every_duplicate_key_is_refused_with_the_line_of_the_first() {
    let mut slips = Vec::new();
    let tree = parse("a: 1\nb: 2\na: 3\nb: 4\n", &mut slips).unwrap();
    assert_eq!(tree.entries().len(), 2);
    assert_eq!(slips.len(), 2);
    assert_eq!(slips[0].at.line, 3);
    assert!(slips[0].help.as_ref().unwrap().contains("line 1"), "{slips:?}");
}

#[test]
fn words_of_yaml_1_1_stay_text_and_are_known_as_such() {
    let tree = read("[no, on, yes, 1:30, 1_000]");
    for item in tree.items() {
        assert!(misread(item.text().unwrap()).is_some(), "{item:?}");
    }
    for text in ["note", "7a", "10.0.0.1:80x", "a:1", "llama-3"] {
        assert_eq!(misread(text), None, "{text}");
    }
    assert!(wrong("on: 1\n").message.contains("the boolean true"));
}

#[test]
fn an_alias_repeats_its_value_and_a_bomb_is_refused() {
    let tree = read("a: &x [1, 2]\nb: *x\n");
    assert_eq!(tree.get("a").unwrap().items().len(), 2);
    assert_eq!(tree.get("b").unwrap().items().len(), 2);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let repeated = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(bomb, "a{n}: &a{n} [{repeated}]").unwrap();
    }
    assert!(wrong(&bomb).message.contains("more than 1000000 values"));
}

#[test]
fn a_carriage_return_ends_a_line_only_before_a_line_feed() {
    assert_eq!(read("a: 1\r\nb: 2\r\n").get("b").unwrap().at, Position { line: 2, column: 4 });
    for text in ["a: 1\rb: 2\r", "a:\n  \r\r\rb", "a: 1\r", "\r\r\n"] {
        let slip = wrong(text);
        assert!(slip.message.contains("carriage return"), "{slip:?}");
        assert!((1..=text.split('\n').count()).contains(&(slip.at.line as usize)), "{slip:?}");
    }
}

#[test]
fn long_texts_that_aliases_repeat_count_by_their_length() {
    let long = "x".repeat(1 << 20);
    let repeated = "*a, ".repeat(1000);
    assert!(wrong(&format!("a: &a {long}\nb: [{repeated}]\n")).message.contains("values"));
    assert!(wrong(&format!("a: &a {{? \"{long}\" : 1}}\nb: [{repeated}]\n")).message.contains("values"));
}

#[test]
fn nesting_has_an_end() {
    for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000), "? ".repeat(100_000)] {
        let message = wrong(&text).message;
        assert!(
            message.contains("nested too deep") || message.contains("where a key is needed"),
            "{message}"
        );
    }
    read(&("[".repeat(DEPTH) + &"]".repeat(DEPTH)));
}

#[test]
fn what_is_not_yaml_is_said_where() {
    let at = |text: &str| (wrong(text).at.line, wrong(text).message);
    assert_eq!(at("a:\n\tb: 2\n"), (2, "a tab stands in or before this line".to_owned()));
    assert!(at("a: 'x\n").1.contains("quotes"));
    assert!(at("a: [1, 2\nb: 3\n").1.contains("comma or a closing bracket"), "{:?}", at("a: [1, 2\nb: 3\n"));
    assert!(at("a: b: c\n").1.contains("`key: value`"));
    assert!(at("a: 1\n---\nb: 1\n").1.contains("second document"));
    assert!(at("").1.contains("empty"));
}
