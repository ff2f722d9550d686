use super::super::document::CommonSettings;
use super::super::schema::documents;
use super::super::typed::{from_entries, from_entry};
use super::super::yaml;
use super::*;
use crate::node::{KINDS, Kind};

/// The settings a node has beside its kind.
fn common_settings() -> Vec<String> {
    let schema = schemars::schema_for!(CommonSettings).to_value();
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_example_is_a_node_of_its_kind() {
    let common = common_settings();
    for kind in CATALOGUE {
        let mut slips = Vec::new();
        let tree = yaml::parse(kind.example, &mut slips).unwrap();
        let [node] = tree.entries() else { panic!("{} is not one node", kind.example) };
        let own = node.value.entries().iter().find(|entry| !common.contains(&entry.key)).unwrap();
        let read: Option<Kind> = from_entry(own, &mut slips);
        let beside: Option<CommonSettings> =
            from_entries(node.value.entries(), &own.key, node.at, &mut slips);
        assert_eq!(slips, [], "{}", kind.name);
        assert_eq!(read.unwrap().name(), kind.name);
        assert!(beside.is_some());
    }
}

#[test]
fn every_kind_has_its_section_with_table_and_example() {
    let text = markdown(&documents());
    let (_, kinds) = text.split_once("\n## Node kinds\n").unwrap();
    for kind in KINDS {
        let (_, section) = kinds.split_once(&format!("\n### `{kind}`\n")).unwrap();
        let section = section.split("\n### ").next().unwrap();
        assert!(section.contains("```yaml\n"), "{kind} has no example");
        assert!(section.contains("| setting ") || section.contains("no settings"), "{kind} has no table");
    }
}

#[test]
fn every_link_leads_to_one_heading() {
    let text = markdown(&documents());
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let anchor =
        |heading: &str| heading.to_lowercase().replace(' ', "-").chars().filter(is_kept).collect::<String>();
    let headings = text.lines().filter(|line| line.starts_with('#') && line.contains("# "));
    let anchors: Vec<_> = headings.map(|line| anchor(line.trim_start_matches('#').trim_start())).collect();
    for link in text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        let targets = anchors.iter().filter(|anchor| *anchor == link).count();
        assert_eq!(targets, 1, "#{link} leads to {targets} headings");
    }
}

#[test]
fn a_setting_says_its_type_its_default_and_its_unit() {
    let text = markdown(&documents());
    let row = |setting: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("| `{setting}` "))).unwrap();
        line.split('|').map(str::trim).skip(2).take(3).collect::<Vec<_>>()
    };
    assert_eq!(row("concurrency"), ["whole number", "`1`", "requests"]);
    assert_eq!(row("dataset"), ["word of [dataset](#dataset)", "**required**", "–"]);
    assert_eq!(row("ready_within"), ["[duration](#values)", "`30m`", "ms, s, m, h, d"]);
    assert_eq!(row("per_category"), ["whole number", "–", "rows"]);
    assert_eq!(row("gpu.min_memory_gib"), ["whole number", "`0`", "GiB"]);
}
