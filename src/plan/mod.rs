//! From YAML files to a [`Plan`]: parse, resolve, expand, check.
//!
//! This room knows the settings types of nodes and nothing of running them.

mod check;
mod cycle;
pub mod diagnostic;
pub mod document;
mod expand;
mod files;
mod late;
mod lattice;
mod load;
mod mention;
mod mistake;
mod params;
mod reference;
mod review;
pub mod schema;
mod scope;
mod sheet;
mod site;
mod sweep;
pub mod tree;
pub mod typed;
pub mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;

pub use check::{Checked, check};
pub use cycle::cycle_in;
pub use diagnostic::{Diagnostic, Diagnostics, Slip, SourceFile};
pub use document::{OnBusy, QuietSettings, Retry};
pub use files::{Disk, Files};
pub use load::{Given, load, load_from};
pub use site::{Site, read_site};

use crate::evidence::mode::Mode;
use crate::host::Requirement;
use crate::node::Kind;
use crate::value::Duration;
use tree::Position;

/// Whether text can name a plan, a target or a node, and is text to every
/// reader of YAML without quotes.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let mut slips = Vec::new();
    let read = yaml::parse(text, &mut slips);
    let is_text = slips.is_empty() && read.is_some_and(|tree| tree.text() == Some(text));
    sweep::is_label(text) && is_text && yaml::misread(text).is_none()
}

/// A loaded plan: every reference resolved but those to what nodes produce,
/// every sweep expanded, every setting typed.
#[derive(Debug)]
pub struct Plan {
    /// Short name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The file it was read from.
    pub file: Arc<SourceFile>,
    /// The targets in the order of the plan.
    pub targets: Vec<Target>,
    /// Tokens that nodes take beside `cpu` and `gpu`, with how many there are.
    pub resources: BTreeMap<String, u32>,
    /// Node instances by name.
    pub nodes: IndexMap<String, PlannedNode>,
    /// What is qualified, one for each target where it depends on one.
    pub subjects: Vec<Subject>,
}

impl Plan {
    /// The texts of the files it is written in, each once.
    #[must_use]
    pub fn texts(&self) -> Vec<&str> {
        let mut files: Vec<&Arc<SourceFile>> = vec![&self.file];
        for node in self.nodes.values() {
            if !files.iter().any(|file| Arc::ptr_eq(file, &node.file)) {
                files.push(&node.file);
            }
        }
        files.into_iter().map(|file| file.text.as_str()).collect()
    }
}

/// The resource of processors, counted as the system counts them.
pub const CPU: &str = "cpu";
/// The resource of accelerators.
pub const GPU: &str = "gpu";

/// One target of a plan.
#[derive(Debug, Clone)]
pub struct Target {
    /// Short name.
    pub name: String,
    /// Facts for the matrix.
    pub about: BTreeMap<String, String>,
    /// What the machine must have.
    pub requires: Vec<Requirement>,
}

/// One node instance.
#[derive(Debug, Clone)]
pub struct PlannedNode {
    /// Instance name, such as `load[target=trtmc]`.
    pub name: String,
    /// Kind and settings.
    pub kind: Arc<Kind>,
    /// Instances that its settings refer to.
    pub references: Vec<String>,
    /// Instances that must succeed before it although no data flows.
    pub needs: Vec<String>,
    /// How long it may take in all.
    pub timeout: Option<Duration>,
    /// How old a measurement may be and still be reused.
    pub max_age: Option<Duration>,
    /// How it is tried again after it failed.
    pub retry: Option<Retry>,
    /// What it takes while it runs, by resource.
    pub resources: BTreeMap<String, u32>,
    /// How quiet the machine has to be while it measures.
    pub quiet: Option<QuietSettings>,
    /// The target it belongs to.
    pub target: Option<String>,
    /// The steps of the sweeps it depends on, as name and label.
    pub sweep: Vec<(String, String)>,
    /// The file it is written in.
    pub file: Arc<SourceFile>,
    /// Where in that file.
    pub at: Position,
}

/// One thing that is qualified.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Name: plan, target and the subject's own name, joined by `/`.
    pub name: String,
    /// The target that serves it; empty where there is none.
    pub target: String,
    /// Runtime mode.
    pub mode: Mode,
    /// Share of measured requests that may fail, from 0 to 1.
    pub error_limit: f64,
    /// Facts of the target, and the steps of sweeps by their names.
    pub about: BTreeMap<String, String>,
    /// Node instances by role.
    pub roles: Vec<(String, String)>,
    /// Where its mode is written in the plan's file.
    pub mode_at: Position,
    /// Where each of its roles is written there.
    pub places: Vec<Position>,
}
