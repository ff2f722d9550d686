//! The default corpus selection is the same whichever public file it comes from.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its corpus has failed")]

use std::fs;
use std::path::Path;

use orchestrate::corpus::{
    Format, Manifest, PinnedForm, Select, Selection, Source, Turns, parse, select, selection_digest,
    write_rows,
};
use orchestrate::value::Sha256;

const CATEGORIES: [&str; 8] =
    ["writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"];

fn spec_bench() -> Vec<u8> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/spec_bench/question.jsonl"));
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let published = "4b6d33e79484f9841c487ee87d1cf6aa8c6066f61d5d482ff09e5a007fafdf04";
    assert_eq!(Sha256::of(&bytes).to_string(), published);
    bytes
}

/// The rows that MT-Bench shares with Spec-Bench, in another order.
fn mt_bench() -> Vec<u8> {
    let text = String::from_utf8(spec_bench()).unwrap();
    let mut lines: Vec<_> = text
        .lines()
        .filter(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            (81..=160).contains(&row["question_id"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(lines.len(), 80);
    lines.reverse();
    lines.rotate_left(33);
    lines.join("\n\n").into_bytes()
}

fn default_selection() -> Select {
    Select {
        categories: Some(CATEGORIES.map(str::to_owned).to_vec()),
        per_category: Some(2),
        seed: Some(20_261_130),
        turns: Turns::First,
        ..Select::default()
    }
}

fn selected(file: &[u8], settings: &Select) -> Selection {
    select(&parse(Format::SpecBench, file).unwrap(), settings).unwrap()
}

#[test]
fn spec_bench_has_480_rows_in_13_categories_and_ten_in_each_default_one() {
    let rows = parse(Format::SpecBench, &spec_bench()).unwrap();
    assert_eq!(rows.len(), 480);
    for category in CATEGORIES {
        let turns: Vec<_> =
            rows.iter().filter(|row| row.category == category).map(|row| row.turns.len()).collect();
        assert_eq!(turns, [2; 10], "{category}");
    }
}

#[test]
fn the_default_selection_is_the_same_from_spec_bench_and_from_mt_bench() {
    let [spec, mt] = [spec_bench(), mt_bench()].map(|file| selected(&file, &default_selection()));
    assert_eq!(spec.rows, mt.rows);
    assert_eq!((spec.rows_in_source, mt.rows_in_source), (480, 80));
    let ids: Vec<_> = spec.rows().map(|row| row.id.as_str()).collect();
    insta::assert_snapshot!(ids.join(" "), @"82 88 93 100 105 110 113 119 126 129 137 139 142 146 153 158");
    insta::assert_snapshot!(selection_digest(spec.rows()), @"ad0dc202e860fa9b2ea4d49397d2b228c1a7e4074d116e9b2a96bd25821e6f79");
    insta::assert_snapshot!(selection_digest(mt.rows()), @"ad0dc202e860fa9b2ea4d49397d2b228c1a7e4074d116e9b2a96bd25821e6f79");
}

#[test]
fn all_480_rows_are_written_so_that_they_read_back_as_the_same_selection() {
    let everything = selected(&spec_bench(), &Select::default());
    let digest = selection_digest(everything.rows());
    let written = write_rows(PinnedForm::SpecBench, everything.rows()).unwrap();
    assert_eq!(selection_digest(selected(&written, &Select::default()).rows()), digest);
    insta::assert_snapshot!(digest, @"5d2d26c511003b2bcfe6958a9ac634339b3ff056c1e54ae73bf156a6639d2e11");
}

#[test]
fn the_manifest_names_every_row_and_turn_and_reads_back() {
    let file = spec_bench();
    let settings = Select {
        per_category: Some(1),
        categories: Some(vec!["math".into()]),
        turns: Turns::All,
        ..default_selection()
    };
    let source = Source {
        name: "spec-bench".into(),
        which: 1,
        sha256: Sha256::of(&file),
        bytes: file.len() as u64,
        passed_over: Vec::new(),
    };
    let selection = selected(&file, &settings);
    let manifest = Manifest::new(Format::SpecBench, source, &settings, &selection, PinnedForm::SpeedBench);
    let text = serde_json::to_string_pretty(&manifest).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
    insta::assert_snapshot!(text, @r#"
    {
      "schema_version": 1,
      "format": "spec_bench",
      "source": {
        "name": "spec-bench",
        "which": 1,
        "sha256": "4b6d33e79484f9841c487ee87d1cf6aa8c6066f61d5d482ff09e5a007fafdf04",
        "bytes": 698768
      },
      "rows_in_source": 480,
      "select": {
        "categories": [
          "math"
        ],
        "per_category": 1,
        "seed": 20261130,
        "turns": "all"
      },
      "selected": [
        {
          "id": "113",
          "pinned_id": "00000000000000000000000000000113",
          "category": "math",
          "why": "one of 1 drawn from the 10 of math by seed 20261130",
          "turns": [
            {
              "text_digest": "c1409833c15c8886e754820730b66d001e9a42303dcd0d5fa0c328aeb9d32b5a",
              "characters": 296
            },
            {
              "text_digest": "fe695e5b293e200628bb1a1a3f271e8710a497673dd8a57854295cf6e647f752",
              "characters": 100
            }
          ]
        }
      ],
      "selection_digest": "e28db204fdf441944a56504b42640c0e20c8b9247dce85c430cb22a395a4cb7d",
      "turns_total": 2,
      "excluded": []
    }
    "#);
}
