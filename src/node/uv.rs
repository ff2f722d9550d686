//! `uv`: found on PATH, else installed once into an environment of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Context, Failure};
use crate::process::{find_program, output_of};
use crate::value::{Digest, Sha256};

/// The version that is installed where none is found.
const PINNED: &str = "uv==0.13.9";
const PROBE: Duration = Duration::from_secs(20);
const INSTALL: Duration = Duration::from_secs(600);

/// An installer that works, and the interpreter it works for.
#[derive(Debug, Clone)]
pub struct Uv {
    program: PathBuf,
    /// Version of the installer.
    pub version: String,
    python: PathBuf,
    /// Version of the interpreter.
    pub python_version: String,
}

impl Uv {
    /// Finds a Python of at least 3.10 and a `uv` for it.
    pub async fn find(context: &Context) -> Result<Self, Failure> {
        let (python, python_version) = find_python(context).await?;
        let path_variable = context.world.variables.get("PATH").map_or("", String::as_str);
        let program = match find_program("uv", path_variable) {
            Some(program) => program,
            None => install(context, &python).await?,
        };
        let name = program.display().to_string();
        let version = output_of(&[&name, "--version"], &context.world.variables, PROBE).await?;
        let version = version.split_whitespace().nth(1).unwrap_or(&version).to_owned();
        Ok(Self { program, version, python, python_version })
    }

    /// Makes an empty environment.
    pub async fn create(&self, context: &Context, at: &Path) -> Result<(), Failure> {
        let at = at.display().to_string();
        self.run(context, &["venv", "--quiet", "--no-project", "--python", &self.python(), &at]).await
    }

    /// Resolves requirements to exact versions and wheel digests (PEP 751).
    pub async fn lock(&self, context: &Context, requirements: &Path, lock: &Path) -> Result<(), Failure> {
        let (requirements, lock) = (requirements.display().to_string(), lock.display().to_string());
        let python = self.python();
        let arguments = [
            "pip",
            "compile",
            "--quiet",
            "--no-config",
            "--only-binary",
            ":all:",
            "--format",
            "pylock.toml",
            "--python",
            &python,
            "--output-file",
            &lock,
            &requirements,
        ];
        self.run(context, &arguments).await
    }

    /// Installs exactly what a lock names, checking every digest.
    pub async fn sync(&self, context: &Context, environment: &Path, lock: &Path) -> Result<(), Failure> {
        let python = environment.join("bin/python").display().to_string();
        let lock = lock.display().to_string();
        self.run(context, &["pip", "sync", "--quiet", "--no-config", "--python", &python, &lock]).await
    }

    /// Unpacks one wheel, by its digest, into a directory.
    pub async fn unpack(
        &self,
        context: &Context,
        package: &str,
        wheel: Sha256,
        into: &Path,
    ) -> Result<(), Failure> {
        let requirements = context.work.join("package.txt");
        std::fs::write(&requirements, format!("{package} --hash=sha256:{wheel}\n")).map_err(|error| {
            Failure::environment(format!("the work directory cannot be written: {error}"))
        })?;
        let (requirements, into) = (requirements.display().to_string(), into.display().to_string());
        let python = self.python();
        let arguments = [
            "pip",
            "install",
            "--quiet",
            "--no-config",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
            "--python",
            &python,
            "--target",
            &into,
            "--requirements",
            &requirements,
        ];
        self.run(context, &arguments).await
    }

    fn python(&self) -> String {
        self.python.display().to_string()
    }

    async fn run(&self, context: &Context, arguments: &[&str]) -> Result<(), Failure> {
        let mut argv = vec![self.program.display().to_string()];
        argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        run_installer(context, argv, &format!("uv {}", arguments[..2.min(arguments.len())].join(" "))).await
    }
}

async fn run_installer(context: &Context, argv: Vec<String>, what: &str) -> Result<(), Failure> {
    let settings = [("UV_PYTHON_DOWNLOADS", "never"), ("PIP_DISABLE_PIP_VERSION_CHECK", "1")];
    let ended = context.run(argv, &settings, &context.work, Some(INSTALL)).await?;
    if ended.success() {
        return Ok(());
    }
    let tail = context.log_tail();
    let said = tail.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").trim().to_owned();
    Err(Failure::environment(format!("{what} {}: {said}", ended.exit)).with_log(tail))
}

/// A Python of at least 3.10 on PATH, and its version.
async fn find_python(context: &Context) -> Result<(PathBuf, String), Failure> {
    let missing = |found: &str| {
        Failure::environment(format!(
            "Python 3.10 or newer is needed and {found}; install it (Debian and Ubuntu: \
             `apt-get install python3 python3-venv`) or put it on PATH, then run again"
        ))
    };
    let path_variable = context.world.variables.get("PATH").map_or("", String::as_str);
    let Some(python) = find_program("python3", path_variable) else {
        return Err(missing("there is no python3 on PATH"));
    };
    let question = "import sys; print('.'.join(map(str, sys.version_info[:3])), sys.executable)";
    let program = python.display().to_string();
    let answer = output_of(&[&program, "-c", question], &context.world.variables, PROBE)
        .await
        .map_err(|error| missing(&format!("python3 does not run ({error})")))?;
    let (version, executable) = answer.split_once(' ').unwrap_or((&answer, &program));
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    if !version.starts_with("3.") || minor.is_none_or(|minor| minor < 10) {
        return Err(missing(&format!("python3 on PATH is {version}")));
    }
    Ok((PathBuf::from(executable), version.to_owned()))
}

/// Installs `uv` once into an environment of its own in the store.
async fn install(context: &Context, python: &Path) -> Result<PathBuf, Failure> {
    let identity = Digest::of(format!("{PINNED} for {}", python.display()));
    let slot = context.environment_slot(identity).await?;
    let program = slot.path().join("bin/uv");
    if slot.is_complete() {
        return Ok(program);
    }
    context.progress(format!("installing {PINNED}"));
    let python = python.display().to_string();
    let place = slot.path().display().to_string();
    let own_python = slot.path().join("bin/python").display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let help = |failure: Failure| match failure.kind {
        super::FailureKind::Cancelled => failure,
        _ => Failure {
            message: format!(
                "{PINNED} could not be installed ({}); install uv yourself, or the venv module of Python \
                 (Debian and Ubuntu: `apt-get install python3-venv`), and check the package index",
                failure.message
            ),
            ..failure
        },
    };
    run_installer(context, words(&[&python, "-m", "venv", &place]), "python -m venv").await.map_err(help)?;
    let install = words(&[&own_python, "-m", "pip", "install", "--quiet", PINNED]);
    run_installer(context, install, "pip install").await.map_err(help)?;
    slot.complete()?;
    Ok(program)
}
