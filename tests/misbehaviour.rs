//! A table of children that misbehave, each ended in each way, under the real
//! supervisor: with a cgroup, where the system lets us make one, and without.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "doubles/misbehave.rs"]
mod misbehave;
#[path = "support/table.rs"]
mod table;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use orchestrate::process::lease::end_orphans;
use orchestrate::process::{Cause, Containment, Exit, Masker, free_port, spawn_within, tail, tail_masked};
use rustix::process::Signal;
use table::{By, Case, Expected, SUPERVISOR, Scene, cgroup_of, run_all};

const WILD: &str = "fork {deaf; say; sleep}; daemon {say; sleep}; group {say; sleep}; say; sleep";

/// What children do, what ends them, and what then has to be true.
fn table() -> Vec<Case> {
    [by_themselves(), with_a_grace(), without_their_grace(), out_of_time(), forsaken()]
        .into_iter()
        .flatten()
        .collect()
}

fn case(name: &'static str, script: &'static str, by: By, expected: Expected) -> Case {
    Case { name, script, by, expected }
}

/// Ended by TERM.
fn term(cause: Cause) -> Expected {
    Expected::ended(Exit::Signal(15), cause)
}

/// Ended by KILL.
fn kill(cause: Cause) -> Expected {
    Expected::ended(Exit::Signal(9), cause).killed(1)
}

/// Children that end by themselves, and what they leave behind.
fn by_themselves() -> Vec<Case> {
    let exited = |code| Expected::ended(Exit::Code(code), Cause::Exited);
    let died = |signal| Expected::ended(Exit::Signal(signal), Cause::Exited);
    let case = |name, script, expected| case(name, script, By::Itself, expected);
    vec![
        case("writes 2 GiB", "flood 2048; exit 0", exited(0).wrote(2048 << 20)),
        case("ends well", "exit 0", exited(0)),
        case("fails", "exit 3", exited(3)),
        case("kills itself", "die 9", died(9)),
        case("ends itself", "die 15", died(15)),
        case("aborts", "die 6", died(6)),
        case("has a name with parentheses", "rename; exit 5", exited(5)),
        case("closes its output", "say; mute {wait 50; exit 4}", exited(4).wrote(3)),
        case("writes bytes of every value", "noise 5; exit 0", exited(0).wrote(5 << 20)),
        case("writes one line of 100 MiB", "line 100; exit 0", exited(0).wrote(100 << 20)),
        case(
            "never collects children that ended",
            "fork {say}; fork {say}; until 2; wait 50; exit 0",
            exited(0),
        ),
        case("leaves a child that holds its log", "fork {sleep}; exit 7", exited(7).leftovers(1)),
        case(
            "leaves a deaf child",
            "fork {deaf; say; sleep}; until 1; exit 0",
            exited(0).leftovers(1).killed(1),
        ),
        case("leaves a stopped child", "fork {say; stop; sleep}; until 1; exit 0", exited(0).leftovers(1)),
        case(
            "leaves a child of another name",
            "fork {rename; deaf; say; sleep}; until 1; exit 0",
            exited(0).leftovers(1).killed(1),
        ),
        case("leaves a daemon", "daemon {say; sleep}; until 1; exit 0", exited(0).leftovers(1)),
        case(
            "leaves a deaf daemon",
            "daemon {deaf; say; sleep}; until 1; exit 0",
            exited(0).leftovers(1).killed(1),
        ),
        case(
            "leaves a daemon of a daemon",
            "daemon {daemon {say; sleep}; exit 0}; until 1; exit 0",
            exited(0).leftovers(1),
        ),
        case(
            "leaves a daemon of no environment",
            "daemon {anonymous {deaf; say; sleep}}; until 1; exit 0",
            exited(0).leftovers(1).killed(1),
        ),
        case(
            "leaves another group",
            "group {fork {say; sleep}; sleep}; until 1; exit 0",
            exited(0).leftovers(2),
        ),
        case("leaves a bomb", "bomb 40; until 40; exit 0", exited(0).leftovers(39)),
        case(
            "is killed and leaves its workers",
            "fork {say; sleep}; group {say; sleep}; until 2; die 9",
            died(9).leftovers(2),
        ),
    ]
}

/// Children that are told to stop.
fn with_a_grace() -> Vec<Case> {
    let case = |name, script, expected| case(name, script, By::Stop, expected);
    vec![
        case("does as told", "say; sleep", term(Cause::Stopped)),
        case("is deaf", "deaf; say; sleep", kill(Cause::Stopped)),
        case("is stopped", "say; stop; sleep", term(Cause::Stopped)),
        case("is deaf and stopped", "deaf; say; stop; sleep", kill(Cause::Stopped)),
        case("has no output", "say; mute {sleep}", term(Cause::Stopped)),
        case("ends in its own way", "told; exit 12", Expected::ended(Exit::Code(12), Cause::Stopped)),
        case(
            "starts a daemon when told",
            "told; daemon {sleep}; exit 0",
            Expected::ended(Exit::Code(0), Cause::Stopped),
        ),
        case(
            "starts a daemon and stays",
            "told; daemon {deaf; sleep}; sleep",
            kill(Cause::Stopped).killed_at_least(1),
        ),
        case(
            "starts others again and again",
            "told; fork {told; fork {told; sleep}; sleep}; sleep",
            kill(Cause::Stopped).killed_at_least(1),
        ),
        case("is a bomb", "bomb 40; sleep", term(Cause::Stopped)),
        case("has children of every kind", WILD, term(Cause::Stopped).killed(1)),
        case(
            "has a child of no environment",
            "anonymous {deaf; say; sleep}; sleep",
            term(Cause::Stopped).killed(1),
        ),
        case("is in the middle of a flood", "say; flood 300; sleep", term(Cause::Stopped)),
    ]
}

/// Children that are ended at once, although their grace is ten minutes.
fn without_their_grace() -> Vec<Case> {
    vec![
        case("is deaf and killed", "deaf; say; sleep", By::Kill, kill(Cause::Stopped)),
        case("is stopped and killed", "say; stop; sleep", By::Kill, kill(Cause::Stopped)),
        case("is a bomb and killed", "bomb 40; sleep", By::Kill, kill(Cause::Stopped).killed(40)),
        case("has children of every kind and is killed", WILD, By::Kill, kill(Cause::Stopped).killed(4)),
        case("is deaf, told and killed", "deaf; say; sleep", By::StopThenKill, kill(Cause::Stopped)),
    ]
}

/// Children whose time is up.
fn out_of_time() -> Vec<Case> {
    vec![
        case("takes too long", "sleep", By::Limit(200), term(Cause::Timeout)),
        case("takes too long and is deaf", "deaf; sleep", By::Limit(2000), kill(Cause::Timeout)),
        case("takes too long and is stopped", "stop; sleep", By::Limit(300), term(Cause::Timeout)),
        case(
            "takes too long in a daemon",
            "daemon {deaf; sleep}; sleep",
            By::Limit(2000),
            term(Cause::Timeout).killed(1),
        ),
    ]
}

/// Children whose supervisor or orchestrator is gone.
fn forsaken() -> Vec<Case> {
    vec![
        case(
            "is told by its supervisor's TERM",
            "deaf; say; sleep",
            By::SupervisorTold,
            kill(Cause::Stopped),
        ),
        case("is dropped", WILD, By::Dropped, Expected::gone()),
        case("is deaf, stopped and dropped", "deaf; say; stop; sleep", By::Dropped, Expected::gone()),
        case(
            "loses its supervisor",
            "fork {deaf; say; sleep}; say; sleep",
            By::SupervisorKilled,
            Expected::lost(),
        ),
        case(
            "loses its supervisor with another group",
            "group {deaf; say; sleep}; say; sleep",
            By::SupervisorKilled,
            Expected::lost(),
        ),
        case(
            "loses its supervisor with a daemon",
            WILD,
            By::SupervisorKilled,
            Expected::lost().only_with_cgroup(),
        ),
        case("loses its supervisor as a bomb", "bomb 40; sleep", By::SupervisorKilled, Expected::lost()),
        case("loses its orchestrator", "say; sleep", By::OrchestratorKilled, Expected::gone()),
        case("loses its orchestrator and is wild", WILD, By::OrchestratorKilled, Expected::gone()),
        case(
            "loses its orchestrator and is stopped",
            "deaf; say; stop; sleep",
            By::OrchestratorKilled,
            Expected::gone(),
        ),
        case("loses its orchestrator as a bomb", "bomb 40; sleep", By::OrchestratorKilled, Expected::gone()),
        case(
            "loses its orchestrator in a flood",
            "say; flood 300; sleep",
            By::OrchestratorKilled,
            Expected::gone(),
        ),
    ]
}

#[test]
fn whatever_a_child_does_its_end_is_told_and_nothing_is_left() {
    let cases = table();
    assert!(cases.len() >= 40);
    run_all(&cases, Containment::Cgroup);
}

#[test]
fn without_a_cgroup_nothing_is_lost_but_daemons_of_a_killed_supervisor() {
    let mut cases = table();
    // How much it writes has nothing to do with it.
    cases.retain(|case| !case.script.contains("flood") && !case.expected.needs_cgroup);
    assert!(cases.len() >= 40);
    run_all(&cases, Containment::Family);
}

#[tokio::test]
async fn a_child_starts_in_a_cgroup_of_its_own_which_is_gone_afterwards() {
    let scene = Scene::new();
    let mut child =
        spawn_within(Path::new(SUPERVISOR), scene.command("say; sleep"), Containment::Cgroup).await.unwrap();
    let supervisor = child.supervisor();
    let name = format!("orchestrate-{}-{}", supervisor.pid, supervisor.start_time);
    let group = cgroup_of(child.pid());
    let is_its_own = group.as_ref().is_some_and(|group| group.ends_with(&name));
    assert_eq!(is_its_own, table::has_cgroups(), "{group:?}");
    assert_ne!(cgroup_of(supervisor.pid), group.clone().filter(|_| is_its_own), "the supervisor is outside");
    child.stop();
    child.wait().await.unwrap();
    if is_its_own {
        assert!(!group.unwrap().exists());
    }
}

#[tokio::test]
async fn the_cgroup_of_a_killed_supervisor_is_removed_by_a_later_one() {
    if !table::has_cgroups() {
        return;
    }
    let home = cgroup_of(std::process::id()).unwrap();
    let stale = home.join("orchestrate-4194305-1");
    fs::create_dir_all(stale.join("of-its-child")).unwrap();
    let scene = Scene::new();
    let mut child =
        spawn_within(Path::new(SUPERVISOR), scene.command("exit 0"), Containment::Cgroup).await.unwrap();
    child.wait().await.unwrap();
    assert!(!stale.exists());
}

#[tokio::test]
async fn a_later_run_ends_the_daemon_of_a_supervisor_that_was_killed() {
    if !table::has_cgroups() {
        return;
    }
    let scene = Scene::new();
    let child = spawn_within(Path::new(SUPERVISOR), scene.command(WILD), Containment::Cgroup).await.unwrap();
    scene.await_said(4);
    let (held, group) = (child.held(), cgroup_of(child.pid()).unwrap());
    assert!(held.supervisor.signal(Signal::KILL) && held.program.signal(Signal::KILL));
    let ended = end_orphans(&[held.supervisor, held.program], Duration::from_millis(200)).await;
    assert!(ended.len() >= 3, "{ended:?}");
    scene.assert_nothing_is_left();
    assert!(!group.exists());
}

#[tokio::test]
async fn a_port_is_free_when_its_server_hung_at_its_end_and_left_a_child() {
    let scene = Scene::new();
    let port = free_port().unwrap().release();
    let script = format!("deaf; daemon {{listen {port}; deaf; say; sleep}}; sleep");
    let mut child =
        spawn_within(Path::new(SUPERVISOR), scene.command(&script), Containment::default()).await.unwrap();
    scene.await_said(1);
    assert!(TcpListener::bind(("127.0.0.1", port)).is_err());
    child.stop();
    assert_eq!(child.wait().await.unwrap().killed, 2);
    TcpListener::bind(("127.0.0.1", port)).unwrap();
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn output_that_is_no_text_and_a_line_of_100_mb_are_shown_by_their_end() {
    let scene = Scene::new();
    for script in ["noise 3; exit 1", "line 100; exit 1"] {
        let mut child =
            spawn_within(Path::new(SUPERVISOR), scene.command(script), Containment::default()).await.unwrap();
        child.wait().await.unwrap();
        let shown = tail(&scene.log(), 20, 4096);
        assert!(!shown.is_empty() && shown.len() <= 4096, "{} bytes", shown.len());
    }
}

#[tokio::test]
async fn a_secret_in_a_log_is_masked_in_every_form_also_behind_a_flood() {
    let scene = Scene::new();
    let mut command = scene.command("");
    let script = "yes | head -c 9000000 >&2; echo 'plain s3cr3t-w/rd' >&2; echo 'url s3cr3t-w%2Frd' >&2; \
                  printf 'u:s3cr3t-w/rd' | base64 >&2";
    command.argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let mut child = spawn_within(Path::new(SUPERVISOR), command, Containment::default()).await.unwrap();
    child.wait().await.unwrap();
    let shown = tail_masked(&scene.log(), 20, 4096, &Masker::new(["s3cr3t-w/rd"]));
    assert_eq!(shown.matches("***").count(), 3, "{shown}");
    assert!(!shown.contains("s3cr3t") && !shown.contains("czNjcjN0"), "{shown}");
}

#[test]
#[ignore = "the tests start this as a process of its own"]
fn misbehaves() {
    misbehave::main();
}

#[test]
#[ignore = "the table starts this as a process of its own, and kills it"]
fn orchestrates() {
    table::orchestrate();
}
