//! Which instances a plan's nodes have: one for each target and for each step
//! of the sweeps that a node, or anything it refers to, depends on.

use std::collections::{HashMap, HashSet};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::cycle::cycle_in;
use super::diagnostic::{CANDIDATES, Slip, nearest};
use super::document::{PlanDocument, TargetDocument};
use super::load::Mistakes;
use super::mention::{Mention, Mentions, mentions};
use super::scope::unknown;
use super::sheet::{Sheet, Written};
use super::sweep::{Axis, axes};
use super::tree::{Position, Tree};
use crate::node;

/// Most names that the sweeps which one node depends on have.
const AXES: usize = 16;
/// Most nodes of a plan for all targets, with the nodes they refer to.
const VERTICES: usize = 300_000;

/// The written nodes, once for each target they depend on.
pub(super) struct Lattice<'a> {
    /// Nodes as written: those of the plan, then those of each target.
    pub written: Vec<&'a Written>,
    /// What each refers to.
    pub mentions: Vec<Mentions>,
    /// Names of the targets.
    pub targets: Vec<&'a str>,
    /// Every axis of every sweep.
    pub axes: Vec<Axis>,
    /// Nodes with the target they are for, in the order of the files: what
    /// exists once, then target by target.
    pub vertices: Vec<Vertex>,
    /// Whether only a part of the plan is looked at, so that what is not
    /// there may be in the rest.
    pub open: bool,
    /// Whether it is refused as too large, and not complete.
    pub is_too_large: bool,
    in_plan: HashMap<&'a str, usize>,
    in_target: Vec<HashMap<&'a str, usize>>,
    by_place: HashMap<(usize, Option<usize>), usize>,
    in_some_target: HashSet<&'a str>,
    is_per_target: Vec<bool>,
}

/// A node for one target, or for none.
#[derive(Debug)]
pub(super) struct Vertex {
    /// Index of the node as written.
    pub node: usize,
    /// Index of the target.
    pub target: Option<usize>,
    /// Axes it has an instance for each step of, in order.
    pub axes: Vec<usize>,
    /// The vertex that each mention of its node means; none where there is
    /// none.
    pub meant: Vec<Option<usize>>,
}

/// Axes with the step taken on each.
pub(super) type Steps = [(usize, usize)];

impl<'a> Lattice<'a> {
    pub fn new(
        plan: &'a Sheet<PlanDocument>,
        targets: &'a [Sheet<TargetDocument>],
        open: bool,
        mistakes: &mut Mistakes,
    ) -> Self {
        let mut lattice = Self {
            written: Vec::new(),
            mentions: Vec::new(),
            targets: targets.iter().map(|target| target.document.target.as_str()).collect(),
            axes: Vec::new(),
            vertices: Vec::new(),
            open,
            is_too_large: false,
            in_plan: HashMap::new(),
            in_target: vec![HashMap::new(); targets.len()],
            by_place: HashMap::new(),
            in_some_target: HashSet::new(),
            is_per_target: Vec::new(),
        };
        lattice.collect(&plan.nodes, None, mistakes);
        for (number, target) in targets.iter().enumerate() {
            lattice.collect(&target.nodes, Some(number), mistakes);
        }
        let own = lattice.collect_axes(plan, mistakes);
        lattice.mark_per_target();
        lattice.place(mistakes);
        if !lattice.is_too_large {
            lattice.spread_axes(&own, mistakes);
        }
        lattice
    }

    fn collect(&mut self, nodes: &'a [Written], target: Option<usize>, mistakes: &mut Mistakes) {
        for node in nodes {
            let mut slips = Vec::new();
            self.mentions.push(mentions(&node.tree, &mut slips));
            mistakes.add_all(&node.file, slips);
            let names = match target {
                None => &mut self.in_plan,
                Some(target) => &mut self.in_target[target],
            };
            names.insert(&node.name, self.written.len());
            if target.is_some() {
                self.in_some_target.insert(&node.name);
            }
            self.written.push(node);
            self.is_per_target.push(target.is_some());
        }
    }

    /// Reads every sweep; returns the axes that each node brings itself.
    fn collect_axes(&mut self, plan: &Sheet<PlanDocument>, mistakes: &mut Mistakes) -> Vec<Vec<usize>> {
        let mut of_plan = Vec::new();
        if let Some(sweep) = plan.tree.get("sweep") {
            let mut slips = Vec::new();
            of_plan = axes(sweep, &plan.file, &mut slips);
            mistakes.add_all(&plan.file, slips);
        }
        let mut is_used = vec![false; of_plan.len()];
        self.axes = of_plan;
        let mut known = HashMap::new();
        for (number, axis) in self.axes.iter().enumerate() {
            remember(axis, number, &mut known);
        }
        let names_of_plan = known.clone();
        let mut own = Vec::with_capacity(self.written.len());
        for number in 0..self.written.len() {
            let node = self.written[number];
            let mut mine: Vec<usize> = self.mentions[number]
                .sweeps
                .iter()
                .filter_map(|name| names_of_plan.get(name).copied())
                .collect();
            for axis in &mine {
                is_used[*axis] = true;
            }
            if let Some(sweep) = node.tree.get("sweep") {
                let mut slips = Vec::new();
                for axis in axes(sweep, &node.file, &mut slips) {
                    self.refuse_namesake(&axis, &known, &mut slips);
                    remember(&axis, self.axes.len(), &mut known);
                    mine.push(self.axes.len());
                    self.axes.push(axis);
                }
                mistakes.add_all(&node.file, slips);
            }
            own.push(mine);
        }
        for (axis, _) in self.axes.iter().zip(is_used).filter(|(_, used)| !used) {
            let name = &axis.names[0];
            let slip = Slip::new(axis.at, format!("nothing refers to the sweep `{name}`"));
            mistakes.add(&axis.file, slip.help(format!("write ${{sweep.{name}}} in a node, or remove it")));
        }
        own
    }

    fn refuse_namesake(&self, axis: &Axis, known: &HashMap<String, usize>, slips: &mut Vec<Slip>) {
        let twin = axis.names.iter().filter_map(|name| known.get(name)).min();
        if let Some(twin) = twin.map(|number| &self.axes[*number]) {
            let place = format!("{}:{}", twin.file.path.display(), twin.at.line);
            let message = format!("two sweeps are named `{}`", axis.names.join(", "));
            let help = format!("the other is at {place}; rename one, or sweep once at the head of the plan");
            slips.push(Slip::new(axis.at, message).help(help));
        }
    }

    /// Nodes of targets, and nodes of the plan that depend on one of those or
    /// on the target itself, directly or through others.
    fn mark_per_target(&mut self) {
        let mut dependents: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut open = Vec::new();
        for number in self.in_plan.values().copied() {
            let free = self.mentions[number].nodes.iter().filter(|mention| mention.pin("target").is_none());
            let mut marked = self.mentions[number].target && !self.targets.is_empty();
            for mention in free {
                match self.in_plan.get(mention.node.as_str()) {
                    Some(dependency) => dependents.entry(*dependency).or_default().push(number),
                    None => marked |= self.in_some_target.contains(mention.node.as_str()),
                }
            }
            if marked {
                self.is_per_target[number] = true;
                open.push(number);
            }
        }
        while let Some(number) = open.pop() {
            for dependent in dependents.get(&number).into_iter().flatten() {
                if !std::mem::replace(&mut self.is_per_target[*dependent], true) {
                    open.push(*dependent);
                }
            }
        }
    }

    /// Makes the vertices, unless there would be too many.
    fn place(&mut self, mistakes: &mut Mistakes) {
        let of_plan = self.in_plan.len();
        if let Some(node) = self.first_too_many(of_plan) {
            let Written { name, at, file, .. } = self.written[node];
            let message = format!("with `{name}` for every target, the plan is too large");
            let help = "let fewer nodes refer to the targets, or make a plan for each";
            mistakes.add(file, Slip::new(*at, message).help(help));
            self.is_too_large = true;
            return;
        }
        let add = |lattice: &mut Self, node: usize, target: Option<usize>| {
            lattice.by_place.insert((node, target), lattice.vertices.len());
            lattice.vertices.push(Vertex { node, target, axes: Vec::new(), meant: Vec::new() });
        };
        for node in (0..of_plan).filter(|node| !self.is_per_target[*node]).collect::<Vec<_>>() {
            add(self, node, None);
        }
        let mut first = of_plan;
        for target in 0..self.targets.len() {
            let count = self.in_target[target].len();
            (first..first + count).for_each(|node| add(self, node, Some(target)));
            first += count;
            for node in (0..of_plan).filter(|node| self.is_per_target[*node]).collect::<Vec<_>>() {
                add(self, node, Some(target));
            }
        }
    }

    /// The node of the plan which, once for each target, with what it refers
    /// to, is more than a plan has.
    fn first_too_many(&self, of_plan: usize) -> Option<usize> {
        let mut size = 0_usize;
        (0..of_plan).filter(|node| self.is_per_target[*node]).find(|node| {
            size += (1 + self.mentions[*node].nodes.len()) * self.targets.len();
            size > VERTICES
        })
    }

    /// Gives every vertex its own axes and those of what it refers to, in the
    /// order of the dependencies; finds what does not exist and what waits
    /// for itself.
    fn spread_axes(&mut self, own: &[Vec<usize>], mistakes: &mut Mistakes) {
        let mut graph: DiGraph<(), Position> =
            DiGraph::with_capacity(self.vertices.len(), self.vertices.len());
        let index: Vec<NodeIndex> = self.vertices.iter().map(|_| graph.add_node(())).collect();
        for number in 0..self.vertices.len() {
            if mistakes.is_enough() {
                return;
            }
            let vertex = &self.vertices[number];
            let mut meant = Vec::with_capacity(self.mentions[vertex.node].nodes.len());
            for mention in &self.mentions[vertex.node].nodes {
                let found = self.find(mention, vertex.target);
                meant.push(found.as_ref().ok().copied());
                match found {
                    Ok(dependency) => {
                        graph.add_edge(index[dependency], index[number], mention.at);
                    }
                    Err(_) if self.open && !self.knows(&mention.node) => {}
                    Err(slip) => mistakes.add(&self.written[vertex.node].file, slip),
                }
            }
            self.vertices[number].meant = meant;
        }
        // Every knot after those it depends on.
        let knots = kosaraju_scc(&graph);
        for knot in knots.iter().rev() {
            if knot.len() > 1 || graph.contains_edge(knot[0], knot[0]) {
                self.report_cycle(&graph, knot, mistakes);
            }
            for at in knot {
                let vertex = at.index();
                let node = self.vertices[vertex].node;
                let mut axes = own[node].clone();
                for (mention, meant) in self.mentions[node].nodes.iter().zip(&self.vertices[vertex].meant) {
                    let Some(dependency) = *meant else { continue };
                    axes.extend(self.free_axes(mention, dependency));
                    if let Some(slip) = self.unknown_pin(mention, dependency) {
                        mistakes.add(&self.written[node].file, slip);
                    }
                }
                axes.sort_unstable();
                axes.dedup();
                let names: usize = axes.iter().map(|axis| self.axes[*axis].names.len()).sum();
                if names > AXES {
                    let Written { name, at, file, .. } = self.written[node];
                    let message = format!("`{name}` is swept over {names} names, and {AXES} are the most");
                    mistakes.add(file, Slip::new(*at, message).help("sweep over fewer names"));
                    self.is_too_large = true;
                    return;
                }
                self.vertices[vertex].axes = axes;
            }
        }
    }

    /// The vertex that a reference means, seen from a vertex of a target.
    pub fn find(&self, mention: &Mention, target: Option<usize>) -> Result<usize, Slip> {
        let name = mention.node.as_str();
        let target = match mention.pin("target") {
            None => target,
            Some(pinned) => {
                Some(self.targets.iter().position(|known| *known == pinned).ok_or_else(|| {
                    let known = self.targets.iter().copied();
                    let (message, help) = unknown("target", pinned, known, "list it under `targets:`");
                    Slip::new(mention.at, message).help(help)
                })?)
            }
        };
        let node = self
            .in_plan
            .get(name)
            .or_else(|| self.in_target.get(target?)?.get(name))
            .ok_or_else(|| self.unknown_node(mention, target))?;
        self.check_output(mention, *node)?;
        let target = target.filter(|_| self.is_per_target[*node]);
        self.by_place.get(&(*node, target)).copied().ok_or_else(|| self.unknown_node(mention, target))
    }

    fn knows(&self, node: &str) -> bool {
        self.in_plan.contains_key(node) || self.in_some_target.contains(node)
    }

    fn unknown_node(&self, mention: &Mention, target: Option<usize>) -> Slip {
        let name = mention.node.as_str();
        let elsewhere = self.in_target.iter().position(|names| names.contains_key(name));
        if let (Some(target), Some(elsewhere)) = (target, elsewhere) {
            let message = format!("the target `{}` has no node `{name}`", self.targets[target]);
            let help = format!("the target `{}` has one: give each target the same", self.targets[elsewhere]);
            return Slip::new(mention.at, message).help(help);
        }
        let known = self.written.iter().map(|node| node.name.as_str());
        let mut known: Vec<&str> = known.take(CANDIDATES).collect();
        known.sort_unstable();
        known.dedup();
        let (message, help) = unknown("node", name, known.into_iter(), "add it under `nodes:`");
        Slip::new(mention.at, message).help(help)
    }

    fn check_output(&self, mention: &Mention, node: usize) -> Result<(), Slip> {
        let Some(output) = mention.output.as_deref() else { return Ok(()) };
        let settings = self.written[node].tree.entries();
        let Some(kind) = settings.iter().find(|setting| node::outputs_of(&setting.key).is_some()) else {
            return Ok(());
        };
        let named = node::setting_that_names_outputs(&kind.key).and_then(|setting| kind.value.get(setting));
        let named = named.map(Tree::entries).unwrap_or_default().iter().map(|output| output.key.as_str());
        let fixed = node::outputs_of(&kind.key).unwrap_or_default();
        let outputs: Vec<&str> = fixed.iter().copied().chain(named).collect();
        if outputs.contains(&output) {
            return Ok(());
        }
        let name = &mention.node;
        let message = format!("the node `{name}` has no output `{output}`; it is a {} node", kind.key);
        let help = match nearest(output, outputs.iter().copied()) {
            Some(near) => format!("did you mean `${{nodes.{name}.{near}}}`?"),
            None if outputs.is_empty() => {
                format!("it has no outputs: write ${{nodes.{name}}} for what it found out")
            }
            None => format!("its outputs: {}", outputs.join(", ")),
        };
        Err(Slip::new(mention.at, message).help(help))
    }

    /// The axes of a vertex on which a reference to it means no step.
    pub fn free_axes(&self, mention: &Mention, vertex: usize) -> impl Iterator<Item = usize> {
        self.vertices[vertex].axes.iter().copied().filter(move |axis| self.pinned(mention, *axis).is_none())
    }

    /// The step that a reference means on an axis.
    fn pinned(&self, mention: &Mention, axis: usize) -> Option<usize> {
        let axis = &self.axes[axis];
        axis.names.iter().find_map(|name| axis.point(name, mention.pin(name)?))
    }

    fn unknown_pin(&self, mention: &Mention, dependency: usize) -> Option<Slip> {
        let axes = || self.vertices[dependency].axes.iter().map(|axis| &self.axes[*axis]);
        let (name, label) =
            mention.pins.iter().filter(|(name, _)| name != "target").find(|(name, label)| {
                !axes().any(|axis| axis.names.contains(name) && axis.point(name, label).is_some())
            })?;
        let slip = Slip::new(mention.at, format!("`{}` has no instance with {name}={label}", mention.node));
        let steps: Vec<String> =
            axes().flat_map(|axis| (0..axis.points.len()).map(|point| axis.label(point))).take(12).collect();
        Some(if steps.is_empty() {
            slip.help(format!("it is not swept: write ${{nodes.{}}}", mention.node))
        } else {
            slip.help(format!("its instances have {}", steps.join("; ")))
        })
    }

    /// Names a cycle inside a knot, each edge with the line it is written on.
    fn report_cycle(&self, graph: &DiGraph<(), Position>, knot: &[NodeIndex], mistakes: &mut Mistakes) {
        let cycle = cycle_in(graph, knot);
        let written = |at: NodeIndex| self.written[self.vertices[at.index()].node];
        let nexts = cycle.iter().cycle().skip(1);
        let edges: Vec<(NodeIndex, Position)> = cycle
            .iter()
            .zip(nexts)
            .filter_map(|(at, next)| Some((*at, *graph.edge_weight(graph.find_edge(*next, *at)?)?)))
            .collect();
        let Some((first, place)) = edges.first().copied() else { return };
        let mut names: Vec<&str> = edges.iter().map(|(at, _)| written(*at).name.as_str()).collect();
        names.push(names[0]);
        let edges = edges.iter().map(|(at, place)| {
            let node = written(*at);
            format!("{} ({}:{})", node.name, node.file.path.display(), place.line)
        });
        let message = match names.as_slice() {
            [one, _] => format!("`{one}` waits for itself"),
            names => format!("these nodes wait for each other: {}", names.join(" → ")),
        };
        let help = format!(
            "each refers to the next: {}; remove one of the references",
            edges.collect::<Vec<_>>().join(", ")
        );
        mistakes.add(&written(first).file, Slip::new(place, message).help(help));
    }

    /// `load`, or `load[target=llama-cpp,category=coding]`.
    pub fn instance_name(&self, vertex: usize, steps: &Steps) -> String {
        let Vertex { node, target, axes, .. } = &self.vertices[vertex];
        let name = &self.written[*node].name;
        let labels = axes.iter().filter_map(|axis| Some(self.axes[*axis].label(step(steps, *axis)?)));
        let target = target.map(|target| format!("target={}", self.targets[target]));
        let parts: Vec<String> = target.into_iter().chain(labels).collect();
        if parts.is_empty() { name.clone() } else { format!("{name}[{}]", parts.join(",")) }
    }

    /// The instances that a vertex refers to, on some steps, in the order
    /// in which its node mentions them.
    pub fn referred_by(&self, vertex: usize, steps: &Steps) -> Vec<Option<String>> {
        let Vertex { node, meant, .. } = &self.vertices[vertex];
        let mentions = self.mentions[*node].nodes.iter().zip(meant);
        mentions.map(|(mention, meant)| self.instance_meant(mention, (*meant)?, steps)).collect()
    }

    /// The instance of a vertex that a reference means on some steps.
    pub fn instance_meant(&self, mention: &Mention, vertex: usize, steps: &Steps) -> Option<String> {
        if mention.pins.is_empty() {
            return Some(self.instance_name(vertex, steps));
        }
        let own = self.vertices[vertex].axes.iter();
        let own: Option<Vec<_>> = own
            .map(|axis| Some((*axis, self.pinned(mention, *axis).or_else(|| step(steps, *axis))?)))
            .collect();
        Some(self.instance_name(vertex, &own?))
    }

    /// What `${sweep.name}` stands for on some steps.
    pub fn swept_value(&self, name: &str, steps: &Steps) -> Option<&Tree> {
        steps.iter().find_map(|(axis, point)| {
            let axis = &self.axes[*axis];
            let column = axis.names.iter().position(|known| known == name)?;
            axis.points[*point].values.get(column)
        })
    }

    /// The labels of some steps by the names of their sweeps.
    pub fn labels(&self, steps: &Steps) -> Vec<(String, String)> {
        let labels = steps.iter().flat_map(|(axis, point)| {
            let axis = &self.axes[*axis];
            axis.names.iter().cloned().zip(axis.points[*point].labels.iter().cloned())
        });
        labels.collect()
    }
}

/// Remembers the names of an axis by its number, the first of each.
fn remember(axis: &Axis, number: usize, known: &mut HashMap<String, usize>) {
    for name in &axis.names {
        known.entry(name.clone()).or_insert(number);
    }
}

fn step(steps: &Steps, axis: usize) -> Option<usize> {
    steps.iter().find(|(known, _)| *known == axis).map(|(_, point)| *point)
}
