use serde::Deserialize;

use super::*;
use crate::plan::yaml;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Load {
    concurrency: u32,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    mode: Vec<Mode>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Plain,
    Draft { depth: u8 },
}

fn read(text: &str) -> Result<Load, Vec<Slip>> {
    let mut slips = Vec::new();
    let tree = yaml::parse(text, &mut slips).unwrap();
    from_tree(&tree, &mut slips).ok_or(slips)
}

fn slips(text: &str) -> Vec<(u32, u32, String, String)> {
    let slips = read(text).unwrap_err().into_iter();
    slips.map(|slip| (slip.at.line, slip.at.column, slip.message, slip.help.unwrap_or_default())).collect()
}

fn slip(text: &str) -> (u32, u32, String, String) {
    let [slip] = <[_; 1]>::try_from(slips(text)).unwrap();
    slip
}

#[test]
fn good_settings_are_read() {
    let load = read("concurrency: 2\nmode: [plain, {draft: {depth: 3}}]").unwrap();
    assert_eq!(load.concurrency, 2);
    assert_eq!(load.mode, [Mode::Plain, Mode::Draft { depth: 3 }]);
}

#[test]
fn an_unknown_key_is_shown_at_the_key_with_the_nearest_one() {
    let (line, column, message, help) = slip("concurrency: 2\nnane: x\n");
    assert_eq!((line, column), (2, 1));
    assert_eq!(message, "unknown key `nane`");
    assert!(help.starts_with("did you mean `name`?"), "{help}");
}

#[test]
fn a_wrong_type_is_shown_at_the_value() {
    let (line, column, message, _) = slip("concurrency: two\n");
    assert_eq!((line, column), (1, 14));
    assert_eq!(message, "expected a whole number, found the text \"two\"");
    let (_, _, message, help) = slip("concurrency: 1\nname: 012\n");
    assert!(message.starts_with("expected text, found the number"), "{message}");
    assert_eq!(help, "write it in quotes if text is meant: \"012\"");
}

#[test]
fn a_missing_key_is_named() {
    let (line, _, message, _) = slip("name: x\n");
    assert_eq!((line, message.as_str()), (1, "the key `concurrency` is missing"));
}

#[test]
fn a_mistake_deep_inside_keeps_its_place() {
    let (line, column, message, _) = slip("concurrency: 1\nmode:\n  - draft: {depth: -1}\n");
    assert_eq!((line, column), (3, 20));
    assert!(message.contains("-1"), "{message}");
    let (_, _, message, help) = slip("concurrency: 1\nmode: [plane]\n");
    assert_eq!(message, "unknown word `plane`");
    assert!(help.contains("`plain`"), "{help}");
}
#[test]
fn all_mistakes_of_a_mapping_are_found_at_once_and_only_they() {
    let found = slips("concurrency: -1\nnane: x\nmode: [plane, {draft: {depth: 300}}, plain]\nother: 1\n");
    let lines: Vec<_> = found.iter().map(|(line, column, _, _)| (*line, *column)).collect();
    assert_eq!(lines, [(1, 14), (2, 1), (3, 8), (3, 31), (4, 1)], "{found:?}");
}

#[test]
fn text_that_other_readers_of_yaml_take_for_something_else_has_to_be_quoted() {
    assert!(slip("concurrency: 1\nname: no\n").2.contains("the boolean false"));
    assert!(slip("concurrency: 1\nname: 1:30\n").2.contains("base 60"));
    assert!(slip("concurrency: 010\n").2.contains("octal"));
    assert_eq!(slip("concurrency: 1e3\n").3, "write 1000");
    assert!(read("concurrency: 1\nname: 'no'\n").is_ok());
}

#[test]
fn a_value_known_only_later_is_refused_where_it_is_needed_before() {
    assert!(slip("concurrency: 1\nname: ${nodes.a.b}\n").2.contains("once that node has run"));
    assert_eq!(read("concurrency: 1\nname: $${x}\n").unwrap().name.as_deref(), Some("${x}"));
}
