//! Which rows of a corpus are used: a draw that any machine repeats.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::{Row, draw};

/// Which rows and turns of a corpus are used. Without any setting: all.
///
/// The outcome depends on the rows and on these settings only, never on the
/// order of rows in the file or on other categories in it:
///
/// 1. rows outside `categories`, and rows over `max_characters`, are left out;
/// 2. the rows of a category are ordered by the BLAKE3 digest of the seed,
///    the row's id and the exact text of all its turns, and the first
///    `per_category` are taken;
/// 3. if more than `limit` rows are left, all are ordered by that digest and
///    the first `limit` are taken;
/// 4. rows come out in the order of `categories` (without it: of the
///    categories' names), within a category by id, numbers first and by number;
/// 5. `turns` cuts rows only now, so it does not change which rows are drawn.
///
/// `ids` replaces steps 1 to 4: these rows, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Select {
    /// Categories to use, in the order in which they are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// Rows to draw from each category; it is an error if there are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "rows"))]
    pub per_category: Option<usize>,
    /// Exactly these rows, in this order; excludes the settings that draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// Rows to use at most, over all categories.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "rows"))]
    pub limit: Option<usize>,
    /// Decides the draw; required with `per_category` and with `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether all turns of a row are used or the first only.
    pub turns: Turns,
    /// Rows whose turns together have more characters (Unicode scalar values,
    /// counted over the turns that are used) are left out and listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "characters"))]
    pub max_characters: Option<usize>,
}

/// Which turns of a row are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Turns {
    /// Every turn.
    #[default]
    All,
    /// The first turn only.
    First,
}

/// A row that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedRow {
    /// The row, cut to the turns that are used.
    pub row: Row,
    /// Why it is used, in one phrase.
    pub why: String,
}

/// A row that the settings ask for and that a limit keeps out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excluded {
    /// The row's id.
    pub id: String,
    /// Its category.
    pub category: String,
    /// Which limit it breaks, with the numbers.
    pub reason: String,
}

/// The outcome of [`select`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Rows to send, in order.
    pub rows: Vec<SelectedRow>,
    /// Rows that a limit keeps out.
    pub excluded: Vec<Excluded>,
    /// Rows in the corpus file.
    pub rows_in_source: usize,
}

/// Settings that do not fit the corpus, or each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A category is not in the file.
    #[error("the corpus has no category {unknown}; it has {}", known.join(", "))]
    UnknownCategory {
        /// The categories asked for that are not there.
        unknown: String,
        /// The categories that are there.
        known: Vec<String>,
    },
    /// An id is not in the file.
    #[error("the corpus has no row {}; its ids run from {first} to {last}", unknown.join(", "))]
    UnknownIds {
        /// The ids asked for that are not there.
        unknown: Vec<String>,
        /// The lowest id in the file.
        first: String,
        /// The highest id in the file.
        last: String,
    },
    /// A category cannot give as many rows as asked for.
    #[error(
        "per_category asks for {wanted} rows of {category}, which has {eligible} (of {present}, {too_long} over max_characters); lower per_category or raise max_characters"
    )]
    TooFew {
        /// The category.
        category: String,
        /// Rows asked for.
        wanted: usize,
        /// Rows that could be used.
        eligible: usize,
        /// Rows of the category in the file.
        present: usize,
        /// Rows that `max_characters` keeps out.
        too_long: usize,
    },
    /// Nothing is left.
    #[error("the selection is empty: {excluded} of {present} rows are over max_characters; raise it")]
    Empty {
        /// Rows in the file.
        present: usize,
        /// Rows that `max_characters` keeps out.
        excluded: usize,
    },
    /// The settings contradict each other.
    #[error("{reason}")]
    Settings {
        /// What contradicts what, and the way out.
        reason: String,
    },
}

/// Picks rows as [`Select`] describes.
pub fn select(rows: &[Row], settings: &Select) -> Result<Selection, SelectError> {
    settings.check()?;
    let (picked, excluded) = match &settings.ids {
        Some(ids) => by_ids(rows, ids, settings)?,
        None => by_draw(rows, settings)?,
    };
    if picked.is_empty() {
        return Err(SelectError::Empty { present: rows.len(), excluded: excluded.len() });
    }
    let rows_in_source = rows.len();
    Ok(Selection { rows: picked, excluded, rows_in_source })
}

impl Selection {
    /// The rows alone, in order.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &Row> + Clone {
        self.rows.iter().map(|selected| &selected.row)
    }

    /// Moves rows to the excluded ones, each with its reason.
    #[must_use]
    pub fn without(mut self, excluded: Vec<Excluded>) -> Self {
        let ids: HashSet<_> = excluded.iter().map(|row| row.id.clone()).collect();
        self.rows.retain(|selected| !ids.contains(&selected.row.id));
        self.excluded.extend(excluded);
        self
    }
}

impl Select {
    /// Whether the settings fit together, whatever the corpus holds.
    pub fn check(&self) -> Result<(), SelectError> {
        check(self)
    }
}

fn check(settings: &Select) -> Result<(), SelectError> {
    let fail = |reason: String| Err(SelectError::Settings { reason });
    let draws = settings.per_category.is_some() || settings.limit.is_some();
    if settings.ids.is_some() && (draws || settings.categories.is_some()) {
        return fail("ids already names the rows; leave out categories, per_category and limit".into());
    }
    if draws && settings.seed.is_none() {
        return fail("per_category and limit draw rows; give the draw a seed, such as seed: 1".into());
    }
    for (name, number) in [
        ("per_category", settings.per_category),
        ("limit", settings.limit),
        ("max_characters", settings.max_characters),
    ] {
        if number == Some(0) {
            return fail(format!("{name} is 0, which selects nothing; give at least 1"));
        }
    }
    for (name, list) in [("categories", &settings.categories), ("ids", &settings.ids)] {
        let Some(list) = list else { continue };
        if list.is_empty() {
            return fail(format!("{name} is empty, which selects nothing; leave it out to use all"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = list.iter().find(|item| !seen.insert(*item)) {
            return fail(format!("{name} names {twice} twice; name it once"));
        }
    }
    Ok(())
}

fn by_ids(
    rows: &[Row],
    ids: &[String],
    settings: &Select,
) -> Result<(Vec<SelectedRow>, Vec<Excluded>), SelectError> {
    let by_id: HashMap<_, _> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let unknown: Vec<_> = ids.iter().filter(|id| !by_id.contains_key(id.as_str())).cloned().collect();
    if !unknown.is_empty() {
        let end = |row: Option<&Row>| row.map(|row| row.id.clone()).unwrap_or_default();
        return Err(SelectError::UnknownIds {
            unknown,
            first: end(rows.iter().min_by(|a, b| a.compare_ids(b))),
            last: end(rows.iter().max_by(|a, b| a.compare_ids(b))),
        });
    }
    let named = ids.iter().map(|id| by_id[id.as_str()]).collect();
    let (kept, excluded) = within_length(named, settings);
    let why = |row: &Row| SelectedRow { row: cut(row, settings.turns), why: "named by its id".to_owned() };
    Ok((kept.into_iter().map(why).collect(), excluded))
}

fn by_draw(rows: &[Row], settings: &Select) -> Result<(Vec<SelectedRow>, Vec<Excluded>), SelectError> {
    let mut excluded = Vec::new();
    let mut picked = Vec::new();
    for (category, mut pool) in pools(rows, settings)? {
        pool.sort_by(|a, b| a.compare_ids(b));
        let present = pool.len();
        let (eligible, too_long) = within_length(pool, settings);
        let count = eligible.len();
        let drawn = match settings.per_category {
            Some(wanted) if wanted > count => {
                let (category, too_long) = (category.to_owned(), too_long.len());
                return Err(SelectError::TooFew { category, wanted, eligible: count, present, too_long });
            }
            Some(wanted) => first_by_draw(eligible, wanted, settings),
            None => eligible,
        };
        picked.extend(drawn.into_iter().map(|row| (row, why(settings, category, count))));
        excluded.extend(too_long);
    }
    if let Some(limit) = settings.limit.filter(|limit| *limit < picked.len()) {
        let all = picked.iter().map(|(row, _)| *row).collect();
        let kept: HashSet<_> =
            first_by_draw(all, limit, settings).into_iter().map(|row| row.id.as_str()).collect();
        picked.retain(|(row, _)| kept.contains(row.id.as_str()));
    }
    let picked =
        picked.into_iter().map(|(row, why)| SelectedRow { row: cut(row, settings.turns), why }).collect();
    Ok((picked, excluded))
}

/// The rows of each category that is asked for, in the order of output.
fn pools<'a>(rows: &'a [Row], settings: &'a Select) -> Result<Vec<(&'a str, Vec<&'a Row>)>, SelectError> {
    let mut pools: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        pools.entry(&row.category).or_default().push(row);
    }
    let Some(wanted) = &settings.categories else {
        return Ok(pools.into_iter().collect());
    };
    let known: BTreeSet<_> = pools.keys().map(|&name| name.to_owned()).collect();
    let unknown: Vec<_> = wanted.iter().filter(|name| !known.contains(*name)).cloned().collect();
    if !unknown.is_empty() {
        return Err(SelectError::UnknownCategory {
            unknown: unknown.join(", "),
            known: known.into_iter().collect(),
        });
    }
    Ok(wanted.iter().map(|name| (name.as_str(), pools.remove(name.as_str()).unwrap_or_default())).collect())
}

fn within_length<'a>(rows: Vec<&'a Row>, settings: &Select) -> (Vec<&'a Row>, Vec<Excluded>) {
    let Some(most) = settings.max_characters else {
        return (rows, Vec::new());
    };
    let mut excluded = Vec::new();
    let kept = rows.into_iter().filter(|row| {
        let characters = cut(row, settings.turns).characters();
        if characters > most {
            let reason = format!("{characters} characters, max_characters is {most}");
            excluded.push(Excluded { id: row.id.clone(), category: row.category.clone(), reason });
        }
        characters <= most
    });
    (kept.collect(), excluded)
}

/// Takes the first rows of the draw and puts them back into order by id.
fn first_by_draw<'a>(mut rows: Vec<&'a Row>, count: usize, settings: &Select) -> Vec<&'a Row> {
    let seed = settings.seed.unwrap_or_default();
    rows.sort_by_cached_key(|row| draw(seed, row));
    rows.truncate(count);
    rows.sort_by(|a, b| a.compare_ids(b));
    rows
}

fn why(settings: &Select, category: &str, eligible: usize) -> String {
    let seed = settings.seed.unwrap_or_default();
    let one = match settings.per_category {
        Some(count) => {
            format!("one of {count} drawn from the {eligible} of {category} by seed {seed}")
        }
        None if settings.categories.is_some() => format!("its category {category} is named"),
        None => "all rows are used".to_owned(),
    };
    match settings.limit {
        Some(limit) => format!("{one}, within the limit of {limit} by seed {seed}"),
        None => one,
    }
}

fn cut(row: &Row, turns: Turns) -> Row {
    let count = match turns {
        Turns::All => row.turns.len(),
        Turns::First => 1,
    };
    Row {
        id: row.id.clone(),
        category: row.category.clone(),
        tier: row.tier.clone(),
        turns: row.turns.iter().take(count).cloned().collect(),
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
