//! TCP ports on this machine: a free one for a server, and who holds a taken one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use super::tree;

/// A free port, held so that nobody else is given it before our server starts.
#[derive(Debug)]
pub struct HeldPort {
    listener: TcpListener,
    port: u16,
}

impl HeldPort {
    /// The port's number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets go of the port, right before the server that is to listen there
    /// is started.
    #[must_use]
    pub fn release(self) -> u16 {
        drop(self.listener);
        self.port
    }
}

/// A socket that listens, and the process it belongs to where that can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The address it listens on.
    pub address: IpAddr,
    /// The process; none where it belongs to another user.
    pub pid: Option<u32>,
    /// How the process was started; may hold secrets, mask it before it is kept.
    pub command: Option<String>,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.command, self.pid) {
            (Some(command), Some(pid)) => write!(f, "`{command}` (pid {pid})"),
            (None, Some(pid)) => write!(f, "pid {pid}"),
            _ => write!(f, "a process of another user"),
        }
    }
}

/// A port cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Something else has it.
    #[error("port {port} is taken by {}: end that process if it is yours, or choose another port", Holder(holder.as_ref()))]
    Taken {
        /// The port's number.
        port: u16,
        /// Who listens there; none where a connection uses the port.
        holder: Option<Listener>,
    },
    /// The system does not give it.
    #[error("port {port} of 127.0.0.1 cannot be used ({source}): choose another port, above 1023")]
    Unusable {
        /// The port's number; 0 stands for any.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
}

struct Holder<'a>(Option<&'a Listener>);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(listener) => listener.fmt(f),
            None => write!(f, "an open connection"),
        }
    }
}

/// Takes a port of 127.0.0.1 that the system says is free.
pub fn free_port() -> Result<HeldPort, PortError> {
    hold(0).map_err(|source| PortError::Unusable { port: 0, source })
}

/// Takes this very port of 127.0.0.1, or says who has it.
///
/// A listener on the same port of `::1` also counts: clients that say
/// `localhost` may reach it instead of our server.
pub fn require_free(port: u16) -> Result<HeldPort, PortError> {
    let mut holders = listeners_of(port).into_iter().filter(|held| is_local(held.address));
    if let Some(holder) = holders.next() {
        return Err(PortError::Taken { port, holder: Some(holder) });
    }
    hold(port).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => PortError::Taken { port, holder: listeners_of(port).pop() },
        _ => PortError::Unusable { port, source },
    })
}

fn hold(port: u16) -> io::Result<HeldPort> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let port = listener.local_addr()?.port();
    Ok(HeldPort { listener, port })
}

/// Whether a client on this machine that says `localhost` may arrive there.
fn is_local(address: IpAddr) -> bool {
    address.is_unspecified() || address.to_canonical().is_loopback()
}

/// Who listens on a port, on any address; one entry for each process that
/// holds the socket.
#[must_use]
pub fn listeners_of(port: u16) -> Vec<Listener> {
    let sockets: HashMap<u64, IpAddr> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| table.lines().filter_map(parse_listener).collect::<Vec<_>>())
        .filter(|socket| socket.port == port)
        .map(|socket| (socket.inode, socket.address))
        .collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    let mut holders = holders_of(&sockets);
    sockets
        .into_iter()
        .flat_map(|(inode, address)| {
            let pids = holders.remove(&inode).unwrap_or_default();
            let unknown = pids.is_empty().then_some(None);
            pids.into_iter().map(Some).chain(unknown).map(move |pid| Listener {
                address,
                pid,
                command: pid.and_then(tree::command_of),
            })
        })
        .collect()
}

/// The processes that have one of these sockets open, by the socket's inode.
fn holders_of(sockets: &HashMap<u64, IpAddr>) -> BTreeMap<u64, Vec<u32>> {
    let mut holders: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for pid in tree::pids() {
        for inode in socket_inodes(pid) {
            let pids = holders.entry(inode).or_default();
            if sockets.contains_key(&inode) && !pids.contains(&pid) {
                pids.push(pid);
            }
        }
    }
    holders
}

fn socket_inodes(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// Reads a line of `/proc/net/tcp` or `tcp6` (`proc_pid_net(5)`) if its socket listens.
fn parse_listener(line: &str) -> Option<Socket> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != LISTEN {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    Some(Socket {
        address: parse_address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// An address is written as words of 32 bits in the machine's byte order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_port_is_ours_until_it_is_released() {
        let held = free_port().unwrap();
        let port = held.port();
        let error = require_free(port).unwrap_err();
        let PortError::Taken { holder: Some(holder), .. } = &error else { panic!("{error}") };
        assert_eq!(holder.pid, Some(std::process::id()));
        assert_eq!(holder.address, Ipv4Addr::LOCALHOST);
        let start = format!("port {port} is taken by `");
        let end = format!(
            "` (pid {}): end that process if it is yours, or choose another port",
            std::process::id()
        );
        assert!(error.to_string().starts_with(&start) && error.to_string().ends_with(&end), "{error}");
        assert_eq!(held.release(), port);
        assert_eq!(listeners_of(port), []);
        assert_eq!(require_free(port).unwrap().port(), port);
    }

    #[test]
    fn a_listener_on_every_address_is_a_holder() {
        let other = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        assert!(matches!(require_free(port), Err(PortError::Taken { .. })));
    }

    #[test]
    fn only_sockets_that_listen_are_read() {
        let listening = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 650 1 000000001ef5fd86 100 0 0 10 0";
        let socket = Socket { address: Ipv4Addr::LOCALHOST.into(), port: 8080, inode: 650 };
        assert_eq!(parse_listener(listening), Some(socket));
        assert_eq!(parse_listener(&listening.replace(" 0A ", " 01 ")), None);
        assert_eq!(parse_listener("  sl  local_address rem_address   st"), None);
        let v6 = "00000000000000000000000001000000";
        assert_eq!(parse_address(v6), Some(Ipv6Addr::LOCALHOST.into()));
    }
}
