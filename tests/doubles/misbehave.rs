//! A program that misbehaves on demand. It is the test's own binary, started
//! again with a script in its environment.
//!
//! A script is steps separated by `;`, done in order. A step is a word,
//! perhaps a number, perhaps a script in braces for another process:
//!
//! - `say` writes `up` and a line's end to standard error
//! - `until N`: waits until so many `say` were done, by whomever
//! - `exit N`, `die N`: ends with a code, by a signal
//! - `sleep`: for ever; `wait N`: for so many milliseconds
//! - `fork {…}`, `group {…}`, `daemon {…}`, `anonymous {…}`: starts a child, in
//!   its parent's process group, in one of its own, in a session of its own
//!   with its parent gone, with nothing of its parent's environment
//! - `session`: leads a session of its own
//! - `bomb N`: becomes a tree of so many processes, each of which says so
//! - `deaf`: from here on TERM, INT and HUP do nothing
//! - `told`: waits for TERM
//! - `stop`: stops itself, as with Ctrl-Z
//! - `flood N`, `noise N`, `line N`: writes so many MiB of lines, of bytes of
//!   every value, of one line, to standard error
//! - `mute {…}`: goes on with a script, its output closed
//! - `rename`: takes the name of another program, spaces and parentheses in it
//! - `listen N`: listens on a port

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process, setsid};
use tokio::signal::unix::{SignalKind, signal};

const SCRIPT: &str = "MISBEHAVE";
const MIB: usize = 1 << 20;

/// The variables of a process that follows a script.
pub fn variable(script: &str) -> (String, String) {
    (SCRIPT.to_owned(), script.to_owned())
}

/// The command line of a process that follows the script in its environment;
/// `mark` stands in it and means nothing.
pub fn argv(mark: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().display().to_string();
    [&program, "misbehaves", mark, "--exact", "--ignored", "--nocapture"].map(str::to_owned).to_vec()
}

/// The script of the environment.
pub fn script() -> Option<String> {
    std::env::var(SCRIPT).ok()
}

/// Follows the script of the environment, if there is one.
pub fn main() {
    let Some(script) = script() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    for step in steps(&script) {
        take(&runtime, &step);
    }
    std::process::exit(0);
}

/// One step of a script.
struct Step {
    word: String,
    number: usize,
    script: String,
}

fn steps(script: &str) -> Vec<Step> {
    let mut depth = 0;
    let parts = script.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ';' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).map(step).collect()
}

fn step(text: &str) -> Step {
    let (head, script) = text.split_once('{').unwrap_or((text, ""));
    let mut words = head.split_whitespace();
    Step {
        word: words.next().unwrap().to_owned(),
        number: words.next().map_or(0, |number| number.parse().unwrap()),
        script: script.strip_suffix('}').unwrap_or_default().to_owned(),
    }
}

fn take(runtime: &tokio::runtime::Runtime, step: &Step) {
    let Step { word, number, script } = step;
    match word.as_str() {
        "say" => eprintln!("up"),
        "until" => {
            while said() < *number {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        "exit" => std::process::exit(i32::try_from(*number).unwrap()),
        "die" => {
            let signal = Signal::from_named_raw(i32::try_from(*number).unwrap()).unwrap();
            kill_process(getpid(), signal).unwrap();
            std::thread::park();
        }
        "sleep" => loop {
            std::thread::park();
        },
        "wait" => std::thread::sleep(Duration::from_millis(*number as u64)),
        "fork" => drop(start(&mut again(script))),
        "group" => drop(start(again(script).process_group(0))),
        "daemon" => {
            start(&mut again(&format!("session; fork {{{script}}}; exit 0"))).wait().unwrap();
        }
        "anonymous" => drop(start(again(script).env_clear().env(SCRIPT, script))),
        "session" => drop(setsid().unwrap()),
        "bomb" => bomb(*number),
        "deaf" => [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
            .into_iter()
            .for_each(|kind| drop(signal(kind).unwrap())),
        "told" => {
            let mut terminate = signal(SignalKind::terminate()).unwrap();
            eprintln!("up");
            runtime.block_on(terminate.recv());
        }
        "stop" => kill_process(getpid(), Signal::STOP).unwrap(),
        "flood" => write(*number, b"all is well, and there is much to say about it\n"),
        "noise" => write(*number, &(0..=255).collect::<Vec<u8>>()),
        "line" => write(*number, b"x"),
        "mute" => panic!("{}", again(script).stdout(Stdio::null()).stderr(Stdio::null()).exec()),
        "rename" => std::fs::write("/proc/self/comm", "a ) R 1 (b").unwrap(),
        "listen" => {
            let listener = TcpListener::bind(("127.0.0.1", u16::try_from(*number).unwrap())).unwrap();
            std::thread::spawn(move || listener.incoming().for_each(drop));
        }
        other => panic!("no step is called {other}"),
    }
}

/// This program with another script, and everything else as it is.
fn again(script: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(std::env::args_os().skip(1)).env(SCRIPT, script);
    command
}

fn start(command: &mut Command) -> Child {
    command.spawn().unwrap()
}

/// How often `up` stands in the log, as long as nothing else does.
fn said() -> usize {
    usize::try_from(std::fs::metadata("/proc/self/fd/2").unwrap().len()).unwrap() / "up\n".len()
}

/// A tree of `number` processes, this one included, all of which stay.
fn bomb(number: usize) {
    for part in [number / 2, (number - 1) / 2].into_iter().filter(|part| *part > 0) {
        drop(start(&mut again(&format!("bomb {part}; sleep"))));
    }
    eprintln!("up");
}

/// Writes MiB of a repeated pattern.
fn write(mib: usize, pattern: &[u8]) {
    let block: Vec<u8> = pattern.iter().copied().cycle().take(MIB).collect();
    let mut stderr = io::stderr().lock();
    for _ in 0..mib {
        stderr.write_all(&block).unwrap();
    }
}
