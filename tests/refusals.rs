//! What a user sees when a plan or a site file cannot be read: every mistake at
//! its place, nothing begun.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use insta::assert_snapshot;
use support::{Scene, redacting};

/// What `apply` says of a plan that cannot be read; it must not begin.
fn refusal(text: &str, arguments: &[&str]) -> String {
    let scene = Scene::isolated();
    scene.write("plan.yaml", text);
    let ended = scene.run(&[&["apply", "plan.yaml"], arguments].concat());
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    scene.assert_untouched();
    ended.stderr
}

const HEAD: &str = "orchestrate: 1\nname: errors\n";

#[test]
fn an_unknown_key_is_shown_with_the_nearest_one() {
    let _redacted = redacting();
    let text = format!("{HEAD}nodes:\n  model:\n    fetch:\n      sources: [{{path: a, sha265: b}}]\n");
    assert_snapshot!(refusal(&text, &[]), @"
         × unknown key `sha265`
          ╭─[plan.yaml:6:27]
        5 │     fetch:
        6 │       sources: [{path: a, sha265: b}]
          ·                           ──────
          ╰────
         help: did you mean `sha256`? known here: path, url, package, wheel_sha256, member, sha256, bytes
        ");
}

#[test]
fn a_duplicate_key_is_refused() {
    let _redacted = redacting();
    let text = format!("{HEAD}nodes:\n  host:\n    probe_host: {{}}\n  host:\n    probe_host: {{}}\n");
    assert_snapshot!(refusal(&text, &[]), @"
         × the key `host` is there twice
          ╭─[plan.yaml:6:3]
        5 │     probe_host: {}
        6 │   host:
          ·   ────
        7 │     probe_host: {}
          ╰────
         help: the other is on line 4; remove or rename one of them
        ");
}

#[test]
fn a_reference_to_no_node_is_shown_with_the_nearest_one() {
    let _redacted = redacting();
    let text = format!(
        "{HEAD}nodes:
  server:
    fetch: {{sources: [{{path: a}}]}}
  warmup:
    warmup: {{server: '${{nodes.sever}}', requests: 1}}
"
    );
    assert_snapshot!(refusal(&text, &[]), @"
         × there is no node `sever`
          ╭─[plan.yaml:7:22]
        6 │   warmup:
        7 │     warmup: {server: '${nodes.sever}', requests: 1}
          ·                      ────────────────
          ╰────
         help: did you mean `server`?
        ");
}

#[test]
fn all_mistakes_are_shown_at_once() {
    let _redacted = redacting();
    let text = format!(
        "{HEAD}params: {{rows: 2}}
targets: [gone.yaml]
nodes:
  one:
    probe_hots: {{}}
  two:
    warmup: {{server: '${{nodes.nothing}}', requests: '${{params.row}}'}}
    needs: [oen]
"
    );
    assert_snapshot!(refusal(&text, &[]), @"
 × the target file gone.yaml does not exist
  ╭─[plan.yaml:4:11]
3 │ params: {rows: 2}
4 │ targets: [gone.yaml]
  ·           ─────────
5 │ nodes:
  ╰────
 help: target files are named relative to the file that names them
 × `probe_hots` is neither a kind nor a setting that every node has
  ╭─[plan.yaml:7:5]
6 │   one:
7 │     probe_hots: {}
  ·     ──────────
8 │   two:
  ╰────
 help: did you mean `probe_host`?
 × there is no node `nothing`
   ╭─[plan.yaml:9:22]
 8 │   two:
 9 │     warmup: {server: '${nodes.nothing}', requests: '${params.row}'}
   ·                      ──────────────────
10 │     needs: [oen]
   ╰────
 help: known: one, two; or add it under `nodes:`
 × there is no parameter `row`
   ╭─[plan.yaml:9:52]
 8 │   two:
 9 │     warmup: {server: '${nodes.nothing}', requests: '${params.row}'}
   ·                                                    ───────────────
10 │     needs: [oen]
   ╰────
 help: did you mean `rows`?
 × there is no node `oen`
   ╭─[plan.yaml:10:13]
 9 │     warmup: {server: '${nodes.nothing}', requests: '${params.row}'}
10 │     needs: [oen]
   ·             ───
   ╰────
 help: did you mean `one`?
");
}

#[test]
fn a_parameter_that_does_not_exist_or_has_another_type_is_refused() {
    let _redacted = redacting();
    let text = format!(
        "{HEAD}params: {{rows: 2}}\nnodes:\n  one:\n    warmup: {{server: '${{nodes.two}}', requests: '${{params.rows}}'}}\n  \
             two:\n    serve: {{bundle: '${{nodes.three}}', model_name: x}}\n  three:\n    build_bundle:\n      \
             adopt: a\n      engine: {{trtmc: {{runtime_root: b, precision: c, max_sequence_length: 9}}}}\n"
    );
    assert_snapshot!(refusal(&text, &["--set", "row=3"]), @"
        × --set row: there is no such parameter
        help: did you mean `rows`?
        ");
    assert_snapshot!(refusal(&text, &["--set", "rows=many"]), @r#"
         × --set rows=many: the parameter takes a whole number, and the text "many" is none
          ╭─[plan.yaml:3:10]
        2 │ name: errors
        3 │ params: {rows: 2}
          ·          ────
        4 │ nodes:
          ╰────
         help: give a whole number
        "#);
}

#[test]
fn nodes_that_wait_for_each_other_are_named() {
    let _redacted = redacting();
    let text = format!(
        "{HEAD}nodes:
  one:
    probe_host: {{}}
    needs: [two]
  two:
    probe_host: {{}}
    needs: [one]
"
    );
    assert_snapshot!(refusal(&text, &[]), @"
             × these nodes wait for each other: one → two → one
              ╭─[plan.yaml:6:13]
            5 │     probe_host: {}
            6 │     needs: [two]
              ·             ───
            7 │   two:
              ╰────
             help: each refers to the next: one (plan.yaml:6), two (plan.yaml:9); remove one of the
                   references
            ");
}

#[test]
fn a_node_with_two_kinds_is_refused() {
    let _redacted = redacting();
    let text = format!("{HEAD}nodes:\n  host:\n    probe_host: {{}}\n    fetch: {{sources: []}}\n");
    assert_snapshot!(refusal(&text, &[]), @"
         × the node `host` has both `probe_host` and `fetch`
          ╭─[plan.yaml:6:5]
        5 │     probe_host: {}
        6 │     fetch: {sources: []}
          ·     ─────
          ╰────
         help: a node has one kind; make two nodes of it
        ");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let _redacted = redacting();
    let scene = Scene::isolated();
    let ended = scene.run(&["apply", "gone.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert_snapshot!(ended.stderr, @"
        × gone.yaml does not exist
        help: check the path
        ");
    scene.write("plan.yaml", format!("{HEAD}nodes:\n  host:\n    probe_host: {{}}\n"));
    let ended = scene.run(&["apply", "plan.yaml", "--site", "gone-too.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert_snapshot!(ended.stderr, @"
        × gone-too.yaml does not exist
        help: check the path
        ");
    scene.assert_untouched();
}

#[test]
fn a_site_file_with_a_wrong_type_is_refused_at_its_place() {
    let _redacted = redacting();
    let scene = Scene::isolated();
    scene.write("plan.yaml", format!("{HEAD}nodes:\n  host:\n    probe_host: {{}}\n"));
    scene.write("site.yaml", "orchestrate: 1\nvalues:\n  port: [8080]\n");
    let ended = scene.run(&["apply", "plan.yaml", "--site", "site.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert_snapshot!(ended.stderr, @"
     × the value of `port` is a list; it is text, a number or a boolean
      ╭─[site.yaml:3:9]
    2 │ values:
    3 │   port: [8080]
      ·         ──────
      ╰────
     help: write one value
    ");
    scene.assert_untouched();
}
