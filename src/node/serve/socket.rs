//! The port of a server, and whose sockets listen there.

use crate::evidence::redact::public_text;
use crate::node::Failure;
use crate::process::{Listener, listeners_of, tree};

/// The port that a server of ours was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// The process whose descendants are ours.
    pub supervisor: u32,
}

impl Socket {
    /// The process of ours that listens, if nobody else does.
    pub(in crate::node) fn require_ours(self) -> Result<Option<u32>, Failure> {
        let (ours, stranger) = self.listeners();
        match stranger {
            Some(stranger) => Err(self.refusal(&stranger)),
            None => Ok(ours),
        }
    }

    /// Who listens on the port and is not ours.
    pub(super) fn stranger(self) -> Option<Listener> {
        self.listeners().1
    }

    /// A process of ours that listens, and one that is not ours.
    fn listeners(self) -> (Option<u32>, Option<Listener>) {
        let listeners = listeners_of(self.port);
        if listeners.is_empty() {
            return (None, None);
        }
        let family = tree::descendants(self.supervisor);
        let is_ours = |pid: u32| family.iter().any(|process| process.identity.pid == pid);
        let (ours, others): (Vec<_>, Vec<_>) =
            listeners.into_iter().partition(|listener| listener.pid.is_some_and(is_ours));
        // One that is gone by now was a child of ours in passing.
        let is_there = |listener: &Listener| listener.pid.is_none_or(|pid| tree::start_time(pid).is_some());
        (ours.into_iter().find_map(|listener| listener.pid), others.into_iter().find(is_there))
    }

    /// Says who is there in our server's place.
    pub(super) fn refusal(self, stranger: &Listener) -> Failure {
        Failure::environment(format!(
            "port {} is answered by a process that is not ours, {}; stop it, or let the plan choose a free port",
            self.port,
            who(stranger)
        ))
        .with_log(stranger.command.clone().unwrap_or_default())
    }
}

/// A process by its number and its program. Arguments may hold what is not
/// ours to publish, so they are shown beside a message and never in it.
pub(super) fn who(listener: &Listener) -> String {
    let program = listener.command.as_deref().and_then(|command| command.split_whitespace().next());
    match (listener.pid, program) {
        (Some(pid), Some(program)) => format!("process {pid} ({})", public_text(program)),
        (Some(pid), None) => format!("process {pid}"),
        (None, _) => "a process of another user".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_socket_is_ours_only_below_our_supervisor() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let me = std::process::id();
        let failure = Socket { port, supervisor: me }.require_ours().unwrap_err();
        let named = format!("port {port} is answered by a process that is not ours, process {me} (");
        assert!(failure.message.starts_with(&named), "{}", failure.message);
        drop(listener);
        assert_eq!(Socket { port, supervisor: me }.require_ours().unwrap(), None);
    }

    #[test]
    fn a_stranger_is_named_without_its_arguments_and_places() {
        let listener = |pid, command: Option<&str>| Listener {
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            pid,
            command: command.map(str::to_owned),
        };
        assert_eq!(who(&listener(Some(7), Some("/home/alice/bin/serve --key sk-1"))), "process 7 (serve)");
        assert_eq!(who(&listener(Some(7), None)), "process 7");
        assert_eq!(who(&listener(None, None)), "a process of another user");
    }
}
