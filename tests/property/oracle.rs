//! What must come of an apply, by a model that knows nothing of keys: a node
//! is what it was told and what it read, and what has been made once is there
//! until somebody takes it away.

use std::collections::{BTreeMap, BTreeSet};

use orchestrate::value::Sha256;

use super::genes::{Output, Recipe};
use super::model::{LEFT, Model, NAMES, Node, Read};

/// Texts by path below an output or an input; a file is the text at "".
pub type Left = BTreeMap<String, String>;

/// Everything that the work of a node depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    command: String,
    variable: u8,
    inputs: BTreeMap<String, String>,
    read: Vec<Left>,
}

/// What must become of a node in a run that stops for no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It has been done before.
    Reused,
    /// It runs and leaves its outputs.
    Succeeded,
    /// It was running when a run was killed: its result may be there or not.
    Either,
    /// Its command runs and fails.
    Failed,
    /// Something it needs did not pass.
    Blocked,
    /// Something it needs was there, is damaged, and fails when it is made
    /// again: whether that is before or after the node's turn is open.
    Open,
}

/// What is expected of one node.
#[derive(Debug)]
pub struct Expected {
    pub name: String,
    pub fate: Fate,
    /// Whether what it left is damaged, found damaged by another node, and
    /// made again.
    pub is_mended: bool,
    /// Whether it reads what is damaged, before it reads what is made again.
    pub meets_damage: bool,
    pub dependencies: BTreeSet<u8>,
    /// What it is and what it leaves, where it passes.
    pub passes: Option<(Identity, Vec<Left>)>,
}

/// What is expected of every node, by number.
pub type Forecast = BTreeMap<u8, Expected>;

/// What came of a run.
#[derive(Debug, Default)]
pub struct Found {
    /// The recorded outcome by the node's name.
    pub outcomes: BTreeMap<String, String>,
    /// The recorded key of each node that passed, by its name.
    pub keys: BTreeMap<String, String>,
    /// How often the command of each number ran, if it did.
    pub ran: BTreeMap<u8, usize>,
    /// The exit code of a run that was not killed.
    pub exit_code: Option<u8>,
}

impl Found {
    /// How often the command of a number ran.
    pub fn times(&self, number: u8) -> usize {
        self.ran.get(&number).copied().unwrap_or_default()
    }
}

/// Under which rules a run went.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub keep_going: bool,
    pub jobs: usize,
}

/// A memory of what has been done in one store.
#[derive(Debug, Default)]
pub struct Oracle {
    done: BTreeMap<Identity, Vec<Left>>,
    /// What was running when a run was killed.
    perhaps: BTreeMap<Identity, Vec<Left>>,
    /// Texts that were taken out of the store.
    pub lost: BTreeSet<String>,
    /// A text that is wrong in the store.
    pub damaged: Option<String>,
    last: BTreeMap<u8, Identity>,
}

impl Oracle {
    /// What an apply of the plan must do.
    pub fn expect(&self, model: &Model) -> Forecast {
        let forecast = self.forecast(model, None);
        let meets_damage = |node: &&Node| forecast[&node.number].meets_damage;
        let is_damaged = |number: &u8| {
            let outputs = forecast[number].passes.as_ref().map(|(_, outputs)| outputs);
            outputs.is_some_and(|outputs| texts(outputs).any(|text| Some(text) == self.damaged.as_ref()))
        };
        let met = model.nodes.iter().find(meets_damage);
        match met.and_then(|reader| reader.dependencies().find(is_damaged)) {
            Some(damaged) => self.forecast(model, Some(damaged)),
            None => forecast,
        }
    }

    /// What becomes of every node where one of them is made again.
    fn forecast(&self, model: &Model, mended: Option<u8>) -> Forecast {
        let mut forecast = Forecast::new();
        for node in &model.nodes {
            let expected = self.expected(model, node, mended, &forecast);
            forecast.insert(node.number, expected);
        }
        forecast
    }

    fn expected(&self, model: &Model, node: &Node, mended: Option<u8>, before: &Forecast) -> Expected {
        let is_mended = mended == Some(node.number);
        let dependencies: BTreeSet<u8> = node.dependencies().collect();
        let blocked = Expected {
            name: node.name.clone(),
            fate: Fate::Blocked,
            is_mended,
            meets_damage: false,
            dependencies,
            passes: None,
        };
        if blocked.dependencies.iter().any(|dependency| before[dependency].passes.is_none()) {
            return blocked;
        }
        let is_open = |dependency: &u8| {
            let Expected { fate, is_mended, .. } = before[dependency];
            fate == Fate::Open || (is_mended && fate == Fate::Failed)
        };
        let is_open = blocked.dependencies.iter().any(is_open);
        let read: Vec<Left> = node.reads.iter().map(|read| content(model, read, before)).collect();
        let outputs = outputs(node, &read);
        let command = model.script(node);
        let is_choked = model.needs_text(node) == Some("");
        // A node that runs leaves the right text in the place of a wrong one.
        let is_old = |read: &Read| matches!(read, Read::Output { node, .. } if before[node].fate == Fate::Reused || before[node].is_mended);
        let holds_damage = |left: &Left| left.values().any(|text| Some(text) == self.damaged.as_ref());
        let reads_damage =
            node.reads.iter().zip(&read).any(|(read, left)| is_old(read) && holds_damage(left));
        let identity = Identity { command, variable: node.variable, inputs: model.inputs(node), read };
        let is_there = |memory: &BTreeMap<Identity, Vec<Left>>| {
            memory.get(&identity).is_some_and(|outputs| !texts(outputs).any(|text| self.lost.contains(text)))
        };
        let is_done = is_there(&self.done) && !is_mended;
        let fate = if is_open {
            Fate::Open
        } else if is_done {
            Fate::Reused
        } else if node.is_barred || node.fault.is_some() || is_choked {
            Fate::Failed
        } else if is_there(&self.perhaps) && !is_mended {
            Fate::Either
        } else {
            Fate::Succeeded
        };
        // What is damaged and cannot be made again was there before.
        let passes = (fate != Fate::Failed || is_mended).then_some((identity, outputs));
        Expected { fate, meets_damage: reads_damage && !is_done, passes, ..blocked }
    }

    /// Remembers what came of a run.
    pub fn learn(&mut self, forecast: Forecast, found: &Found) {
        for (number, expected) in forecast {
            let outcome = found.outcomes.get(&expected.name).map(String::as_str);
            let Some((identity, outputs)) = expected.passes else { continue };
            match outcome {
                Some("running") => {
                    self.perhaps.insert(identity, outputs);
                }
                Some("succeeded" | "reused") => {
                    if outcome == Some("succeeded") {
                        texts(&outputs).for_each(|text| {
                            self.lost.remove(text);
                        });
                        self.damaged.take_if(|damaged| texts(&outputs).any(|text| text == damaged));
                    }
                    self.perhaps.remove(&identity);
                    self.last.insert(number, identity.clone());
                    self.done.insert(identity, outputs);
                }
                _ => {}
            }
        }
    }

    /// What a node was when it last passed, and what it left, if that is
    /// still remembered.
    pub fn last(&self, number: u8) -> Option<(&Identity, &Vec<Left>)> {
        self.done.get_key_value(self.last.get(&number)?)
    }

    /// The result of a node was taken out of the store.
    pub fn forget(&mut self, identity: &Identity) {
        self.done.remove(identity);
    }
}

/// What differs between what had to come of a run and what came.
pub fn complaints(forecast: &Forecast, found: &Found, rules: Rules) -> Vec<String> {
    let judge = Judge { forecast, found, rules };
    let each = forecast.iter().flat_map(|(number, expected)| judge.node(*number, expected));
    let known: BTreeSet<&String> = forecast.values().map(|expected| &expected.name).collect();
    let strange = found.outcomes.keys().filter(|name| !known.contains(name));
    let strange = strange.map(|name| format!("{name} is recorded and not in the plan"));
    each.chain(strange).chain(judge.as_a_whole()).collect()
}

struct Judge<'a> {
    forecast: &'a Forecast,
    found: &'a Found,
    rules: Rules,
}

impl Judge<'_> {
    fn was_killed(&self) -> bool {
        self.found.exit_code.is_none()
    }

    fn outcome(&self, number: u8) -> Option<&str> {
        self.found.outcomes.get(&self.forecast[&number].name).map(String::as_str)
    }

    fn count(&self, outcome: &str) -> usize {
        self.found.outcomes.values().filter(|found| *found == outcome).count()
    }

    /// Whether the run may have left nodes out.
    fn may_skip(&self) -> bool {
        let fails = |expected: &Expected| matches!(expected.fate, Fate::Failed | Fate::Open);
        !self.rules.keep_going && self.forecast.values().any(fails)
    }

    /// Whether a node and all before it are there, so that nothing has to run
    /// for it.
    fn is_at_hand(&self, number: u8) -> bool {
        let expected = &self.forecast[&number];
        expected.fate == Fate::Reused && expected.dependencies.iter().all(|before| self.is_at_hand(*before))
    }

    fn node(&self, number: u8, expected: &Expected) -> Vec<String> {
        let name = &expected.name;
        let outcome = self.outcome(number);
        let (words, starts): (&[&str], bool) = match expected.fate {
            Fate::Reused => (&["reused"], false),
            Fate::Succeeded => (&["succeeded"], true),
            Fate::Either => (&["succeeded", "reused"], true),
            Fate::Failed => (&["failed"], true),
            Fate::Blocked => (&["blocked"], false),
            Fate::Open => (&["reused", "succeeded", "failed", "blocked"], true),
        };
        // A run that ends does not heal, or ends while it does.
        let ends_early = self.was_killed() || self.may_skip();
        let stays = ends_early && expected.is_mended && outcome == Some("reused");
        let gives_up = ends_early && expected.meets_damage && outcome == Some("failed");
        let may_be = match outcome {
            None => self.was_killed(),
            Some("running") => self.was_killed() && starts,
            Some("skipped") => self.may_skip() && !self.is_at_hand(number),
            Some(word) => words.contains(&word) || stays || gives_up,
        };
        let ran = self.found.times(number);
        let runs = match outcome {
            Some("failed") if gives_up || expected.fate == Fate::Open => ran <= 1,
            Some("succeeded" | "failed") => ran == 1,
            Some("running") => ran <= 1,
            _ => ran == 0,
        };
        let mut complaints = Vec::new();
        if !may_be {
            complaints.push(format!(
                "{name} is {} and had to be {}",
                outcome.unwrap_or("absent"),
                words.join(" or ")
            ));
        }
        if !runs {
            complaints
                .push(format!("{name} is {} and its command ran {ran} times", outcome.unwrap_or("absent")));
        }
        let held_up = |before: &u8| matches!(self.outcome(*before), Some("failed" | "blocked"));
        if outcome == Some("blocked") && !expected.dependencies.iter().any(held_up) {
            complaints.push(format!("{name} is blocked by nothing"));
        }
        complaints
    }

    fn as_a_whole(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let (failed, running) = (self.count("failed"), self.count("running"));
        if self.may_skip() && !self.was_killed() && !(1..=self.rules.jobs).contains(&failed) {
            complaints.push(format!("{failed} nodes failed, {} at a time", self.rules.jobs));
        }
        if running > self.rules.jobs {
            complaints.push(format!("{running} nodes were running, {} at a time", self.rules.jobs));
        }
        let ran = self
            .forecast
            .keys()
            .filter(|number| self.outcome(**number) == Some("failed") && self.found.times(**number) > 0);
        let code = if ran.count() > 0 {
            1
        } else if failed > 0 {
            3
        } else {
            0
        };
        if self.found.exit_code.is_some_and(|found| found != code) {
            complaints.push(format!("the exit code is {:?} and had to be {code}", self.found.exit_code));
        }
        complaints
    }
}

/// Every text of some outputs.
pub fn texts(outputs: &[Left]) -> impl Iterator<Item = &String> {
    outputs.iter().flat_map(BTreeMap::values)
}

fn content(model: &Model, read: &Read, before: &Forecast) -> Left {
    match *read {
        Read::File(file) => Left::from([(String::new(), model.files[file].clone())]),
        Read::Folder => {
            let files = model.folder.iter();
            files.map(|(name, text)| ((*name).to_owned(), text.clone())).collect()
        }
        Read::Output { node, output, .. } => match &before[&node].passes {
            Some((_, outputs)) => outputs[output].clone(),
            None => Left::new(),
        },
    }
}

/// What a node leaves of what it read.
fn outputs(node: &Node, read: &[Left]) -> Vec<Left> {
    let in_order = |left: &Left| -> String {
        let paths = [""].iter().chain(&NAMES);
        paths.filter_map(|path| left.get(*path)).map(String::as_str).collect()
    };
    let whole: String = read.iter().map(in_order).collect();
    let number = node.number;
    let make = |(at, output): (usize, &Output)| {
        let made = format!("{number}.{at}:{}", made(output.recipe, &whole));
        if output.is_folder {
            Left::from([(LEFT[0].to_owned(), made), (LEFT[1].to_owned(), format!("{number}.{at}\n"))])
        } else {
            Left::from([(String::new(), made)])
        }
    };
    node.outputs.iter().enumerate().map(make).collect()
}

fn made(recipe: Recipe, text: &str) -> String {
    match recipe {
        Recipe::Whole => text.to_owned(),
        Recipe::Digest => format!("{}  -\n", Sha256::of(text.as_bytes())),
        Recipe::Lines => format!("{}\n", text.matches('\n').count()),
        Recipe::FirstByte => text.chars().take(1).collect(),
        Recipe::Constant(constant) => format!("{constant}\n"),
    }
}
