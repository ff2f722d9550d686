//! Small types with one parser and one printer each.
//!
//! Nothing here does I/O beyond hashing a reader, and nothing here knows of
//! plans, nodes or engines.

pub mod digest;
pub mod duration;
pub mod reference;
pub mod size;

pub use digest::{Digest, Sha256};
pub use duration::Duration;
pub use reference::{Input, Reference, Text};
pub use size::Size;
