//! Another process that listens or answers in our server's place is never
//! measured.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use super::*;

/// A process of its own that answers 200 to everything, and ends when dropped.
struct Stranger(Child);

impl Stranger {
    fn on(port: u16) -> Self {
        let script = format!(
            "\
import socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(('127.0.0.1', {port}))
s.listen(64)
print('listening', flush=True)
while True:
    client, _ = s.accept()
    client.recv(4096)
    client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\n{{}}')
    client.close()
"
        );
        let mut child = Command::new("python3").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 9];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a plan on a fixed port that a stranger takes once our server runs.
fn impersonated(alias: &str) -> (Ended, Stranger, u16) {
    let port = free_port();
    let scene = scene();
    double::write_plan(&scene, alias, &format!("      port: {port}"));
    let running = scene.start(&["apply", "plan.yaml"]);
    scene.await_process(&format!("--port {port}"), LONG);
    if alias == "shares-its-port" {
        wait_for("our server's socket", LONG, || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    }
    let stranger = Stranger::on(port);
    let ended = running.wait_within(LONG);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    scene.assert_clean(&["build_bundle", "fetch"]);
    (ended, stranger, port)
}

/// The error names who was there, by number and program, and the whole command
/// stands beside it.
fn assert_names(ended: &Ended, stranger: &Stranger, port: u16) {
    let failures = ended.failures();
    let named = format!(
        "port {port} is answered by a process that is not ours, process {} (python3)",
        stranger.pid()
    );
    assert!(failures.contains(&named), "{failures}");
    assert!(failures.contains("python3 -c import socket\n"), "{failures}");
}

#[test]
fn an_older_server_that_answers_while_the_new_one_runs_out_of_memory_is_not_measured() {
    let (ended, stranger, port) = impersonated("dies-while-loading");
    assert_names(&ended, &stranger, port);
}

#[test]
fn a_server_that_answers_while_ours_is_still_silent_is_not_measured() {
    let (ended, stranger, port) = impersonated("never-listens");
    assert_names(&ended, &stranger, port);
}

#[test]
fn a_server_that_answers_where_ours_was_to_listen_is_not_measured() {
    let (ended, stranger, port) = impersonated("binds-elsewhere");
    assert_names(&ended, &stranger, port);
}

#[test]
fn a_server_that_came_to_share_the_port_since_is_found_before_the_next_node_begins() {
    let port = free_port();
    let scene = scene();
    let settings = format!("      port: {port}");
    double::write_plan_with(&scene, "lends-its-port", &settings, &load_after("sleep 2"));
    let running = scene.start(&["apply", "plan.yaml"]);
    scene.await_process("sleep 2", LONG);
    let stranger = Stranger::on(port);
    let ended = running.wait_within(LONG);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.nodes("failed"), ["load", "server"], "{}", ended.stderr);
    assert_names(&ended, &stranger, port);
    let still_there =
        format!("process {} (python3) listens on port {port} although the server has ended", stranger.pid());
    assert!(ended.failures().contains(&still_there), "{}", ended.failures());
}

#[test]
fn a_server_that_shares_the_port_of_ours_is_not_measured() {
    let (ended, stranger, port) = impersonated("shares-its-port");
    assert_names(&ended, &stranger, port);
}

#[test]
fn a_server_whose_port_was_taken_between_release_and_launch_names_who_has_it() {
    // The double binds late, so that the other is there first.
    let port = free_port();
    let scene = scene();
    double::write_plan(&scene, "binds-late", &format!("      port: {port}"));
    let running = scene.start(&["apply", "plan.yaml"]);
    scene.await_process(&format!("--port {port}"), LONG);
    let stranger = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let ended = running.wait_within(LONG);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let me = std::process::id();
    let named = format!("port {port} is answered by a process that is not ours, process {me} (");
    assert!(ended.failures().contains(&named), "{}", ended.failures());
    drop(stranger);
    scene.assert_clean(&["build_bundle", "fetch"]);
}

#[test]
fn two_jobs_with_the_same_fixed_port_never_share_a_server() {
    let port = free_port();
    let first = scene();
    double::write_plan(&first, "never-ready", &format!("      port: {port}\n      ready_within: 1h"));
    let running = first.start(&["apply", "plan.yaml"]);
    let holder = first.await_process("--alias never-ready", LONG);
    wait_for("the first server's socket", LONG, || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    let (second, ended) = serving("good", &format!("      port: {port}"));
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.failures().contains(&format!("port {port} is taken by process ")), "{}", ended.stderr);
    second.assert_clean(&["build_bundle", "fetch"]);
    assert!(fs::read_link(format!("/proc/{holder}/exe")).is_ok(), "the first server was left alone");
    support::signal(running.pid(), rustix::process::Signal::INT);
    assert_eq!(running.wait_within(LONG).code, Some(130));
}
