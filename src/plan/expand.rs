//! Makes every instance of every node, typed, and every subject.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;

use super::diagnostic::{Slip, nearest};
use super::document::{CommonSettings, PlanDocument, SubjectDocument, TargetDocument};
use super::late::Late;
use super::lattice::{Lattice, Steps, Vertex};
use super::load::Mistakes;
use super::mention::Mention;
use super::sheet::{Sheet, Written};
use super::tree::{Entry, Position, Tree, Value};
use super::typed::{from_entries, from_entry};
use super::{PlannedNode, Subject};
use crate::node::{self, KINDS};

/// The settings every node has, beside its kind.
const COMMON: [&str; 7] = ["needs", "timeout", "max_age", "quiet", "retry", "resources", "sweep"];
/// Most instances of one plan, and most subjects.
const INSTANCES: usize = 100_000;
/// Most bytes of the settings of all instances.
const ROOM: usize = 128 << 20;
/// Bytes that a value takes beside its text.
const BYTES_OF_VALUE: usize = 64;

/// A plan's instances.
pub(super) struct Expanded {
    pub nodes: IndexMap<String, PlannedNode>,
    pub subjects: Vec<Subject>,
}

/// Makes every instance. The order is that of the files: what exists once,
/// then target by target. In an `open` plan, of which only a part is looked
/// at, what is not there may be in the rest.
pub(super) fn expand(
    plan: &Sheet<PlanDocument>,
    targets: &[Sheet<TargetDocument>],
    open: bool,
    mistakes: &mut Mistakes,
) -> Expanded {
    let lattice = Lattice::new(plan, targets, open, mistakes);
    if lattice.is_too_large {
        return Expanded { nodes: IndexMap::new(), subjects: Vec::new() };
    }
    let facts: Vec<BTreeMap<String, String>> = targets.iter().map(facts).collect();
    let mut nodes = IndexMap::with_capacity(lattice.vertices.len());
    let room = Cell::new(ROOM);
    for (number, vertex) in lattice.vertices.iter().enumerate() {
        if mistakes.is_enough() {
            return Expanded { nodes, subjects: Vec::new() };
        }
        let written = lattice.written[vertex.node];
        let Some(combinations) = combinations(&lattice, vertex, nodes.len()) else {
            let message =
                format!("`{}` would have too many instances: a plan has at most {INSTANCES}", written.name);
            let slip = Slip::new(written.at, message).help("sweep over fewer values, or in several plans");
            mistakes.add(&written.file, slip);
            continue;
        };
        let mentions = &lattice.mentions[vertex.node];
        let bytes = BYTES_OF_VALUE * mentions.nodes.len() + bytes(&written.tree);
        for steps in combinations {
            room.set(room.get().saturating_sub(bytes));
            let referred = lattice.referred_by(number, &steps);
            let (lattice, target) = (&lattice, vertex.target);
            let (facts, steps, referred) = (&facts, &steps, &referred);
            let late = Late { lattice, target, facts, steps, mentions, referred, room: &room };
            let mut slips = Vec::new();
            let instance = instance(written, &late, number, &mut slips);
            if room.get() == 0 {
                let message = format!("with `{}` the settings of all instances are too long", written.name);
                let help = "sweep over fewer values, or refer to long texts less often";
                mistakes.add(&written.file, Slip::new(written.at, message).help(help));
                return Expanded { nodes, subjects: Vec::new() };
            }
            mistakes.add_all(&written.file, slips);
            nodes.extend(instance.map(|node| (node.name.clone(), node)));
        }
    }
    let subjects = subjects(plan, targets, &lattice, mistakes);
    Expanded { nodes, subjects }
}

/// About how many bytes a node's settings take.
fn bytes(tree: &Tree) -> usize {
    let inside = match &tree.value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(bytes).sum(),
        Value::Map(entries) => entries.iter().map(|entry| entry.key.len() + bytes(&entry.value)).sum(),
        _ => 0,
    };
    BYTES_OF_VALUE + inside
}

/// What `${target.…}` stands for.
fn facts(target: &Sheet<TargetDocument>) -> BTreeMap<String, String> {
    let mut facts = target.document.about.clone();
    // Those of a file with mistakes elsewhere are no mistakes themselves.
    for entry in target.tree.get("about").map(Tree::entries).unwrap_or_default() {
        facts.entry(entry.key.clone()).or_insert_with(|| entry.value.value.as_text().unwrap_or_default());
    }
    facts.insert("name".to_owned(), target.document.target.clone());
    facts
}

/// Every combination of the steps of a vertex's axes, the last axis fastest;
/// nothing where there would be too many.
fn combinations(lattice: &Lattice<'_>, vertex: &Vertex, so_far: usize) -> Option<Vec<Vec<(usize, usize)>>> {
    let lengths = || vertex.axes.iter().map(|axis| lattice.axes[*axis].points.len());
    let count = lengths().try_fold(1_usize, usize::checked_mul)?;
    if so_far.checked_add(count)? > INSTANCES {
        return None;
    }
    let combination = |mut number: usize| {
        let mut steps: Vec<(usize, usize)> = Vec::with_capacity(vertex.axes.len());
        for axis in vertex.axes.iter().rev() {
            let length = lattice.axes[*axis].points.len();
            steps.push((*axis, number % length));
            number /= length;
        }
        steps.reverse();
        steps
    };
    Some((0..count).map(combination).collect())
}

fn instance(written: &Written, late: &Late<'_>, vertex: usize, slips: &mut Vec<Slip>) -> Option<PlannedNode> {
    let before = slips.len();
    let (kind, mut entries) = kind_of(written, slips)?;
    let known: Vec<Entry>;
    if slips.len() > before {
        known = entries.iter().filter(|entry| COMMON.contains(&entry.key.as_str())).cloned().collect();
        entries = &known;
    }
    let lattice = late.lattice;
    if lattice.open && late.is_incomplete(&lattice.mentions[lattice.vertices[vertex].node]) {
        return None;
    }
    let mentions = &lattice.mentions[lattice.vertices[vertex].node];
    let settings = if mentions.any { Cow::Owned(late.entry(kind, slips)) } else { Cow::Borrowed(kind) };
    let common: Option<CommonSettings> = from_entries(entries, &kind.key, kind.at, slips);
    let read = from_entry::<node::Kind>(&settings, slips);
    if slips.len() > before {
        point_out_common(kind, &mut slips[before..]);
        return None;
    }
    let (kind, common) = (read?, common?);
    let referred = |is_need: bool| {
        let named = mentions.nodes.iter().zip(late.referred);
        named.filter(|(mention, _)| mention.is_need == is_need).filter_map(|(_, name)| name.clone()).collect()
    };
    Some(PlannedNode {
        name: lattice.instance_name(vertex, late.steps),
        kind: Arc::new(kind),
        references: referred(false),
        needs: referred(true),
        timeout: common.timeout,
        max_age: common.max_age,
        retry: common.retry,
        resources: common.resources,
        quiet: common.quiet,
        target: late.target.map(|target| lattice.targets[target].to_owned()),
        sweep: lattice.labels(late.steps),
        file: Arc::clone(&written.file),
        at: written.at,
    })
}

/// Settings of every node that stand among those of the kind are in the wrong
/// place only.
fn point_out_common(kind: &Entry, slips: &mut [Slip]) {
    for setting in kind.value.entries().iter().filter(|setting| COMMON.contains(&setting.key.as_str())) {
        let is_unknown = |slip: &&mut Slip| slip.at == setting.at && slip.message.starts_with("unknown key");
        if let Some(slip) = slips.iter_mut().find(is_unknown) {
            let name = &setting.key;
            slip.help =
                Some(format!("every node has `{name}`: write it beside `{}`, not below it", kind.key));
        }
    }
}

/// The entry that names the node's kind, and all entries.
fn kind_of<'a>(written: &'a Written, slips: &mut Vec<Slip>) -> Option<(&'a Entry, &'a [Entry])> {
    let Written { name, at, tree, .. } = written;
    let kinds = || format!("kinds: {}", KINDS.join(", "));
    let Value::Map(entries) = &tree.value else {
        let message = format!("the node `{name}` is {}, not a kind with its settings", tree.value.describe());
        let slip = Slip::new(if tree.value == Value::Null { *at } else { tree.at }, message);
        slips.push(slip.help(format!("write its kind below its name; {}", kinds())));
        return None;
    };
    let is_kind = |entry: &&Entry| KINDS.contains(&entry.key.as_str());
    let unknown = entries.iter().filter(|entry| !is_kind(entry) && !COMMON.contains(&entry.key.as_str()));
    let before = slips.len();
    let empty = entries.iter().find(|entry| is_kind(entry) && entry.value.value == Value::Null);
    for entry in unknown {
        if let Some(kind) = empty {
            let message = format!("`{}` stands beside `{}`, which has no settings", entry.key, kind.key);
            slips.push(Slip::new(entry.at, message).help(format!("indent it below `{}:`", kind.key)));
            continue;
        }
        let help = match nearest(&entry.key, KINDS.iter().chain(&COMMON).copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("beside {}, a node has one kind; {}", COMMON.join(", "), kinds()),
        };
        let message = format!("`{}` is neither a kind nor a setting that every node has", entry.key);
        slips.push(Slip::new(entry.at, message).help(help));
    }
    let mut found = entries.iter().filter(is_kind);
    match (found.next(), found.next()) {
        (Some(_), None) if empty.is_some() && slips.len() > before => {}
        (Some(kind), None) => return Some((kind, entries)),
        (Some(first), Some(second)) => {
            let message = format!("the node `{name}` has both `{}` and `{}`", first.key, second.key);
            slips.push(Slip::new(second.at, message).help("a node has one kind; make two nodes of it"));
        }
        (None, _) if slips.len() == before => {
            slips.push(Slip::new(*at, format!("the node `{name}` names no kind")).help(kinds()));
        }
        (None, _) => {}
    }
    None
}

/// Every subject, for each target and each step of the sweeps its nodes
/// depend on.
fn subjects(
    plan: &Sheet<PlanDocument>,
    targets: &[Sheet<TargetDocument>],
    lattice: &Lattice<'_>,
    mistakes: &mut Mistakes,
) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for entry in plan.tree.get("subjects").map(Tree::entries).unwrap_or_default() {
        mistakes.name(&plan.file, &entry.key, entry.at);
        let Some(document) = plan.document.subjects.get(&entry.key) else { continue };
        let roles = roles(document, &entry.value);
        let of_target: Vec<Option<usize>> = match targets.len() {
            0 => vec![None],
            count => (0..count).map(Some).collect(),
        };
        for target in of_target {
            let mut vertex = Vertex { node: 0, target, axes: Vec::new(), meant: Vec::new() };
            for (_, mention) in &roles {
                let found = lattice.find(mention, target);
                vertex.meant.push(found.as_ref().ok().copied());
                match found {
                    Ok(found) => vertex.axes.extend(lattice.free_axes(mention, found)),
                    Err(slip) => mistakes.add(&plan.file, slip),
                }
            }
            vertex.axes.sort_unstable();
            vertex.axes.dedup();
            let Some(combinations) = combinations(lattice, &vertex, subjects.len()) else {
                let message =
                    format!("`{}` would be too many: a plan has at most {INSTANCES} subjects", entry.key);
                let slip = Slip::new(entry.at, message).help("sweep over fewer values, or in several plans");
                mistakes.add(&plan.file, slip);
                return subjects;
            };
            if mistakes.is_enough() {
                return subjects;
            }
            for steps in combinations {
                let target = target.map(|number| &targets[number]);
                subjects.extend(subject(plan, entry, document, &roles, target, lattice, &vertex, &steps));
            }
        }
    }
    subjects
}

/// The nodes of a subject by role.
fn roles(document: &SubjectDocument, tree: &Tree) -> Vec<(&'static str, Mention)> {
    let role = |(role, input): (&'static str, &crate::value::Input)| {
        let at = tree.get(role).map_or(tree.at, |role| role.at);
        (role, Mention::of("", input.0.clone(), at, false))
    };
    document.roles().map(role).into()
}

#[expect(clippy::too_many_arguments, reason = "one subject is where everything of a plan meets")]
fn subject(
    plan: &Sheet<PlanDocument>,
    entry: &Entry,
    document: &SubjectDocument,
    roles: &[(&'static str, Mention)],
    target: Option<&Sheet<TargetDocument>>,
    lattice: &Lattice<'_>,
    vertex: &Vertex,
    steps: &Steps,
) -> Option<Subject> {
    let labels = lattice.labels(steps);
    let swept = labels.iter().map(|(name, label)| format!("{name}={label}")).collect::<Vec<_>>().join(",");
    let own = if swept.is_empty() { entry.key.clone() } else { format!("{}[{swept}]", entry.key) };
    let target_name = target.map(|target| target.document.target.as_str());
    let parts = [Some(plan.document.name.as_str()), target_name, Some(own.as_str())];
    let mut about = target.map(|target| target.document.about.clone()).unwrap_or_default();
    about.extend(labels);
    let named = |((role, mention), meant): (&(&str, Mention), &Option<usize>)| {
        Some(((*role).to_owned(), lattice.instance_meant(mention, (*meant)?, steps)?))
    };
    Some(Subject {
        name: parts.into_iter().flatten().collect::<Vec<_>>().join("/"),
        target: target_name.unwrap_or_default().to_owned(),
        mode: document.mode,
        error_limit: document.error_limit,
        about,
        roles: roles.iter().zip(&vertex.meant).map(named).collect::<Option<_>>()?,
        mode_at: entry.value.get("mode").map_or(entry.at, |mode| mode.at),
        places: roles.iter().map(|(_, mention)| mention.at).collect::<Vec<Position>>(),
    })
}
