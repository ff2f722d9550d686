//! Sweeps: names that take values in turn, and the names of instances.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::diagnostic::{Slip, SourceFile};
use super::params::scalar;
use super::tree::{Entry, Origin, Position, Tree, Value};
use crate::value::reference::{Piece, pieces};

/// Most characters of a name, which becomes a part of longer ones.
const LONGEST_LABEL: usize = 128;

/// Names whose values change together: one name of a grid, or all of a zip.
#[derive(Debug)]
pub(super) struct Axis {
    /// What `${sweep.…}` calls them.
    pub names: Vec<String>,
    /// The steps in order.
    pub points: Vec<Point>,
    /// The file it is written in.
    pub file: Arc<SourceFile>,
    /// Where in that file.
    pub at: Position,
    /// For each name, the steps by their labels; none where several have one.
    by_label: OnceCell<Vec<HashMap<String, Option<usize>>>>,
}

/// One step of an axis.
#[derive(Debug)]
pub(super) struct Point {
    /// How instances are called by it, one label for each name of the axis.
    pub labels: Vec<String>,
    /// What `${sweep.…}` stands for, one value for each name of the axis.
    pub values: Vec<Tree>,
}

impl Axis {
    /// The number of the only point with this label under this name.
    pub fn point(&self, name: &str, label: &str) -> Option<usize> {
        let column = self.names.iter().position(|known| known == name)?;
        *self.by_label.get_or_init(|| self.label_columns())[column].get(label)?
    }

    fn label_columns(&self) -> Vec<HashMap<String, Option<usize>>> {
        let mut columns = vec![HashMap::new(); self.names.len()];
        for (number, point) in self.points.iter().enumerate() {
            for (column, label) in columns.iter_mut().zip(&point.labels) {
                column.entry(label.clone()).and_modify(|one| *one = None).or_insert(Some(number));
            }
        }
        columns
    }

    fn refuse_repetition(&self, slips: &mut Vec<Slip>) {
        let mut known = HashSet::new();
        for (number, point) in self.points.iter().enumerate() {
            if !known.insert(&point.labels) {
                let at = point.values.first().map_or(self.at, |value| value.at);
                let message = format!("the sweep takes the step {} twice", self.label(number));
                slips.push(Slip::new(at, message).help("remove one of them"));
            }
        }
    }

    /// `concurrency=4`, or `corpus=a,tokens=16` for a zip.
    pub fn label(&self, point: usize) -> String {
        let labels = &self.points[point].labels;
        let pairs = self.names.iter().zip(labels).map(|(name, label)| format!("{name}={label}"));
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// Reads the axes of a `sweep:`.
pub(super) fn axes(sweep: &Tree, file: &Arc<SourceFile>, slips: &mut Vec<Slip>) -> Vec<Axis> {
    let mut axes = Vec::new();
    if sweep.entries().is_empty() {
        slips.push(nothing(sweep.at));
    }
    for form in sweep.entries() {
        let columns: Vec<Column> =
            form.value.entries().iter().map(|entry| Column::read(entry, slips)).collect();
        let is_form = ["grid", "zip"].contains(&form.key.as_str());
        if !is_form {
            slips.push(no_form(form));
        } else if columns.is_empty() {
            slips.push(nothing(form.value.at));
        }
        match form.key.as_str() {
            "zip" => axes.extend(zipped(columns, form.at, file, slips)),
            _ if columns.is_empty() && !is_form => {
                axes.push(Column::unknown(&form.key, form.at).into_axis(file));
            }
            _ => axes.extend(columns.into_iter().map(|column| column.into_axis(file))),
        }
    }
    for axis in &axes {
        axis.refuse_repetition(slips);
    }
    axes
}

/// A key of a sweep that is neither of its two.
fn no_form(form: &Entry) -> Slip {
    let help = match form.value.value {
        Value::List(_) => format!("write grid: {{{}: […]}}", form.key),
        _ => "a sweep has `grid:` (every combination) or `zip:` (step by step)".to_owned(),
    };
    Slip::new(form.at, format!("`{}` stands where `grid` or `zip` is needed", form.key)).help(help)
}

/// A sweep is what instances are made from, so its values are known before.
fn refuse_references(values: &Tree, slips: &mut Vec<Slip>) {
    values.visit_texts(&mut |text, at| {
        let references = pieces(text).unwrap_or_default();
        if references.iter().any(|piece| matches!(piece, Piece::Reference(_))) {
            let slip =
                Slip::new(at, format!("the value {text:?} of a sweep is not known before its nodes are"));
            slips.push(slip.help("write the values out, or take them from parameters"));
        }
    });
}

fn nothing(at: Position) -> Slip {
    Slip::new(at, "this sweeps over nothing").help("write grid: {NAME: [VALUE, …]}, or remove it")
}

/// One name with its values.
struct Column {
    name: String,
    at: Position,
    steps: Vec<(String, Tree)>,
}

impl Column {
    /// What stands for a name whose values are wrong.
    fn unknown(name: &str, at: Position) -> Self {
        Self { name: name.to_owned(), at, steps: vec![("…".to_owned(), Tree::unknown(at))] }
    }

    fn into_axis(self, file: &Arc<SourceFile>) -> Axis {
        let point = |(label, value)| Point { labels: vec![label], values: vec![value] };
        let points = self.steps.into_iter().map(point).collect();
        Axis {
            names: vec![self.name],
            at: self.at,
            file: Arc::clone(file),
            points,
            by_label: OnceCell::new(),
        }
    }

    fn read(entry: &Entry, slips: &mut Vec<Slip>) -> Self {
        let before = slips.len();
        let name = &entry.key;
        if name == "target" || !is_label(name) {
            let help = "use letters, digits, `-`, `_` and `.`; `target` is the plan's own";
            slips.push(Slip::new(entry.at, format!("{name:?} cannot be the name of a sweep")).help(help));
        }
        let steps: Vec<(String, Tree)> = match &entry.value.value {
            Value::List(items) => items
                .iter()
                .filter_map(|item| Some((scalar(item, name, slips)?.as_text()?, item.clone())))
                .collect(),
            Value::Map(named) => named
                .iter()
                .map(|step| (step.key.clone(), Tree { at: step.at, ..step.value.clone() }))
                .collect(),
            other => {
                let message = format!("the values of `{name}` are {}, not a list", other.describe());
                slips.push(Slip::new(entry.value.at, message).help("write [VALUE, …]"));
                return Self::unknown(name, entry.at);
            }
        };
        if steps.is_empty() && slips.len() == before {
            slips.push(nothing(entry.value.at));
        }
        for (label, value) in &steps {
            if !is_label(label) {
                let message = format!("{label:?} cannot be part of an instance's name");
                let help =
                    format!("give it a name of letters, digits, `-`, `_` and `.`: {name}: {{NAME: VALUE}}");
                slips.push(Slip::new(value.at, message).help(help));
            }
        }
        refuse_references(&entry.value, slips);
        if slips.len() > before {
            return Self::unknown(name, entry.at);
        }
        Self { name: name.clone(), at: entry.at, steps }
    }
}

/// One axis of all columns, if they have as many steps.
fn zipped(
    mut columns: Vec<Column>,
    at: Position,
    file: &Arc<SourceFile>,
    slips: &mut Vec<Slip>,
) -> Option<Axis> {
    let first = columns.first()?;
    let (mut length, name) = (first.steps.len(), first.name.clone());
    let is_known = |column: &Column| column.steps.iter().all(|(_, value)| value.origin != Origin::Unknown);
    if let Some(other) = columns.iter().find(|column| column.steps.len() != length) {
        if columns.iter().all(is_known) {
            let message =
                format!("`{}` takes {} values and `{name}` takes {length}", other.name, other.steps.len());
            let help = "a zip needs as many values of each; `grid:` combines all";
            slips.push(Slip::new(other.at, message).help(help));
        }
        columns = columns.iter().map(|column| Column::unknown(&column.name, column.at)).collect();
        length = 1;
    }
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let mut points: Vec<Point> =
        (0..length).map(|_| Point { labels: Vec::new(), values: Vec::new() }).collect();
    for column in columns {
        for (point, (label, value)) in points.iter_mut().zip(column.steps) {
            point.labels.push(label);
            point.values.push(value);
        }
    }
    Some(Axis { names, points, file: Arc::clone(file), at, by_label: OnceCell::new() })
}

/// Whether text can be part of an instance's name, and so of a path.
pub(super) fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_LABEL
        && !text.starts_with('.')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
}
