//! Loads a plan with its targets and fragments, and collects every mistake of
//! every file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Diagnostics, MOST, Slip, SourceFile, nearest};
use super::document::{PlanDocument, TargetDocument};
use super::expand::{Expanded, expand};
use super::files::{Disk, Files};
use super::sheet::{Asker, Parsed, Sheet, SheetReader, Written};
use super::tree::{Origin, Position, Tree};
use super::{Plan, Target, review};

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

/// Loads a plan from the file system. The error holds every mistake of every
/// file.
pub fn load(path: &Path, given: &Given) -> Result<Plan, Diagnostics> {
    load_from(&Disk, path, given)
}

/// Loads a plan from wherever its files are.
pub fn load_from(files: &dyn Files, path: &Path, given: &Given) -> Result<Plan, Diagnostics> {
    match Parsed::read(files, path) {
        Ok(parsed) => load_parsed(files, parsed, given),
        Err(diagnostic) => Err(Diagnostics(vec![diagnostic])),
    }
}

/// Loads a plan whose own file has been parsed.
pub(super) fn load_parsed(files: &dyn Files, parsed: Parsed, given: &Given) -> Result<Plan, Diagnostics> {
    let path = &parsed.file.path.clone();
    let mut mistakes = Mistakes::default();
    let mut reader = SheetReader::new(files, given, &mut mistakes, false).with(parsed);
    let plan = reader.read::<PlanDocument>(path, None, |_| Some(String::new()));
    let targets = plan.as_ref().map(|plan| targets(&mut reader, plan)).unwrap_or_default();
    let Some(plan) = plan else { return Err(mistakes.into_diagnostics()) };
    mistakes.names(&plan, &targets);
    mistakes.unknown_set(given, &plan, &targets);
    let Expanded { nodes, subjects } = expand(&plan, &targets, false, &mut mistakes);
    let plan = Plan {
        name: plan.document.name,
        description: plan.document.description,
        file: plan.file,
        targets: targets.into_iter().map(|target| described(target.document)).collect(),
        resources: plan.document.resources,
        nodes,
        subjects,
    };
    if mistakes.is_empty() {
        review::review(&plan, &mut mistakes);
    }
    if mistakes.is_empty() { Ok(plan) } else { Err(mistakes.into_diagnostics()) }
}

fn described(document: TargetDocument) -> Target {
    Target { name: document.target, about: document.about, requires: document.requires }
}

fn targets(reader: &mut SheetReader<'_>, plan: &Sheet<PlanDocument>) -> Vec<Sheet<TargetDocument>> {
    let base = plan.file.path.parent().unwrap_or(Path::new(""));
    let named = plan.tree.get("targets").map(Tree::items).unwrap_or_default();
    let mut known = HashSet::new();
    let read = named.iter().filter_map(|item| {
        let name = item.text()?;
        if !known.insert(name) {
            let message = format!("the target file {name} is listed twice");
            reader.mistakes.add(&plan.file, Slip::new(item.at, message).help("remove one of them"));
            return None;
        }
        let asker = Asker { file: &plan.file, at: item.at, what: "target" };
        reader.read(&base.join(name), Some(&asker), prefix)
    });
    read.collect()
}

/// The name of a file, although the rest of it may be wrong.
fn written_name(tree: &Tree, key: &str) -> Option<String> {
    let name = tree.get(key).filter(|name| name.origin != Origin::Unknown)?;
    name.value.as_text()
}

/// A target's parameters are set as `TARGET.name`.
pub(super) fn prefix(target: &Tree) -> Option<String> {
    target.get("target")?.text().map(str::to_owned)
}

/// Every mistake found so far.
#[derive(Default)]
pub(super) struct Mistakes(Vec<Diagnostic>);

impl Mistakes {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether so many are known that no more are looked for.
    pub fn is_enough(&self) -> bool {
        self.0.len() > MOST
    }

    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.is_enough() && !self.0.contains(&diagnostic) {
            self.0.push(diagnostic);
        }
    }

    pub fn add(&mut self, file: &Arc<SourceFile>, slip: Slip) {
        self.push(Diagnostic { slip, file: Arc::clone(file) });
    }

    pub fn add_all(&mut self, file: &Arc<SourceFile>, slips: Vec<Slip>) {
        for slip in slips {
            self.add(file, slip);
        }
    }

    /// Names are plain, and no name means two things.
    pub fn names(&mut self, plan: &Sheet<PlanDocument>, targets: &[Sheet<TargetDocument>]) {
        let at = |tree: &Tree, key: &str| tree.get(key).map_or(tree.at, |tree| tree.at);
        if let Some(name) = written_name(&plan.tree, "name") {
            self.name(&plan.file, &name, at(&plan.tree, "name"));
        }
        let nodes = plan.nodes.iter().chain(targets.iter().flat_map(|target| &target.nodes));
        for node in nodes {
            self.name(&node.file, &node.name, node.at);
        }
        let of_plan: HashMap<&str, &Written> =
            plan.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let mut first: HashMap<String, &Sheet<TargetDocument>> = HashMap::new();
        for target in targets {
            if let Some(name) = written_name(&target.tree, "target") {
                let place = at(&target.tree, "target");
                self.name(&target.file, &name, place);
                if let Some(twin) = first.get(&name) {
                    let help = format!("the other is {}; rename one of them", twin.file.path.display());
                    let message = format!("two targets are named `{name}`");
                    self.add(&target.file, Slip::new(place, message).help(help));
                } else {
                    first.insert(name, target);
                }
            }
            for node in &target.nodes {
                if let Some(twin) = of_plan.get(node.name.as_str()) {
                    let place = format!("{}:{}", twin.file.path.display(), twin.at.line);
                    let message = format!("the plan and its target both have a node `{}`", node.name);
                    let help = format!("the other is at {place}; rename one of them");
                    self.add(&node.file, Slip::new(node.at, message).help(help));
                }
            }
        }
    }

    fn unknown_set(&mut self, given: &Given, plan: &Sheet<PlanDocument>, targets: &[Sheet<TargetDocument>]) {
        let of_targets = targets.iter().flat_map(|target| {
            let prefix = written_name(&target.tree, "target").unwrap_or_default();
            target.params.values.keys().map(move |name| format!("{prefix}.{name}"))
        });
        let known: Vec<String> = plan.params.values.keys().cloned().chain(of_targets).collect();
        for (name, _) in given.set.iter().filter(|(name, _)| !known.contains(name)) {
            let help = match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "this plan has no parameters".to_owned(),
                None => format!("parameters of this plan: {}", known.join(", ")),
            };
            let slip = Slip::new(Position::default(), format!("--set {name}: there is no such parameter"));
            self.add(&plan.file, slip.help(help));
        }
    }

    pub fn into_diagnostics(mut self) -> Diagnostics {
        self.0.sort_by(|a, b| (&a.file.path, a.slip.at).cmp(&(&b.file.path, b.slip.at)));
        Diagnostics::first(self.0)
    }
}
