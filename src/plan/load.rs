//! Reads a plan with its targets, and collects every mistake of every file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;

use super::diagnostic::{Diagnostic, Diagnostics, Slip, SourceFile};
use super::document::{LANGUAGE, PlanDocument, TargetDocument};
use super::expand::Expansion;
use super::scope::Scope;
use super::tree::{Position, Tree, Value};
use super::typed::from_tree;
use super::{Plan, Target, params};

/// What is given beside the plan: the site, the command line, the process.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Values of the site file.
    pub site: BTreeMap<String, String>,
    /// `--set name=value`, in order; `TARGET.name` sets a target's parameter.
    pub set: Vec<(String, String)>,
    /// The process environment.
    pub variables: BTreeMap<String, String>,
}

/// A file that was read, with its mistakes so far.
pub(super) struct Loaded<T> {
    pub file: Arc<SourceFile>,
    pub tree: Tree,
    pub document: T,
    pub params: IndexMap<String, Value>,
}

/// Loads a plan. The error holds every mistake of every file.
pub fn load(path: &Path, given: &Given) -> Result<Plan, Diagnostics> {
    let mut mistakes = Mistakes::default();
    let Some(plan) = read::<PlanDocument>(path, given, &mut mistakes) else {
        return Err(mistakes.into_diagnostics());
    };
    mistakes.version(&plan.file, &plan.tree, plan.document.orchestrate);
    let base = path.parent().unwrap_or(Path::new("."));
    let mut targets = Vec::new();
    for (number, target) in plan.document.targets.iter().enumerate() {
        let path = base.join(target);
        if path.is_file() {
            targets.extend(read::<TargetDocument>(&path, given, &mut mistakes));
        } else {
            let at = item_position(&plan.tree, "targets", number);
            mistakes.add(
                &plan.file,
                Slip::new(at, format!("there is no target file {target}"))
                    .help("targets are named relative to the plan's file"),
            );
        }
    }
    for target in &targets {
        mistakes.version(&target.file, &target.tree, target.document.orchestrate);
    }
    mistakes.unknown_set(given, &plan, &targets);
    mistakes.names(&plan, &targets);
    let mut expansion = Expansion::new(&plan, &targets, given, &mut mistakes);
    expansion.expand();
    let (nodes, subjects) = expansion.finish();
    if mistakes.0.is_empty() {
        return Ok(Plan {
            name: plan.document.name,
            description: plan.document.description,
            path: path.to_owned(),
            targets: targets
                .into_iter()
                .map(|target| Target {
                    name: target.document.target,
                    about: target.document.about,
                    requires: target.document.requires,
                })
                .collect(),
            nodes,
            subjects,
        });
    }
    Err(mistakes.into_diagnostics())
}

/// Reads one file as far as it can be read without resolving references,
/// apart from `requires`, whose site values are resolved at once.
fn read<T: DeserializeOwned>(path: &Path, given: &Given, mistakes: &mut Mistakes) -> Option<Loaded<T>> {
    let file = match SourceFile::read(path) {
        Ok(file) => file,
        Err(diagnostic) => {
            mistakes.0.push(diagnostic);
            return None;
        }
    };
    let tree = match Tree::parse(&file.text) {
        Ok(tree) => tree,
        Err(slip) => {
            mistakes.add(&file, slip);
            return None;
        }
    };
    let mut slips = Vec::new();
    let prefix = match tree.get("target").map(|target| &target.value) {
        Some(Value::Text(name)) => name.clone(),
        _ => String::new(),
    };
    let params = params::resolve(&tree, &own_settings(given, &prefix), &mut slips);
    let tree = resolved_requirements(tree, given, &params, &mut slips);
    for slip in slips {
        mistakes.add(&file, slip);
    }
    match from_tree::<T>(&tree) {
        Ok(document) => Some(Loaded { file, tree, document, params }),
        Err(slip) => {
            mistakes.add(&file, slip);
            None
        }
    }
}

/// The `--set` values that belong to the plan (no prefix) or to a target.
fn own_settings(given: &Given, prefix: &str) -> Vec<(String, String)> {
    let own = given.set.iter().filter_map(|(name, value)| match name.split_once('.') {
        None if prefix.is_empty() => Some((name.clone(), value.clone())),
        Some((target, name)) if target == prefix => Some((name.to_owned(), value.clone())),
        _ => None,
    });
    own.collect()
}

/// A target's requirements decide whether anything else of it is looked at,
/// so a site value that is not given is an empty one here.
fn resolved_requirements(
    mut tree: Tree,
    given: &Given,
    params: &IndexMap<String, Value>,
    slips: &mut Vec<Slip>,
) -> Tree {
    let Value::Map(entries) = &mut tree.value else { return tree };
    for entry in entries.iter_mut().filter(|entry| entry.key == "requires") {
        let scope = Scope {
            params: params.clone(),
            site: given.site.clone(),
            site_optional: true,
            variables: given.variables.clone(),
            ..Scope::default()
        };
        entry.value = scope.substitute(&entry.value, slips);
    }
    tree
}

/// The position of an item of a list under a key, or of the key's value.
fn item_position(tree: &Tree, key: &str, number: usize) -> Position {
    match tree.get(key) {
        Some(Tree { value: Value::List(items), at, .. }) => items.get(number).map_or(*at, |item| item.at),
        Some(other) => other.at,
        None => tree.at,
    }
}

/// Every mistake found so far.
#[derive(Default)]
pub(super) struct Mistakes(Vec<Diagnostic>);

impl Mistakes {
    pub fn add(&mut self, file: &Arc<SourceFile>, slip: Slip) {
        self.0.push(Diagnostic { slip, file: Arc::clone(file) });
    }

    fn version(&mut self, file: &Arc<SourceFile>, tree: &Tree, version: u32) {
        if version > LANGUAGE {
            let at = tree.get("orchestrate").map_or(tree.at, |tree| tree.at);
            let message = format!("the file is of version {version}, this program reads up to {LANGUAGE}");
            self.add(file, Slip::new(at, message).help("use a newer orchestrate"));
        }
    }

    /// Names become parts of paths and of instance names, so they are plain,
    /// and two targets have two names.
    fn names(&mut self, plan: &Loaded<PlanDocument>, targets: &[Loaded<TargetDocument>]) {
        let is_name = |name: &str| {
            !name.is_empty()
                && !name.starts_with('.')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let help = "use letters, digits, `-`, `_` and `.`";
        let mut check = |file: &Arc<SourceFile>, name: &str, at: Position| {
            if !is_name(name) {
                self.add(file, Slip::new(at, format!("{name:?} cannot be a name")).help(help));
            }
        };
        let at = |tree: &Tree, key: &str| tree.get(key).map_or(tree.at, |tree| tree.at);
        check(&plan.file, &plan.document.name, at(&plan.tree, "name"));
        for entry in plan.tree.get("nodes").into_iter().flat_map(Tree::entries) {
            check(&plan.file, &entry.key, entry.at);
        }
        for target in targets {
            check(&target.file, &target.document.target, at(&target.tree, "target"));
            for entry in target.tree.get("nodes").into_iter().flat_map(Tree::entries) {
                check(&target.file, &entry.key, entry.at);
            }
        }
        for (number, target) in targets.iter().enumerate() {
            let name = &target.document.target;
            let twin = targets[..number].iter().find(|other| other.document.target == *name);
            if let Some(twin) = twin {
                let help = format!("the other is {}; rename one of them", twin.file.path.display());
                let slip = Slip::new(at(&target.tree, "target"), format!("two targets are named `{name}`"));
                self.add(&target.file, slip.help(help));
            }
        }
    }

    fn unknown_set(
        &mut self,
        given: &Given,
        plan: &Loaded<PlanDocument>,
        targets: &[Loaded<TargetDocument>],
    ) {
        let known: Vec<String> = plan
            .params
            .keys()
            .cloned()
            .chain(targets.iter().flat_map(|target| {
                let prefix = &target.document.target;
                target.params.keys().map(move |name| format!("{prefix}.{name}"))
            }))
            .collect();
        for (name, _) in given.set.iter().filter(|(name, _)| !known.contains(name)) {
            let near = super::diagnostic::nearest(name, known.iter().map(String::as_str));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("parameters of this plan: {}", known.join(", ")),
            };
            let slip = Slip::new(Position::default(), format!("--set {name}: there is no such parameter"));
            self.add(&plan.file, slip.help(help));
        }
    }

    fn into_diagnostics(mut self) -> Diagnostics {
        self.0.sort_by(|a, b| (&a.file.path, a.slip.at).cmp(&(&b.file.path, b.slip.at)));
        self.0.dedup();
        Diagnostics(self.0)
    }
}
