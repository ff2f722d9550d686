//! Evidence: what nodes found, and the pure rules that read it.
//!
//! Types and functions only; nothing here does I/O or knows of plans, and the
//! rules know neither an engine nor a client by name: readers fill the neutral
//! types of [`request`]. What was not measured says why ([`Measured`]).

pub mod acceptance;
pub mod accounting;
pub mod audit;
pub mod bundle;
pub mod command;
pub mod correlation;
pub mod fetched;
pub mod host;
pub mod ladder;
pub mod load;
pub mod matrix;
pub mod measured;
pub mod mode;
pub mod outcome;
pub mod packages;
pub mod quiet;
pub mod redact;
pub mod request;
#[cfg(test)]
mod sample;
pub mod service;
pub mod teardown;
pub mod timing;
pub mod validation;
pub mod warmup;

pub use measured::Measured;
pub use mode::Mode;
