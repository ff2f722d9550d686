//! A plan and the files beside it as the test knows them, how they are
//! written, and what edits make of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::json;

use super::genes::{Change, Edit, Fault, NodeGene, Output, ReadGene, Recipe};

const CONTENTS: [&str; 6] = ["", "a\n", "b\n", "b\nc\n", "d\ne\n", "x"];
/// Files of a folder, in the order in which they are read.
pub const NAMES: [&str; 3] = ["a", "b", "sub/c"];
/// Files of a directory that a node leaves, in the order in which they are read.
pub const LEFT: [&str; 2] = ["a", "sub/c"];

/// A plan and the files beside it.
#[derive(Debug, Clone)]
pub struct Model {
    pub files: Vec<String>,
    /// The files of the one folder.
    pub folder: BTreeMap<&'static str, String>,
    /// Every node after what it reads.
    pub nodes: Vec<Node>,
    removed: Vec<Node>,
    is_written_backwards: bool,
    next: u8,
}

/// A node. Its number never changes and is what its command notes when it runs.
#[derive(Debug, Clone)]
pub struct Node {
    pub number: u8,
    pub name: String,
    pub reads: Vec<Read>,
    pub needs: Vec<u8>,
    pub outputs: Vec<Output>,
    pub fault: Option<Fault>,
    /// Whether something outside the plan makes it fail for now.
    pub is_barred: bool,
    /// Whether it fails where the first file it reads is empty.
    is_choosy: bool,
    note: u8,
    pub variable: u8,
}

/// Something a node reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    File(usize),
    Folder,
    Output { node: u8, output: usize, in_command: bool },
}

impl Model {
    pub fn new(genes: &[NodeGene]) -> Self {
        let mut model = Self {
            files: vec![CONTENTS[1].to_owned(), CONTENTS[3].to_owned()],
            folder: BTreeMap::from([(NAMES[0], CONTENTS[2].to_owned())]),
            nodes: Vec::new(),
            removed: Vec::new(),
            is_written_backwards: false,
            next: 0,
        };
        for gene in genes {
            model.add(gene);
        }
        model
    }

    pub fn node(&self, number: u8) -> &Node {
        self.nodes.iter().find(|node| node.number == number).unwrap()
    }

    /// The node that a number drawn at random stands for.
    pub fn chosen(&self, drawn: u8) -> Option<&Node> {
        self.nodes.get(usize::from(drawn).checked_rem(self.nodes.len())?)
    }

    /// The plan as a file.
    pub fn plan(&self, side: &str) -> String {
        let mut lines: Vec<String> = self.nodes.iter().map(|node| self.written(node, side)).collect();
        if self.is_written_backwards {
            lines.reverse();
        }
        format!("orchestrate: 1\nname: property\nnodes:\n{}", lines.concat())
    }

    fn written(&self, node: &Node, side: &str) -> String {
        let outputs: BTreeMap<String, String> =
            (0..node.outputs.len()).map(|at| (out(at), out(at))).collect();
        let settings = json!({
            "command": ["sh", "-c", self.script(node)],
            "inputs": self.inputs(node),
            "outputs": outputs,
            "environment": {"SIDE": side, "VARIABLE": node.variable.to_string()},
        });
        let needs: Vec<&str> = node.needs.iter().map(|need| self.node(*need).name.as_str()).collect();
        format!("  {}:\n    run: {settings}\n    needs: [{}]\n", node.name, needs.join(", "))
    }

    /// What a node declares to read, by place.
    pub fn inputs(&self, node: &Node) -> BTreeMap<String, String> {
        let from = |read: &Read| match read {
            Read::File(file) => Some(format!("f{file}")),
            Read::Folder => Some("d".to_owned()),
            Read::Output { in_command: true, .. } => None,
            Read::Output { node, output, .. } => Some(self.reference(*node, *output)),
        };
        let from = node.reads.iter().map(from).enumerate();
        from.filter_map(|(at, from)| Some((format!("r{at}"), from?))).collect()
    }

    fn reference(&self, node: u8, output: usize) -> String {
        format!("${{nodes.{}.{}}}", self.node(node).name, out(output))
    }

    /// A node's command. Each output begins with the node's number, so that no
    /// two nodes leave the same file.
    pub fn script(&self, node: &Node) -> String {
        let number = node.number;
        let words: Vec<String> = (0..node.reads.len()).flat_map(|at| self.words(node, at)).collect();
        let words = words.join(" ");
        let mut script = format!("echo {number} >> \"$SIDE/ran\"; [ ! -e \"$SIDE/bar-{number}\" ] || exit 7");
        write!(script, "; : note {} of {words}", node.note).unwrap();
        if self.needs_text(node).is_some() {
            script += "; [ -s r0 ] || exit 4";
        }
        for (at, output) in node.outputs.iter().enumerate() {
            let cat = format!("cat /dev/null {words} 2> /dev/null");
            let makes = match output.recipe {
                Recipe::Whole => format!("{cat} || :"),
                Recipe::Digest => format!("{cat} | sha256sum"),
                Recipe::Lines => format!("{cat} | wc -l"),
                Recipe::FirstByte => format!("{cat} | head -c 1"),
                Recipe::Constant(constant) => format!("echo {constant}"),
            };
            let made = format!("{{ printf {number}.{at}:; {makes}; }}");
            let written = if output.is_folder {
                format!("mkdir o{at} o{at}/sub; {made} > o{at}/a; echo {number}.{at} > o{at}/sub/c")
            } else {
                format!("{made} > o{at}")
            };
            write!(script, "; {written}").unwrap();
        }
        script + how_it_fails(node)
    }

    /// The file that must not be empty for a node.
    pub fn needs_text(&self, node: &Node) -> Option<&str> {
        match node.reads.first() {
            Some(Read::File(file)) if node.is_choosy => Some(&self.files[*file]),
            _ => None,
        }
    }

    /// The files of one reading as the command finds them, in order.
    fn words(&self, node: &Node, at: usize) -> Vec<String> {
        let place = format!("r{at}");
        let below =
            |place: &str, names: &[&str]| names.iter().map(|name| format!("{place}/{name}")).collect();
        match node.reads[at] {
            Read::File(_) => vec![place],
            Read::Folder => below(&place, &NAMES),
            Read::Output { node, output, in_command } => {
                let place = if in_command { self.reference(node, output) } else { place };
                let is_folder = self.node(node).outputs[output].is_folder;
                if is_folder { below(&place, &LEFT) } else { vec![place] }
            }
        }
    }

    /// Does an edit of the plan or the files; returns it in words, or nothing
    /// where it does not apply.
    pub fn edit(&mut self, edit: &Edit) -> Option<String> {
        let said = match edit {
            Edit::AddNode(gene) => format!("add {}", self.add(gene)),
            Edit::RemoveNode { node } => {
                // A plan without nodes is no plan.
                let place = usize::from(*node) % Some(self.nodes.len()).filter(|count| *count > 1)?;
                self.removed.push(self.nodes.remove(place));
                format!("remove {}", self.removed.last()?.name)
            }
            Edit::BringBack => {
                self.nodes.push(self.removed.pop()?);
                format!("bring back {}", self.nodes.last()?.name)
            }
            Edit::Turn => {
                self.is_written_backwards = !self.is_written_backwards;
                "write the nodes in the other order".to_owned()
            }
            Edit::Change { node, change } => self.change(*node, change)?,
            _ => self.edit_files(edit)?,
        };
        self.drop_dangling();
        Some(said)
    }

    fn edit_files(&mut self, edit: &Edit) -> Option<String> {
        let content = |drawn: u8| CONTENTS[usize::from(drawn) % CONTENTS.len()].to_owned();
        let named = |drawn: u8| NAMES[usize::from(drawn) % NAMES.len()];
        match *edit {
            Edit::WriteFile { file, content: drawn } => {
                let file = usize::from(file) % self.files.len();
                self.files[file] = content(drawn);
                Some(format!("write {:?} to f{file}", self.files[file]))
            }
            Edit::WriteInFolder { name, content: drawn } => {
                self.folder.insert(named(name), content(drawn));
                Some(format!("write {:?} to d/{}", content(drawn), named(name)))
            }
            Edit::RemoveFromFolder { name } => {
                self.folder.remove(named(name))?;
                Some(format!("remove d/{}", named(name)))
            }
            _ => None,
        }
    }

    fn change(&mut self, drawn: u8, change: &Change) -> Option<String> {
        let place = usize::from(drawn).checked_rem(self.nodes.len())?;
        let (before, rest) = self.nodes.split_at_mut(place);
        let node = &mut rest[0];
        match change {
            Change::Note(word) => node.note = *word,
            Change::Variable(variable) => node.variable = *variable,
            Change::Output { at, to } => {
                let at = usize::from(*at) % node.outputs.len();
                node.outputs[at] = *to;
            }
            Change::Outputs(outputs) => node.outputs.clone_from(outputs),
            Change::AddRead(read) => node.reads.push(resolved(*read, before)?),
            Change::DropRead(read) => {
                node.reads.remove(usize::from(*read).checked_rem(node.reads.len())?);
            }
            Change::Needs(needs) => node.needs = needed(needs, before),
            Change::Name(to) => node.name = name(node.number, *to),
            Change::Fault(fault) => node.fault = *fault,
            Change::Bar(is_barred) => node.is_barred = *is_barred,
        }
        Some(format!("node {}: {change:?}", node.number))
    }

    fn add(&mut self, gene: &NodeGene) -> String {
        let number = self.next;
        self.next += 1;
        let reads = gene.reads.iter().filter_map(|read| resolved(*read, &self.nodes)).collect();
        self.nodes.push(Node {
            number,
            name: name(number, 0),
            reads,
            needs: needed(&gene.needs, &self.nodes),
            outputs: gene.outputs.clone(),
            fault: gene.fault,
            is_barred: false,
            is_choosy: gene.is_choosy,
            note: 0,
            variable: 0,
        });
        name(number, 0)
    }

    /// Nobody reads what an edit took away.
    fn drop_dangling(&mut self) {
        let outputs: BTreeMap<u8, usize> =
            self.nodes.iter().map(|node| (node.number, node.outputs.len())).collect();
        for node in &mut self.nodes {
            node.needs.retain(|need| outputs.contains_key(need));
            node.reads.retain(|read| match read {
                Read::Output { node, output, .. } => outputs.get(node).is_some_and(|count| output < count),
                Read::File(_) | Read::Folder => true,
            });
        }
    }
}

impl Node {
    /// The nodes that must have passed before it.
    pub fn dependencies(&self) -> impl Iterator<Item = u8> {
        let read = |read: &Read| match read {
            Read::Output { node, .. } => Some(*node),
            Read::File(_) | Read::Folder => None,
        };
        self.reads.iter().filter_map(read).chain(self.needs.iter().copied())
    }
}

/// The end of the command of a node with a fault.
fn how_it_fails(node: &Node) -> &'static str {
    match node.fault {
        None => "",
        Some(Fault::Exit) => "; exit 3",
        Some(Fault::NoOutput) => "; rm -r o0",
        Some(Fault::EmptyOutput) if node.outputs[0].is_folder => "; rm -r o0/*",
        Some(Fault::EmptyOutput) => "; : > o0",
    }
}

/// The name of an output, which is also its path.
pub fn out(at: usize) -> String {
    format!("o{at}")
}

fn name(number: u8, variant: u8) -> String {
    let letter = ["n", "m", "k"][usize::from(variant) % 3];
    format!("{letter}{number}")
}

/// A reading of a file, or of a node that stands before; nothing where there
/// is none.
fn resolved(gene: ReadGene, before: &[Node]) -> Option<Read> {
    Some(match gene {
        ReadGene::File(file) => Read::File(usize::from(file) % 2),
        ReadGene::Folder => Read::Folder,
        ReadGene::Output { node, output, in_command } => {
            let node = &before[usize::from(node).checked_rem(before.len())?];
            let output = usize::from(output) % node.outputs.len();
            Read::Output { node: node.number, output, in_command }
        }
    })
}

fn needed(drawn: &[u8], before: &[Node]) -> Vec<u8> {
    let place = |drawn: &u8| usize::from(*drawn).checked_rem(before.len());
    let mut needs: Vec<u8> = drawn.iter().filter_map(|drawn| Some(before[place(drawn)?].number)).collect();
    needs.sort_unstable();
    needs.dedup();
    needs
}
