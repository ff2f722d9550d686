//! Why a child could not be started, or was lost.

use std::path::PathBuf;

use super::tree::Identity;

/// A child could not be started; nothing of it runs.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program is not there.
    #[error("program `{program}` was not found in {searched}: install it, or name it by its full path")]
    NotFound {
        /// As the command names it.
        program: String,
        /// The `PATH`, or the path itself.
        searched: String,
    },
    /// The program is there, but what its first line or header asks for is not.
    #[error("`{}` cannot start because its interpreter does not exist: read its first line (`head -1`) and install what it names", program.display())]
    NoInterpreter {
        /// The file found.
        program: PathBuf,
    },
    /// The file is there but cannot be executed.
    #[error("`{}` cannot be executed ({reason}): give it execute permission, or check that it was built for this machine", program.display())]
    NotExecutable {
        /// The file found.
        program: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The working directory is not there.
    #[error("`{program}` cannot start in {}: create this directory first", cwd.display())]
    NoDirectory {
        /// As the command names it.
        program: String,
        /// The working directory.
        cwd: PathBuf,
    },
    /// A log file could not be opened.
    #[error(
        "the log of `{program}` cannot be opened ({reason}): make its directory and check its permissions"
    )]
    Log {
        /// As the command names it.
        program: String,
        /// The file and what the system said.
        reason: String,
    },
    /// The system refused for another reason.
    #[error(
        "`{program}` cannot be started ({reason}): check the size of its arguments and the limits of this machine (`ulimit -a`)"
    )]
    Refused {
        /// As the command names it.
        program: String,
        /// What the system said.
        reason: String,
    },
    /// The supervisor itself failed.
    #[error("the supervisor of `{program}` failed ({reason}): check that {} is a complete `orchestrate` binary", supervisor.display())]
    Supervisor {
        /// As the command names it.
        program: String,
        /// The binary that was to supervise.
        supervisor: PathBuf,
        /// What went wrong.
        reason: String,
    },
}

/// The supervisor ended without a report.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the supervisor (pid {}) of `{program}` was killed; {swept} processes it left were ended: look for the out-of-memory killer in `dmesg`", supervisor.pid)]
pub struct SupervisorLost {
    /// The program that was supervised.
    pub program: String,
    /// The supervisor.
    pub supervisor: Identity,
    /// How many orphans were found in its session and killed.
    pub swept: usize,
}

/// A child could not be started, or its supervisor was lost.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum RunError {
    /// See [`SpawnError`].
    Spawn(#[from] SpawnError),
    /// See [`SupervisorLost`].
    Lost(#[from] SupervisorLost),
}
