//! What is drawn at random: a plan and steps of edits. Numbers stand for the
//! node, file or reading that is there at that place (modulo how many there
//! are), so that every part of a case can be left out while it is shrunk.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

/// A whole case.
#[derive(Debug, Clone)]
pub struct Case {
    pub nodes: Vec<NodeGene>,
    pub steps: Vec<StepGene>,
    /// Whether the end is also compared with a real run in an empty store.
    pub compares: bool,
}

/// Edits, and an apply after them.
#[derive(Debug, Clone)]
pub struct StepGene {
    pub edits: Vec<Edit>,
    pub keep_going: bool,
    pub jobs: usize,
    pub kill: Option<Kill>,
}

/// When a run is killed: after so many of something, and so much later.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    pub after: After,
    pub count: usize,
    pub milliseconds: u64,
}

/// What is counted until a run is killed.
#[derive(Debug, Clone, Copy)]
pub enum After {
    /// Commands that began.
    Commands,
    /// Results that came into the store and may not be recorded yet.
    Results,
}

/// A node of a plan.
#[derive(Debug, Clone)]
pub struct NodeGene {
    pub reads: Vec<ReadGene>,
    pub needs: Vec<u8>,
    pub outputs: Vec<Output>,
    pub is_choosy: bool,
    pub fault: Option<Fault>,
}

/// Something a node reads.
#[derive(Debug, Clone, Copy)]
pub enum ReadGene {
    File(u8),
    Folder,
    /// An output of an earlier node, as an input or named in the command.
    Output {
        node: u8,
        output: u8,
        in_command: bool,
    },
}

/// What a node leaves under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    pub recipe: Recipe,
    /// Whether it is a directory with the text in a file of it.
    pub is_folder: bool,
}

/// How a node makes a text of what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    Whole,
    Digest,
    Lines,
    FirstByte,
    Constant(u8),
}

/// How a command fails, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Exit,
    NoOutput,
    EmptyOutput,
}

/// What somebody does between two runs.
#[derive(Debug, Clone)]
pub enum Edit {
    WriteFile {
        file: u8,
        content: u8,
    },
    TouchFile {
        file: u8,
    },
    WriteInFolder {
        name: u8,
        content: u8,
    },
    RemoveFromFolder {
        name: u8,
    },
    AddNode(NodeGene),
    RemoveNode {
        node: u8,
    },
    /// The node that was removed last is there again.
    BringBack,
    /// The nodes are written in the other order.
    Turn,
    Change {
        node: u8,
        change: Change,
    },
    Harm {
        node: u8,
        harm: Harm,
    },
}

/// What is changed of a node.
#[derive(Debug, Clone)]
pub enum Change {
    /// A word of its command that changes nothing.
    Note(u8),
    /// A variable that its command does not read.
    Variable(u8),
    Output {
        at: u8,
        to: Output,
    },
    Outputs(Vec<Output>),
    AddRead(ReadGene),
    DropRead(u8),
    Needs(Vec<u8>),
    Name(u8),
    Fault(Option<Fault>),
    /// Whether something that the plan does not tell makes it fail.
    Bar(bool),
}

/// What is done by hand to the result of a node in the store.
#[derive(Debug, Clone, Copy)]
pub enum Harm {
    LoseResult,
    CutResult,
    LoseOutput(u8),
    DamageOutput(u8),
}

/// Cases of 2 to 8 nodes and 2 to 4 steps.
pub fn cases() -> impl Strategy<Value = Case> {
    let steps = (step(0..=0), vec(step(1..=3), 1..=3));
    let steps = steps.prop_map(|(first, rest)| [vec![first], rest].concat());
    let nodes = prop_oneof![2 => vec(node(), 2..=5), 1 => vec(node(), 4..=8)];
    (nodes, steps, prop::bool::weighted(0.05)).prop_map(|(nodes, steps, compares)| Case {
        nodes,
        steps,
        compares,
    })
}

fn step(edits: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = StepGene> {
    let kill = prop_oneof![
        2 => (0..6_usize, 0..20_u64)
            .prop_map(|(count, milliseconds)| Kill { after: After::Commands, count, milliseconds }),
        1 => (1..4_usize).prop_map(|count| Kill { after: After::Results, count, milliseconds: 0 }),
    ];
    (vec(edit(), edits), any::<bool>(), 1..=3_usize, weighted(0.06, kill))
        .prop_map(|(edits, keep_going, jobs, kill)| StepGene { edits, keep_going, jobs, kill })
}

fn node() -> impl Strategy<Value = NodeGene> {
    let needs = vec(any::<u8>(), 0..=1);
    let outputs = vec(output(), 1..=2);
    let fault = prop_oneof![12 => Just(None), 1 => fault()];
    (vec(read(), 0..=3), needs, outputs, prop::bool::weighted(0.2), fault).prop_map(
        |(reads, needs, outputs, is_choosy, fault)| NodeGene { reads, needs, outputs, is_choosy, fault },
    )
}

fn read() -> impl Strategy<Value = ReadGene> {
    prop_oneof![
        2 => any::<u8>().prop_map(ReadGene::File),
        1 => Just(ReadGene::Folder),
        4 => (any::<u8>(), any::<u8>(), prop::bool::weighted(0.3))
            .prop_map(|(node, output, in_command)| ReadGene::Output { node, output, in_command }),
    ]
}

fn output() -> impl Strategy<Value = Output> {
    let recipe = prop_oneof![
        3 => Just(Recipe::Whole),
        2 => Just(Recipe::Digest),
        3 => Just(Recipe::Lines),
        2 => Just(Recipe::FirstByte),
        1 => (0..3_u8).prop_map(Recipe::Constant),
    ];
    (recipe, prop::bool::weighted(0.25)).prop_map(|(recipe, is_folder)| Output { recipe, is_folder })
}

fn fault() -> impl Strategy<Value = Option<Fault>> {
    prop_oneof![
        2 => Just(None),
        2 => Just(Some(Fault::Exit)),
        1 => Just(Some(Fault::NoOutput)),
        1 => Just(Some(Fault::EmptyOutput)),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let n = any::<u8>;
    prop_oneof![
        6 => (n(), n()).prop_map(|(file, content)| Edit::WriteFile { file, content }),
        2 => n().prop_map(|file| Edit::TouchFile { file }),
        3 => (n(), n()).prop_map(|(name, content)| Edit::WriteInFolder { name, content }),
        1 => n().prop_map(|name| Edit::RemoveFromFolder { name }),
        2 => node().prop_map(Edit::AddNode),
        2 => n().prop_map(|node| Edit::RemoveNode { node }),
        1 => Just(Edit::BringBack),
        1 => Just(Edit::Turn),
        20 => (n(), change()).prop_map(|(node, change)| Edit::Change { node, change }),
        7 => (n(), harm()).prop_map(|(node, harm)| Edit::Harm { node, harm }),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let n = any::<u8>;
    prop_oneof![
        2 => (0..3_u8).prop_map(Change::Note),
        1 => (0..3_u8).prop_map(Change::Variable),
        3 => (n(), output()).prop_map(|(at, to)| Change::Output { at, to }),
        1 => vec(output(), 1..=2).prop_map(Change::Outputs),
        2 => read().prop_map(Change::AddRead),
        2 => n().prop_map(Change::DropRead),
        1 => vec(n(), 0..=2).prop_map(Change::Needs),
        2 => (0..3_u8).prop_map(Change::Name),
        3 => fault().prop_map(Change::Fault),
        3 => any::<bool>().prop_map(Change::Bar),
    ]
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        2 => Just(Harm::LoseResult),
        1 => Just(Harm::CutResult),
        2 => any::<u8>().prop_map(Harm::LoseOutput),
        2 => any::<u8>().prop_map(Harm::DamageOutput),
    ]
}
