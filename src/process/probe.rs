//! Finding programs, and asking them short questions such as their version.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::protocol::Exit;

/// How much of an answer is read, in bytes.
const ANSWER_LIMIT: u64 = 64 * 1024;

/// A program did not answer a short question.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no such program.
    #[error("program `{program}` was not found: install it, or name it by its full path")]
    NotFound {
        /// As the question names it.
        program: String,
    },
    /// It did not answer in time and was killed with its process group.
    #[error("`{command}` did not answer within {} ms: run it by hand to see what it waits for", after.as_millis())]
    TimedOut {
        /// The arguments joined by spaces.
        command: String,
        /// The time it had.
        after: Duration,
    },
    /// It answered with a failure.
    #[error("`{command}` {exit}: {output}")]
    Failed {
        /// The arguments joined by spaces.
        command: String,
        /// How it ended.
        exit: Exit,
        /// The end of what it wrote.
        output: String,
    },
    /// It could not be asked.
    #[error("`{command}` could not be run: {source}")]
    Io {
        /// The arguments joined by spaces.
        command: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Finds a program by name in a list of directories such as the value of
/// `PATH`, or checks the path where `name` holds a slash.
///
/// Empty and relative entries of `path_var` are passed over: what they find
/// depends on where one stands.
#[must_use]
pub fn find_program(name: &str, path_var: &str) -> Option<PathBuf> {
    match look_up(name, path_var, Path::new("")) {
        Lookup::Found(program) => Some(program),
        Lookup::NotExecutable(_) | Lookup::Missing => None,
    }
}

/// What a search for a program came to.
pub(super) enum Lookup {
    Found(PathBuf),
    /// There is a file or directory of this name, but it cannot be executed.
    NotExecutable(PathBuf),
    Missing,
}

/// Like [`find_program`]; a relative `name` with a slash is taken from `cwd`.
pub(super) fn look_up(name: &str, path_var: &str, cwd: &Path) -> Lookup {
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![cwd.join(name).components().collect()]
    } else if name.is_empty() {
        Vec::new()
    } else {
        let directories = std::env::split_paths(path_var).filter(|path| path.is_absolute());
        directories.map(|directory| directory.join(name)).collect()
    };
    if let Some(found) = candidates.iter().find(|path| is_executable(path)) {
        return Lookup::Found(found.clone());
    }
    match candidates.into_iter().find(|path| path.exists()) {
        Some(present) => Lookup::NotExecutable(present),
        None => Lookup::Missing,
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Runs a short command and returns what it wrote, trimmed: its output, or
/// its errors where the output is blank, at most 64 KiB.
///
/// `env` is its complete environment. It runs in a process group of its own,
/// which is killed when `timeout` is over or the future is dropped; a child
/// that may need more than that belongs under a supervisor.
pub async fn output_of(
    argv: &[&str],
    env: &BTreeMap<String, String>,
    timeout: Duration,
) -> Result<String, ProbeError> {
    let command = || argv.join(" ");
    let io_error = |source| ProbeError::Io { command: command(), source };
    let name = argv.first().copied().unwrap_or_default();
    let path_var = env.get("PATH").map_or("", String::as_str);
    let program =
        find_program(name, path_var).ok_or_else(|| ProbeError::NotFound { program: name.to_owned() })?;
    let mut child = tokio::process::Command::new(program)
        .args(&argv[1..])
        .env_clear()
        .envs(env)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(io_error)?;
    let group = Group(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = async {
        let (out, err) = tokio::try_join!(read_some(stdout), read_some(stderr))?;
        Ok((out, err, child.wait().await?))
    };
    let answer = tokio::time::timeout(timeout, answer).await;
    let (out, err, status) = match answer {
        Ok(answer) => answer.map_err(io_error)?,
        Err(_) => {
            return Err(ProbeError::TimedOut { command: command(), after: timeout });
        }
    };
    group.ended();
    let text = if out.trim().is_empty() { err } else { out };
    if status.success() {
        return Ok(text.trim().to_owned());
    }
    let exit = std::os::unix::process::ExitStatusExt::signal(&status)
        .map_or_else(|| Exit::Code(status.code().unwrap_or(-1)), Exit::Signal);
    let last = text.trim().lines().last().unwrap_or("it wrote nothing").to_owned();
    Err(ProbeError::Failed { command: command(), exit, output: last })
}

async fn read_some(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(ANSWER_LIMIT).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A process group that is killed when this is dropped before its leader ended.
struct Group(Option<u32>);

impl Group {
    /// Its leader has been collected, so its number may already be another's.
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let leader = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> BTreeMap<String, String> {
        BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())])
    }

    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn an_answer_is_trimmed_and_may_come_on_either_stream() {
        assert_eq!(output_of(&["sh", "-c", "echo v1; echo no >&2"], &env(), SOON).await.unwrap(), "v1");
        assert_eq!(output_of(&["sh", "-c", "echo v2 >&2"], &env(), SOON).await.unwrap(), "v2");
    }

    #[tokio::test]
    async fn the_environment_is_only_what_is_given() {
        let text = output_of(&["/usr/bin/env"], &env(), SOON).await.unwrap();
        assert_eq!(text, "PATH=/usr/local/bin:/usr/bin:/bin");
    }

    #[tokio::test]
    async fn a_failure_shows_the_code_and_the_last_line() {
        let error = output_of(&["sh", "-c", "echo a; echo b; exit 3"], &env(), SOON).await.unwrap_err();
        assert_eq!(error.to_string(), "`sh -c echo a; echo b; exit 3` exited with 3: b");
    }

    #[tokio::test]
    async fn a_silent_program_and_its_children_are_killed_in_time() {
        let begun = std::time::Instant::now();
        let argv = ["sh", "-c", "sleep 61.7 & sleep 61.7"];
        let error = output_of(&argv, &env(), Duration::from_millis(100)).await.unwrap_err();
        assert!(matches!(error, ProbeError::TimedOut { .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        let left = || {
            let all = super::super::tree::processes();
            all.iter()
                .filter(|p| p.is_running())
                .any(|p| super::super::tree::command_of(p.identity.pid).is_some_and(|c| c == "sleep 61.7"))
        };
        while left() {
            assert!(begun.elapsed() < Duration::from_secs(5), "a child of the probe still runs");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[test]
    fn a_program_is_found_by_name_or_by_path_and_only_if_executable() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("data"), "x").unwrap();
        let path_var = format!("relative::{}:/usr/bin:/bin", dir.path().display());
        assert!(find_program("sh", &path_var).is_some());
        assert_eq!(find_program("/bin/sh", ""), Some("/bin/sh".into()));
        for name in ["data", "no-such-program", "", "/no/such"] {
            assert_eq!(find_program(name, &path_var), None, "{name:?}");
        }
    }
}
