//! Tests that need a machine of their own: mounting is done in a namespace of
//! the test's, so that nothing is left mounted however it ends; dropped
//! capabilities make root obey permissions.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

const INSIDE: &str = "ORCHESTRATE_TEST_APART";

/// Runs a test again, by its full name, in a process that is started through
/// another command, and does its work there: true in that process only.
fn again(test: &str, through: &[&str], probe: &[&str]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !is_possible(test, through, probe) {
        return false;
    }
    let mut command = Command::new(through[0]);
    command.args(&through[1..]).arg(std::env::current_exe().unwrap());
    let ended = command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output().unwrap();
    let shown =
        format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{shown}");
    assert!(shown.contains("1 passed"), "the test {test} did not run:\n{shown}");
    false
}

/// Whether something this machine must allow is allowed. In CI it must be;
/// elsewhere the lack is said where nobody overlooks it.
fn is_possible(test: &str, through: &[&str], probe: &[&str]) -> bool {
    let tried = Command::new(through[0]).args(&through[1..]).args(probe).output();
    if tried.is_ok_and(|tried| tried.status.success()) {
        return true;
    }
    let lack = format!("{test} WAS NOT RUN: `{} {}` is not allowed here", through.join(" "), probe.join(" "));
    assert!(std::env::var_os("CI").is_none(), "{lack}");
    // Past the capture of the test harness.
    std::io::stderr().write_all(format!("\n{lack}\n\n").as_bytes()).unwrap();
    false
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where file systems can be mounted.
pub fn with_mounts(test: &str) -> bool {
    let through: &[&str] =
        if is_root() { &["unshare", "--mount"] } else { &["unshare", "--map-root-user", "--mount"] };
    again(test, through, &["mount", "-t", "tmpfs", "none", "/mnt"])
}

/// Where permissions hold for us.
pub fn with_permissions(test: &str) -> bool {
    let through: &[&str] =
        if is_root() { &["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] } else { &["env"] };
    again(test, through, &["true"])
}

/// Mounts an empty file system in memory of this size at a directory.
pub fn mount(dir: &Path, size: &str) {
    fs::create_dir_all(dir).unwrap();
    run("mount", &["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "none"], dir);
}

/// Lets nobody write to what is mounted there any more.
pub fn make_read_only(dir: &Path) {
    run("mount", &["-o", "remount,bind,ro"], dir);
}

fn run(program: &str, arguments: &[&str], dir: &Path) {
    let ended = Command::new(program).args(arguments).arg(dir).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
