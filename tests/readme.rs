//! The commands of the README are run, and what CI runs is what it names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "it takes minutes and says what it is doing")]

use std::path::Path;
use std::process::Command;

/// Every line of the README's `sh` blocks.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn ci_runs_exactly_the_test_command_of_the_readme() {
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let last = ci.lines().last().unwrap();
    assert!(last.starts_with("cargo test"), "{last}");
    assert!(commands().iter().any(|command| command == last), "{last} is not in the README");
}

/// The first of them is Stage F as a user runs it, in the user's store.
#[test]
fn every_orchestrate_command_of_the_readme_succeeds() {
    let project = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("plans"), project.path().join("plans")).unwrap();
    let ours: Vec<_> = commands()
        .into_iter()
        .filter_map(|command| command.strip_prefix("cargo run --release -- ").map(str::to_owned))
        .collect();
    assert_eq!(ours.first().map(String::as_str), Some("apply plans/stage-f.yaml"));
    for arguments in ours {
        println!("orchestrate {arguments}");
        let output = Command::new(env!("CARGO_BIN_EXE_orchestrate"))
            .args(arguments.split_whitespace())
            .current_dir(project.path())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "orchestrate {arguments}:\n{shown}");
    }
    let report = project.path().join(".orchestrate/reports/stage-f/coverage.html");
    assert!(report.is_file(), "the report is not where the README says");
}
