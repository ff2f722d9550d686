//! Sweeps a plan's nodes over its targets and types every instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;

use super::diagnostic::{Slip, SourceFile, nearest};
use super::document::{CommonSettings, PlanDocument, SubjectDocument, TargetDocument};
use super::load::{Given, Loaded, Mistakes};
use super::scope::{Scope, mentions};
use super::tree::{Entry, Tree, Value};
use super::typed::from_tree;
use super::{PlannedNode, Subject};
use crate::host::Requirement;
use crate::node::{self, KINDS};

/// The settings every node has, beside its kind.
const COMMON: [&str; 2] = ["needs", "timeout"];

/// A plan whose nodes are being expanded.
pub(super) struct Expansion<'a> {
    plan: &'a Loaded<PlanDocument>,
    targets: &'a [Loaded<TargetDocument>],
    given: &'a Given,
    mistakes: &'a mut Mistakes,
    /// Nodes that exist once per target, by the name as written.
    swept: BTreeSet<String>,
    nodes: IndexMap<String, PlannedNode>,
    subjects: Vec<Subject>,
}

impl<'a> Expansion<'a> {
    pub fn new(
        plan: &'a Loaded<PlanDocument>,
        targets: &'a [Loaded<TargetDocument>],
        given: &'a Given,
        mistakes: &'a mut Mistakes,
    ) -> Self {
        let swept = swept(plan, targets);
        Self { plan, targets, given, mistakes, swept, nodes: IndexMap::new(), subjects: Vec::new() }
    }

    pub fn finish(self) -> (IndexMap<String, PlannedNode>, Vec<Subject>) {
        (self.nodes, self.subjects)
    }

    /// Makes every instance. The order is that of the files: what exists
    /// once, then target by target.
    pub fn expand(&mut self) {
        self.check_clashes();
        let scope = self.scope(None);
        for entry in entries(&self.plan.tree, "nodes") {
            if !self.swept.contains(&entry.key) {
                self.instance(entry, &self.plan.file, &scope, None);
            }
        }
        for target in self.targets {
            let name = target.document.target.as_str();
            let own = self.scope(Some(target));
            for entry in entries(&target.tree, "nodes") {
                self.instance(entry, &target.file, &own, Some(name));
            }
            let scope = Scope { params: self.plan.params.clone(), ..own };
            for entry in entries(&self.plan.tree, "nodes") {
                if self.swept.contains(&entry.key) {
                    self.instance(entry, &self.plan.file, &scope, Some(name));
                }
            }
        }
        self.subjects();
    }

    fn scope(&self, target: Option<&Loaded<TargetDocument>>) -> Scope {
        let mut nodes = outputs(&self.plan.tree);
        let mut scope = Scope {
            params: self.plan.params.clone(),
            site: self.given.site.clone(),
            variables: self.given.variables.clone(),
            ..Scope::default()
        };
        let written_in: Vec<_> = match target {
            Some(target) => vec![target],
            None => self.targets.iter().collect(),
        };
        nodes.extend(written_in.iter().flat_map(|target| outputs(&target.tree)));
        scope.nodes = nodes;
        if let Some(target) = target {
            let name = &target.document.target;
            scope.params.clone_from(&target.params);
            scope.target.clone_from(&target.document.about);
            scope.target.insert("name".to_owned(), name.clone());
            scope.required_site = target
                .document
                .requires
                .iter()
                .filter_map(|requirement| match requirement {
                    Requirement::Site(name) => Some(name.clone()),
                    _ => None,
                })
                .collect();
            scope.instances =
                self.swept.iter().map(|node| (node.clone(), instance_name(node, name))).collect();
        }
        scope
    }

    fn check_clashes(&mut self) {
        for target in self.targets {
            for entry in entries(&target.tree, "nodes") {
                let twin = entries(&self.plan.tree, "nodes").iter().find(|other| other.key == entry.key);
                if let Some(twin) = twin {
                    let help = format!(
                        "the other is at {}:{}; rename one of them",
                        self.plan.file.path.display(),
                        twin.at.line
                    );
                    let message = format!("the plan and its target both have a node `{}`", entry.key);
                    self.mistakes.add(&target.file, Slip::new(entry.at, message).help(help));
                }
            }
        }
    }

    fn instance(&mut self, entry: &Entry, file: &Arc<SourceFile>, scope: &Scope, target: Option<&str>) {
        let mut slips = Vec::new();
        let tree = scope.substitute(&entry.value, &mut slips);
        if !slips.is_empty() {
            for slip in slips {
                self.mistakes.add(file, slip);
            }
            return;
        }
        match typed_node(&tree, entry, scope) {
            Ok((kind, common)) => {
                let name =
                    target.map_or_else(|| entry.key.clone(), |target| instance_name(&entry.key, target));
                let needs = common.needs.iter();
                let needs = needs
                    .map(|need| scope.instances.get(need).cloned().unwrap_or_else(|| need.clone()))
                    .collect();
                let node = PlannedNode {
                    name: name.clone(),
                    kind: Arc::new(kind),
                    needs,
                    timeout: common.timeout,
                    target: target.map(str::to_owned),
                    file: Arc::clone(file),
                    at: entry.at,
                };
                self.nodes.insert(name, node);
            }
            Err(slip) => self.mistakes.add(file, slip),
        }
    }

    /// Names the instances that each subject stands on.
    fn subjects(&mut self) {
        for entry in entries(&self.plan.tree, "subjects") {
            let Some(document) = self.plan.document.subjects.get(&entry.key) else { continue };
            for (_, input) in document.roles() {
                let name = &input.0.node;
                if !self.scope(None).nodes.contains_key(name) {
                    let known = self.scope(None).nodes;
                    let near = nearest(name, known.keys().map(String::as_str));
                    let mut slip = Slip::new(
                        entry.at,
                        format!("the subject `{}` refers to a node `{name}` that does not exist", entry.key),
                    );
                    slip.help = near.map(|near| format!("did you mean `{near}`?"));
                    self.mistakes.add(&self.plan.file, slip);
                }
            }
            if self.targets.is_empty() {
                self.subjects.push(self.subject(&entry.key, document, None));
            }
            for target in self.targets {
                self.subjects.push(self.subject(&entry.key, document, Some(target)));
            }
        }
    }

    fn subject(
        &self,
        name: &str,
        document: &SubjectDocument,
        target: Option<&Loaded<TargetDocument>>,
    ) -> Subject {
        let target_name = target.map(|target| target.document.target.as_str());
        let instance = |node: &str| match target_name {
            Some(target) if self.swept.contains(node) => instance_name(node, target),
            _ => node.to_owned(),
        };
        let parts = [Some(self.plan.document.name.as_str()), target_name, Some(name)];
        Subject {
            name: parts.into_iter().flatten().collect::<Vec<_>>().join("/"),
            target: target_name.unwrap_or_default().to_owned(),
            mode: document.mode,
            error_limit: document.error_limit,
            about: target.map(|target| target.document.about.clone()).unwrap_or_default(),
            roles: document.roles().map(|(role, input)| (role.to_owned(), instance(&input.0.node))).to_vec(),
        }
    }
}

/// `load[target=llama-cpp]`.
fn instance_name(node: &str, target: &str) -> String {
    format!("{node}[target={target}]")
}

fn entries<'a>(tree: &'a Tree, key: &str) -> &'a [Entry] {
    tree.get(key).map(Tree::entries).unwrap_or_default()
}

/// Nodes of targets, and nodes of the plan that depend on one of those or on
/// the target itself, directly or through others.
fn swept(plan: &Loaded<PlanDocument>, targets: &[Loaded<TargetDocument>]) -> BTreeSet<String> {
    let mut swept: BTreeSet<String> = targets
        .iter()
        .flat_map(|target| entries(&target.tree, "nodes").iter().map(|entry| entry.key.clone()))
        .collect();
    let depends: Vec<(&str, Vec<String>, bool)> = entries(&plan.tree, "nodes")
        .iter()
        .map(|entry| {
            let (mut nodes, target) = mentions(&entry.value);
            nodes.extend(needs(&entry.value));
            (entry.key.as_str(), nodes, target)
        })
        .collect();
    loop {
        let before = swept.len();
        for (name, nodes, target) in &depends {
            if *target || nodes.iter().any(|node| swept.contains(node)) {
                swept.insert((*name).to_owned());
            }
        }
        if swept.len() == before {
            return swept;
        }
    }
}

fn needs(node: &Tree) -> Vec<String> {
    match node.get("needs").map(|tree| &tree.value) {
        Some(Value::List(items)) => items
            .iter()
            .filter_map(|item| match &item.value {
                Value::Text(name) => Some(name.clone()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Outputs of every node of a file, by the node's name.
fn outputs(tree: &Tree) -> BTreeMap<String, &'static [&'static str]> {
    let known = |entry: &Entry| {
        entry.value.entries().iter().find_map(|setting| node::outputs_of(&setting.key)).unwrap_or_default()
    };
    entries(tree, "nodes").iter().map(|entry| (entry.key.clone(), known(entry))).collect()
}

/// Reads a node: exactly one kind, beside the settings every node has.
fn typed_node(tree: &Tree, entry: &Entry, scope: &Scope) -> Result<(node::Kind, CommonSettings), Slip> {
    let (common, kinds): (Vec<_>, Vec<_>) =
        tree.entries().iter().cloned().partition(|setting| COMMON.contains(&setting.key.as_str()));
    let kind = match kinds.as_slice() {
        [kind] => kind.clone(),
        [] => {
            return Err(Slip::new(entry.at, format!("the node `{}` names no kind", entry.key))
                .help(format!("kinds: {}", KINDS.join(", "))));
        }
        [first, second, ..] => {
            let message = format!("the node `{}` has both `{}` and `{}`", entry.key, first.key, second.key);
            return Err(Slip::new(second.at, message).help("a node has one kind"));
        }
    };
    if !KINDS.contains(&kind.key.as_str()) {
        let near = nearest(&kind.key, KINDS.iter().chain(&COMMON).copied());
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("kinds: {}", KINDS.join(", ")),
        };
        return Err(Slip::new(kind.at, format!("there is no kind `{}`", kind.key)).help(help));
    }
    let at = kind.at;
    let common: CommonSettings = from_tree(&Tree::written(Value::Map(common), at))?;
    if let Some(unknown) = common.needs.iter().find(|need| !scope.nodes.contains_key(*need)) {
        let at = tree.get("needs").map_or(at, |needs| needs.at);
        let mut slip = Slip::new(at, format!("there is no node `{unknown}`"));
        slip.help = nearest(unknown, scope.nodes.keys().map(String::as_str))
            .map(|near| format!("did you mean `{near}`?"));
        return Err(slip);
    }
    let kind = from_tree(&Tree::written(Value::Map(vec![kind]), at))?;
    Ok((kind, common))
}
