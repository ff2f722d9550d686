//! `orchestrate` qualifies LLM serving workloads from declarative plans.
//!
//! A plan (YAML) becomes a DAG of nodes; nodes run real programs and leave
//! evidence; pure rules turn evidence into statuses; reporters print them.
//! Data flows one way: a module uses only modules listed below it, and a test
//! holds it to that.

pub mod cli;

pub mod report;

pub mod run;

pub mod dag;
pub mod plan;

pub mod node;

pub mod matrix;

pub mod aiperf;
pub mod engine;

pub mod corpus;
pub mod gguf;

pub mod host;
pub mod jsonl;

pub mod evidence;

pub mod state;

pub mod store;

pub mod http;
pub mod metrics;
pub mod process;

pub mod event;
pub mod value;
