//! One case from its beginning to its end: edit, run, compare.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use tokio::runtime::Runtime;

use super::genes::{Case, Edit, StepGene};
use super::model::{Model, Read};
use super::oracle::{Expected, Fate, Forecast, Found, Left, Oracle, Rules, complaints, texts};
use super::workshop::{DAMAGE, Place, Workshop};

type Passing = BTreeMap<String, Vec<Left>>;

/// What happened in some cases, counted.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<&'static str, usize>);

/// Whether a killed node was done rests with luck alone.
const RARE: &str = "kills whose node was done";
const COUNTED: [&str; 15] = [
    "cases",
    "runs",
    "commands",
    "succeeded",
    "reused",
    "failed",
    "blocked",
    "skipped",
    "spared by an equal input",
    "kills in a run",
    "kills in a node",
    RARE,
    "harms to the store",
    "made again for a reader",
    "comparisons with a fresh run",
];

impl Tally {
    fn count(&mut self, what: &'static str, number: usize) {
        *self.0.entry(what).or_default() += number;
    }

    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, number)| self.count(what, *number));
    }

    /// What has not happened.
    pub fn never(&self) -> Vec<&'static str> {
        let never = |what: &&str| self.0.get(what).is_none_or(|number| *number == 0);
        COUNTED.into_iter().filter(|what| *what != RARE).filter(never).collect()
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = COUNTED
            .iter()
            .map(|what| format!("{} {what}", self.0.get(what).copied().unwrap_or_default()))
            .collect();
        write!(f, "{}", counts.join(", "))
    }
}

/// Plays a case; the error tells it as a story.
pub fn check(case: &Case, runtime: &Runtime) -> Result<Tally, String> {
    let mut play = Play {
        model: Model::new(&case.nodes),
        oracle: Oracle::default(),
        workshop: Workshop::new(runtime),
        tally: Tally::default(),
        story: String::new(),
    };
    play.tally.count("cases", 1);
    match play.all(case) {
        Ok(()) => Ok(play.tally),
        Err(wrong) => Err(format!("{}\n{wrong}\n", play.story)),
    }
}

struct Play<'a> {
    model: Model,
    oracle: Oracle,
    workshop: Workshop<'a>,
    tally: Tally,
    story: String,
}

impl Play<'_> {
    fn all(&mut self, case: &Case) -> Result<(), String> {
        self.workshop.write(&self.model);
        for step in &case.steps {
            self.step(step)?;
        }
        if case.compares {
            self.compare_with_a_fresh_run()?;
        }
        Ok(())
    }

    fn tell(&mut self, what: &str) {
        self.story += what;
        self.story.push('\n');
    }

    fn step(&mut self, step: &StepGene) -> Result<(), String> {
        for edit in &step.edits {
            if let Some(said) = self.edit(edit) {
                self.tell(&format!("edit: {said}"));
            }
        }
        self.workshop.write(&self.model);
        self.tell_the_plan();
        let rules = Rules { keep_going: step.keep_going, jobs: step.jobs };
        if let Some(kill) = step.kill {
            self.tell(&format!("apply, {rules:?}, {kill:?}"));
            let forecast = self.oracle.expect(&self.model);
            let found = self.workshop.kill(rules, kill);
            self.compare(&forecast, &found, rules)?;
            self.count_a_kill(&found);
            self.remember(forecast, &found);
            self.workshop.look_at_harm(&mut self.oracle);
        }
        let rules = if step.kill.is_some() { Rules { keep_going: true, ..rules } } else { rules };
        self.tell(&format!("apply, {rules:?}"));
        self.apply(rules)
    }

    fn edit(&mut self, edit: &Edit) -> Option<String> {
        if let Edit::TouchFile { file } = edit {
            let file = usize::from(*file) % self.model.files.len();
            self.workshop.touch(file);
            return Some(format!("touch f{file}"));
        }
        if let Edit::Harm { node, harm } = *edit {
            let number = self.model.chosen(node)?.number;
            let said = self.workshop.harm(number, harm, &mut self.oracle)?;
            self.tally.count("harms to the store", 1);
            return Some(format!("node {number}: {said}"));
        }
        self.model.edit(edit)
    }

    fn tell_the_plan(&mut self) {
        let plan = self.model.plan("SIDE");
        if !self.story.contains(&plan) {
            self.tell(&plan);
        }
        let files = format!("files: {:?}, folder: {:?}", self.model.files, self.model.folder);
        self.tell(&files);
    }

    fn apply(&mut self, rules: Rules) -> Result<(), String> {
        let forecast = self.oracle.expect(&self.model);
        let found = self.workshop.apply(Place::Old, rules)?;
        self.compare(&forecast, &found, rules)?;
        self.count(&forecast, &found);
        let expected = passing(&forecast);
        let mends = forecast.values().any(|expected| expected.is_mended);
        self.remember(forecast, &found);
        if mends {
            self.workshop.look_at_harm(&mut self.oracle);
        }
        self.compare_outputs(Place::Old, &expected, &found, &self.oracle)
    }

    fn compare(&mut self, forecast: &Forecast, found: &Found, rules: Rules) -> Result<(), String> {
        let wrong = complaints(forecast, found, rules);
        for (number, expected) in forecast {
            let outcome = found.outcomes.get(&expected.name).map_or("absent", String::as_str);
            let ran = found.times(*number);
            let name = &expected.name;
            self.tell(&format!("  {name}: expected {:?}, found {outcome}, ran {ran} times", expected.fate));
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("WRONG: {}", wrong.join("; "))) }
    }

    /// What passed left the bytes it had to leave. What was harmed by hand is
    /// as it was left until a node that reads it finds that out.
    fn compare_outputs(
        &self,
        place: Place,
        expected: &Passing,
        found: &Found,
        harmed: &Oracle,
    ) -> Result<(), String> {
        for (name, key) in &found.keys {
            let mut left = expected[name].clone();
            if texts(&left).any(|text| harmed.lost.contains(text)) {
                continue;
            }
            let texts = left.iter_mut().flat_map(BTreeMap::values_mut);
            for text in texts.filter(|text| Some(&**text) == harmed.damaged.as_ref()) {
                DAMAGE.clone_into(text);
            }
            let found = self.workshop.left(place, key).map_err(|error| format!("WRONG: {name}: {error}"))?;
            if found != left {
                return Err(format!("WRONG: {name} had to leave {left:?} and left {found:?}"));
            }
        }
        Ok(())
    }

    fn remember(&mut self, forecast: Forecast, found: &Found) {
        for expected in forecast.values() {
            if let (Some((identity, _)), Some(key)) = (&expected.passes, found.keys.get(&expected.name)) {
                self.workshop.note_key(identity, key);
            }
        }
        self.oracle.learn(forecast, found);
    }

    fn count(&mut self, forecast: &Forecast, found: &Found) {
        self.tally.count("runs", 1);
        self.tally.count("commands", found.ran.values().sum());
        for outcome in ["succeeded", "reused", "failed", "blocked", "skipped"] {
            self.tally.count(outcome, found.outcomes.values().filter(|word| *word == outcome).count());
        }
        let word = |number: u8| found.outcomes[&forecast[&number].name].as_str();
        let reads_new = |number: &u8| {
            self.model
                .node(*number)
                .reads
                .iter()
                .any(|read| matches!(read, Read::Output { node, .. } if word(*node) == "succeeded"))
        };
        let spared = forecast.keys().filter(|number| word(**number) == "reused" && reads_new(number)).count();
        self.tally.count("spared by an equal input", spared);
        let mended = forecast
            .values()
            .filter(|expected| expected.is_mended && found.outcomes[&expected.name] == "succeeded");
        self.tally.count("made again for a reader", mended.count());
        let done = |expected: &&Expected| {
            expected.fate == Fate::Either && found.outcomes[&expected.name] == "reused"
        };
        self.tally.count(RARE, forecast.values().filter(done).count());
    }

    fn count_a_kill(&mut self, found: &Found) {
        let running = found.outcomes.values().any(|word| word == "running");
        self.tally.count("kills in a run", usize::from(!found.outcomes.is_empty()));
        self.tally.count("kills in a node", usize::from(running));
    }

    fn compare_with_a_fresh_run(&mut self) -> Result<(), String> {
        self.tell("apply, in an empty store");
        let rules = Rules { keep_going: true, jobs: 2 };
        let forecast = Oracle::default().expect(&self.model);
        let found = self.workshop.apply(Place::Fresh, rules)?;
        self.compare(&forecast, &found, rules)?;
        self.tally.count("comparisons with a fresh run", 1);
        self.compare_outputs(Place::Fresh, &passing(&forecast), &found, &Oracle::default())
    }
}

/// What the nodes that pass leave, by their names.
fn passing(forecast: &Forecast) -> Passing {
    let passing = forecast.values().filter_map(|expected| {
        let (_, outputs) = expected.passes.as_ref()?;
        Some((expected.name.clone(), outputs.clone()))
    });
    passing.collect()
}
