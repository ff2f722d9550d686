//! Checks one file of the plan language, whichever it is.

use std::path::Path;
use std::sync::Arc;

use super::diagnostic::{Diagnostics, SourceFile};
use super::document::{FragmentDocument, PlanDocument, TargetDocument};
use super::expand::expand;
use super::files::Files;
use super::load::{Given, Mistakes, load_parsed, prefix};
use super::params::Params;
use super::sheet::{Parsed, Sheet, SheetReader};
use super::tree::{Origin, Position, Tree, Value};
use super::{Plan, read_site};

/// A file without mistakes.
#[derive(Debug)]
pub enum Checked {
    /// A plan with everything it names.
    Plan(Box<Plan>),
    /// A target by itself: what its nodes refer to in the plan is not known.
    Target {
        /// Its name.
        name: String,
        /// How many nodes it has.
        nodes: usize,
    },
    /// A fragment by itself.
    Fragment {
        /// Its name.
        name: String,
        /// How many nodes it has.
        nodes: usize,
    },
    /// A site file.
    Site {
        /// How many values it gives.
        values: usize,
    },
    /// A file of another language: it has no `orchestrate:` key.
    Other,
}

/// Checks a file. Plans are loaded with all they name; targets and fragments
/// are checked as far as they can be without a plan.
pub fn check(files: &dyn Files, path: &Path, given: &Given) -> Result<Checked, Diagnostics> {
    let parsed = Parsed::read(files, path).map_err(|diagnostic| Diagnostics(vec![diagnostic]))?;
    if parsed.has("target") {
        return alone(files, parsed, given, |reader, plan, targets| {
            let target: Sheet<TargetDocument> = reader.read(path, None, prefix)?;
            plan.file = Arc::clone(&target.file);
            let checked = Checked::Target { name: target.document.target.clone(), nodes: target.nodes.len() };
            targets.push(target);
            Some(checked)
        });
    }
    if parsed.has("fragment") {
        return alone(files, parsed, given, |reader, plan, _| {
            let fragment: Sheet<FragmentDocument> = reader.read(path, None, |_| None)?;
            let Sheet { file, document, nodes, .. } = fragment;
            let checked = Checked::Fragment { name: document.fragment, nodes: nodes.len() };
            (plan.file, plan.nodes) = (file, nodes);
            Some(checked)
        });
    }
    if parsed.has("values") {
        return read_site(files, path).map(|values| Checked::Site { values: values.len() });
    }
    if parsed.tree.is_some() && !parsed.has("orchestrate") {
        return Ok(Checked::Other);
    }
    load_parsed(files, parsed, given).map(|plan| Checked::Plan(Box::new(plan)))
}

/// Checks a file by itself: `read` puts it where it belongs in an empty plan.
fn alone(
    files: &dyn Files,
    parsed: Parsed,
    given: &Given,
    read: impl FnOnce(
        &mut SheetReader<'_>,
        &mut Sheet<PlanDocument>,
        &mut Vec<Sheet<TargetDocument>>,
    ) -> Option<Checked>,
) -> Result<Checked, Diagnostics> {
    let mut mistakes = Mistakes::default();
    let mut reader = SheetReader::new(files, given, &mut mistakes, true).with(parsed);
    let mut plan = empty_plan();
    let mut targets = Vec::new();
    let checked = read(&mut reader, &mut plan, &mut targets);
    mistakes.names(&plan, &targets);
    expand(&plan, &targets, true, &mut mistakes);
    match checked {
        Some(checked) if mistakes.is_empty() => Ok(checked),
        _ => Err(mistakes.into_diagnostics()),
    }
}

fn empty_plan() -> Sheet<PlanDocument> {
    Sheet {
        file: Arc::new(SourceFile { path: std::path::PathBuf::new(), text: String::new() }),
        tree: Tree { value: Value::Null, at: Position::default(), origin: Origin::Plain },
        document: PlanDocument::default(),
        params: Params::default(),
        nodes: Vec::new(),
    }
}
