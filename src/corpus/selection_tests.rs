use super::super::row::selection_digest;
use super::*;

fn corpus() -> Vec<Row> {
    let row = |(category, id): (&str, u32)| Row {
        id: id.to_string(),
        category: category.into(),
        tier: None,
        turns: vec![format!("question {id}"), "and then?".repeat(id as usize)],
    };
    let categories = [("math", 1), ("code", 20), ("art", 40)];
    categories
        .into_iter()
        .flat_map(|(name, first)| (first..first + 10).map(move |id| row((name, id))))
        .collect()
}

fn settings(yaml_like: serde_json::Value) -> Select {
    serde_json::from_value(yaml_like).unwrap()
}

fn ids(rows: &[Row], select_settings: serde_json::Value) -> Vec<String> {
    let selection = select(rows, &settings(select_settings)).unwrap();
    selection.rows().map(|row| row.id.clone()).collect()
}

fn refusal(select_settings: serde_json::Value) -> String {
    select(&corpus(), &settings(select_settings)).unwrap_err().to_string()
}

#[test]
fn without_settings_every_row_is_used_by_category_and_number() {
    let ids = ids(&corpus(), serde_json::json!({}));
    assert_eq!(ids.len(), 30);
    assert_eq!([&ids[0], &ids[9], &ids[10], &ids[20], &ids[29]], ["40", "49", "20", "1", "10"]);
}

#[test]
fn neither_the_order_of_rows_nor_other_categories_change_a_draw() {
    let draw = serde_json::json!({"categories": ["math", "code"], "per_category": 3, "seed": 7});
    let expected = ids(&corpus(), draw.clone());
    let mut reversed = corpus();
    reversed.reverse();
    assert_eq!(ids(&reversed, draw.clone()), expected);
    reversed.retain(|row| row.category != "art");
    assert_eq!(ids(&reversed, draw), expected);
    assert_eq!(expected.len(), 6);
}

#[test]
fn another_seed_draws_other_rows_and_another_turn_setting_the_same() {
    let draw = |seed: u64, turns: &str| {
        ids(&corpus(), serde_json::json!({"per_category": 4, "seed": seed, "turns": turns}))
    };
    assert_ne!(draw(1, "all"), draw(2, "all"));
    assert_eq!(draw(1, "all"), draw(1, "first"));
}

#[test]
fn a_larger_draw_contains_the_smaller_one() {
    let draw = |count: usize| ids(&corpus(), serde_json::json!({"per_category": count, "seed": 1}));
    let larger = draw(5);
    assert!(draw(2).iter().all(|id| larger.contains(id)));
}

#[test]
fn a_changed_character_may_change_the_draw_and_always_changes_the_digest() {
    let digest = |rows: &[Row]| selection_digest(select(rows, &Select::default()).unwrap().rows());
    let mut changed = corpus();
    changed[29].turns[0].push(' ');
    assert_ne!(digest(&corpus()), digest(&changed));
}

#[test]
fn named_rows_come_in_the_order_named() {
    let rows = corpus();
    assert_eq!(ids(&rows, serde_json::json!({"ids": ["21", "3", "40"]})), ["21", "3", "40"]);
    let selection = select(&rows, &settings(serde_json::json!({"ids": ["3"], "turns": "first"}))).unwrap();
    assert_eq!(selection.rows[0].row.turns, ["question 3"]);
    assert_eq!(selection.rows[0].why, "named by its id");
}

#[test]
fn a_limit_cuts_the_draw_over_all_categories_and_is_no_minimum() {
    let limited = ids(&corpus(), serde_json::json!({"per_category": 4, "limit": 5, "seed": 1}));
    assert_eq!(limited.len(), 5);
    assert_eq!(ids(&corpus(), serde_json::json!({"limit": 500, "seed": 1})).len(), 30);
    let selection =
        select(&corpus(), &settings(serde_json::json!({"per_category": 4, "limit": 5, "seed": 1}))).unwrap();
    assert!(selection.rows[0].why.ends_with("within the limit of 5 by seed 1"), "{}", selection.rows[0].why);
}

#[test]
fn rows_that_are_too_long_are_listed_with_the_numbers() {
    let long = serde_json::json!({"categories": ["art"], "max_characters": 380});
    let selection = select(&corpus(), &settings(long)).unwrap();
    assert_eq!(selection.rows.len(), 2);
    let last = selection.excluded.last().unwrap();
    assert_eq!((last.id.as_str(), last.reason.as_str()), ("49", "452 characters, max_characters is 380"));
    let first_turn = serde_json::json!({"categories": ["art"], "max_characters": 380, "turns": "first"});
    assert_eq!(ids(&corpus(), first_turn).len(), 10);
}

#[test]
fn settings_that_do_not_fit_say_what_would() {
    let refusals = [
        serde_json::json!({"categories": ["maths", "code"]}),
        serde_json::json!({"ids": ["3", "99"]}),
        serde_json::json!({"categories": ["art"], "per_category": 11, "seed": 1}),
        serde_json::json!({"categories": ["art"], "per_category": 3, "seed": 1, "max_characters": 380}),
        serde_json::json!({"max_characters": 1}),
        serde_json::json!({"per_category": 1}),
        serde_json::json!({"limit": 0, "seed": 1}),
        serde_json::json!({"ids": ["1"], "limit": 1, "seed": 1}),
        serde_json::json!({"categories": []}),
        serde_json::json!({"categories": ["art", "art"]}),
    ];
    insta::assert_snapshot!(refusals.map(refusal).join("\n"), @r"
    the corpus has no category maths; it has art, code, math
    the corpus has no row 99; its ids run from 1 to 49
    per_category asks for 11 rows of art, which has 10 (of 10, 0 over max_characters); lower per_category or raise max_characters
    per_category asks for 3 rows of art, which has 2 (of 10, 8 over max_characters); lower per_category or raise max_characters
    the selection is empty: 30 of 30 rows are over max_characters; raise it
    per_category and limit draw rows; give the draw a seed, such as seed: 1
    limit is 0, which selects nothing; give at least 1
    ids already names the rows; leave out categories, per_category and limit
    categories is empty, which selects nothing; leave it out to use all
    categories names art twice; name it once
    ");
}

#[test]
fn an_unknown_setting_is_refused() {
    let unknown = serde_json::from_value::<Select>(serde_json::json!({"per_categroy": 2}));
    assert!(unknown.unwrap_err().to_string().contains("per_categroy"));
}
