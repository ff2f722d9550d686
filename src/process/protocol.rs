//! What a supervisor and its orchestrator say to each other.
//!
//! The orchestrator writes one [`Spec`] as a line of JSON, later perhaps
//! `stop` or `kill`, and closes the pipe when it no longer cares. The
//! supervisor answers with one [`Message`] per line: `started` or `failed`,
//! then `ended`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::tree::Identity;

/// What to run and how long it may take.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The program's file.
    pub program: PathBuf,
    /// The arguments; the first is the name the program sees as its own.
    pub argv: Vec<String>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// Its complete environment.
    pub env: BTreeMap<String, String>,
    /// The file its output is appended to.
    pub stdout: PathBuf,
    /// The file its errors are appended to; may be the same.
    pub stderr: PathBuf,
    /// How long it may run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How long its processes get between TERM and KILL, in milliseconds.
    pub grace_ms: u64,
    /// What its processes are held by.
    #[serde(default)]
    pub containment: Containment,
}

/// What a child's processes are held by, so that all of them are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// The family tree of `/proc`, and a cgroup where the system lets us make one.
    #[default]
    Cgroup,
    /// The family tree alone.
    Family,
}

/// One line from the supervisor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The program runs.
    Started(Identity),
    /// It could not be started; nothing runs.
    Failed {
        /// What kind of obstacle it was.
        kind: Failure,
        /// What the system said.
        reason: String,
    },
    /// Nothing of it runs any more.
    Ended(Ended),
}

/// Why a program could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The program or its interpreter does not exist.
    NotFound,
    /// The file exists but cannot be executed.
    NotExecutable,
    /// A log file could not be opened.
    Log,
    /// The system refused for another reason.
    Other,
    /// The supervisor could not do its own work.
    Supervisor,
}

/// What made a child end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// It ended by itself.
    Exited,
    /// It was told to.
    Stopped,
    /// Its time was up.
    Timeout,
    /// The orchestrator went away or dropped it.
    Orphaned,
}

/// How a process ended, as its parent sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It could not be killed: the kernel holds it, or it belongs to another user.
    Never,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exited with {code}"),
            Self::Signal(signal) => match signal_name(signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            Self::Never => write!(f, "could not be killed"),
        }
    }
}

/// Names the signals programs end by; the numbers are those all Linux
/// architectures share (`signal(7)`).
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// A process by its number and command line, for people.
///
/// The command may hold secrets: mask it before it is shown or kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedProcess {
    /// The process number.
    pub pid: u32,
    /// Its arguments joined by spaces.
    pub command: String,
}

impl fmt::Display for NamedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.command, self.pid)
    }
}

/// How a child and its whole tree ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EndedLine", into = "EndedLine")]
pub struct Ended {
    /// How the child itself ended.
    pub exit: Exit,
    /// What made it end.
    pub cause: Cause,
    /// How many processes of its tree had to be killed, not having ended on TERM.
    pub killed: usize,
    /// The processes that still ran after the child had exited by itself and
    /// had to be ended: a daemon it left behind.
    pub leftovers: Vec<NamedProcess>,
    /// The processes that even KILL did not end; empty but on a broken machine.
    pub survivors: Vec<NamedProcess>,
}

impl Ended {
    /// Whether the child ended by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit == Exit::Code(0) && self.cause == Cause::Exited
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Exited => write!(f, "{}", self.exit),
            Cause::Stopped => write!(f, "{} after it was told to stop", self.exit),
            Cause::Timeout => write!(f, "{} after its time limit", self.exit),
            Cause::Orphaned => write!(f, "{} after the orchestrator went away", self.exit),
        }
    }
}

/// The flat form of [`Ended`] on the wire.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndedLine {
    exit_code: Option<i32>,
    signal: Option<i32>,
    cause: Cause,
    killed: usize,
    leftovers: Vec<NamedProcess>,
    survivors: Vec<NamedProcess>,
}

impl From<Ended> for EndedLine {
    fn from(ended: Ended) -> Self {
        let (exit_code, signal) = match ended.exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
            Exit::Never => (None, None),
        };
        let Ended { cause, killed, leftovers, survivors, .. } = ended;
        Self { exit_code, signal, cause, killed, leftovers, survivors }
    }
}

impl From<EndedLine> for Ended {
    fn from(line: EndedLine) -> Self {
        let exit = match (line.exit_code, line.signal) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Never,
        };
        let EndedLine { cause, killed, leftovers, survivors, .. } = line;
        Self { exit, cause, killed, leftovers, survivors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit: Exit, cause: Cause) -> Ended {
        Ended { exit, cause, killed: 0, leftovers: Vec::new(), survivors: Vec::new() }
    }

    #[test]
    fn the_last_line_is_flat_json_and_reads_back() {
        let message = Message::Ended(ended(Exit::Signal(9), Cause::Timeout));
        let line = serde_json::to_string(&message).unwrap();
        assert_eq!(
            line,
            r#"{"ended":{"exit_code":null,"signal":9,"cause":"timeout","killed":0,"leftovers":[],"survivors":[]}}"#
        );
        let Message::Ended(back) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        assert_eq!(back, ended(Exit::Signal(9), Cause::Timeout));
    }

    #[test]
    fn an_end_reads_as_a_sentence() {
        assert_eq!(ended(Exit::Code(3), Cause::Exited).to_string(), "exited with 3");
        assert_eq!(ended(Exit::Signal(9), Cause::Exited).to_string(), "killed by SIGKILL");
        assert_eq!(
            ended(Exit::Signal(15), Cause::Timeout).to_string(),
            "killed by SIGTERM after its time limit"
        );
        assert_eq!(Exit::Signal(40).to_string(), "killed by signal 40");
    }

    #[test]
    fn only_an_exit_by_itself_with_zero_is_success() {
        assert!(ended(Exit::Code(0), Cause::Exited).success());
        assert!(!ended(Exit::Code(0), Cause::Stopped).success());
        assert!(!ended(Exit::Code(1), Cause::Exited).success());
    }
}
