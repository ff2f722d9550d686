//! Child processes that cannot outlive us, and what they leave in their logs.
//!
//! Every long-lived child runs under a supervisor, a process of its own (the
//! hidden subcommand), that ends the child's whole tree of descendants when
//! the child ends, when it is told to, or when our end of a pipe closes.
//! Around it: reading `/proc`, holding and explaining ports, bounded and
//! masked views of logs, and short version probes.
//!
//! Nothing here knows of plans, nodes, engines or the store: callers say what
//! to run, with which complete environment, and where its output goes. Linux
//! only.

mod cgroup;
pub mod child;
pub mod environment;
pub mod error;
pub mod interrupt;
pub mod lease;
pub mod log;
pub mod mask;
pub mod port;
pub mod probe;
pub mod protocol;
pub mod supervisor;
mod teardown;
pub mod tree;
pub mod usage;

pub use child::{Child, Command, Containment, Stopper, run, spawn, spawn_within, this_executable};
pub use environment::{base_environment, secrets_in};
pub use error::{RunError, SpawnError, SupervisorLost};
pub use interrupt::{Haste, Interrupt, Interrupter, interrupt};
pub use lease::{Held, LeaseError, Leases, NoLeases};
pub use log::{tail, tail_masked};
pub use mask::{MaskedStream, Masker};
pub use port::{HeldPort, Listener, PortError, free_port, listeners_of, require_free};
pub use probe::{ProbeError, find_program, output_of};
pub use protocol::{Cause, Ended, Exit, NamedProcess};
pub use tree::Identity;
pub use usage::Usage;
