//! Where the subjects stand: as a ladder for a person, as JSON for a pipeline.

use std::fmt::Write;

use serde::Serialize;

use super::text::printable;
use crate::matrix::words::{RUNGS, mode_label, rung};
use crate::run::UnfinishedRun;
use crate::state::{EvidenceLink, SubjectRow, Transition};

/// Digits of a digest that are shown to a person.
const DIGEST_DIGITS: usize = 12;

/// The document `{"subjects": [{subject, target, mode, status, since, evidence, missing}]}`,
/// with `"unfinished_runs": [{run, plan, since, pid, nodes}]` where there are any.
#[derive(Debug, Serialize)]
struct Document<'a> {
    subjects: &'a [SubjectRow],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unfinished_runs: &'a [UnfinishedRun],
}

/// The status as JSON, for `orchestrate status --json`.
pub fn json(subjects: &[SubjectRow], unfinished_runs: &[UnfinishedRun]) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(&Document { subjects, unfinished_runs })? + "\n")
}

/// The status as text: the run that goes on, and each subject's ladder, since when and by which evidence
/// it stands where it does, what the next rung needs, and how it got there.
#[must_use]
pub fn text(subjects: &[SubjectRow], moves: &[Transition], unfinished: &[UnfinishedRun]) -> String {
    let mut shown: Vec<String> = Vec::new();
    if !unfinished.is_empty() {
        shown.push(unfinished.iter().map(run_text).collect());
    }
    if subjects.is_empty() {
        shown.push("No subject has a status yet; run `orchestrate apply PLAN`.\n".to_owned());
    }
    shown.extend(subjects.iter().map(|subject| subject_text(subject, moves)));
    shown.join("\n")
}

fn run_text(run: &UnfinishedRun) -> String {
    let UnfinishedRun { run, plan, since, pid, nodes } = run;
    let plan = printable(plan);
    let Some(pid) = pid else {
        return format!(
            "run {run} of plan {plan} was killed; the next `orchestrate apply` clears what it left\n"
        );
    };
    let nodes = if nodes.is_empty() { "no node".to_owned() } else { printable(&nodes.join(", ")) };
    format!("run {run} of plan {plan} goes on since {since} by process {pid}; at work: {nodes}\n")
}

fn subject_text(subject: &SubjectRow, moves: &[Transition]) -> String {
    let mode = mode_label(&subject.mode).unwrap_or(&subject.mode);
    let mut text = format!(
        "{} (plan {}, target {}, {})\n",
        printable(&subject.subject),
        printable(&subject.plan),
        printable(&subject.target),
        printable(mode)
    );
    entry(&mut text, "", [ladder(&subject.status)]);
    entry(&mut text, "since", [format!("{} by run {}", subject.since, subject.run)]);
    entry(&mut text, "evidence", or_word("none", subject.evidence.iter().map(standing_text)));
    entry(&mut text, "missing", missing(subject));
    let own = moves.iter().filter(|moved| moved.subject == subject.subject);
    entry(&mut text, "history", own.map(move_text));
    text
}

/// All rungs in order, the current one in brackets.
fn ladder(status: &str) -> String {
    let rungs: Vec<_> = RUNGS
        .iter()
        .map(|rung| if *rung == status { format!("[{rung}]") } else { (*rung).to_owned() })
        .collect();
    let ladder = rungs.join(" → ");
    match rung(status) {
        Some(_) => ladder,
        None => format!("{ladder}   (recorded as {:?}, which is no rung)", printable(status)),
    }
}

fn missing(subject: &SubjectRow) -> Vec<String> {
    let next = rung(&subject.status).and_then(|at| RUNGS.get(at + 1));
    match (next, subject.missing.as_slice()) {
        (None, []) => vec!["nothing, this is the top of the ladder".to_owned()],
        (Some(next), []) => vec![format!("for {next}: not recorded")],
        (None, missing) => missing.iter().map(|missing| printable(missing)).collect(),
        (Some(next), missing) => {
            missing.iter().map(|missing| format!("for {next}: {}", printable(missing))).collect()
        }
    }
}

fn standing_text(standing: &EvidenceLink) -> String {
    let digest: String = standing.digest.chars().take(DIGEST_DIGITS).collect();
    format!("{digest} {}", printable(&standing.node))
}

fn move_text(moved: &Transition) -> String {
    let from = moved.from.as_deref().unwrap_or("new");
    format!("{} {from} → {}: {}", moved.at, moved.to, printable(&moved.reason))
}

fn or_word(word: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { vec![word.to_owned()] } else { lines }
}

/// Lines beside a name, which stands before the first only.
fn entry(text: &mut String, name: &str, lines: impl IntoIterator<Item = String>) {
    for (at, line) in lines.into_iter().enumerate() {
        let name = if at == 0 { name } else { "" };
        // Writing into a string does not fail.
        let _ = if name.is_empty() && at == 0 {
            writeln!(text, "  {line}")
        } else {
            writeln!(text, "  {name:<9} {line}")
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str, status: &str, missing: &[&str]) -> SubjectRow {
        SubjectRow {
            subject: name.to_owned(),
            plan: "stage-f".to_owned(),
            target: name.to_owned(),
            mode: "ordinary".to_owned(),
            status: status.to_owned(),
            since: "2026-11-30T17:03:29Z".to_owned(),
            run: "r7".to_owned(),
            evidence: Vec::new(),
            missing: missing.iter().map(|&m| m.to_owned()).collect(),
        }
    }

    fn qualified() -> SubjectRow {
        let standing =
            |node: &str, digit: &str| EvidenceLink { node: node.to_owned(), digest: digit.repeat(64) };
        SubjectRow {
            evidence: vec![standing("validate[target=llama-cpp]", "a"), standing("correlate", "b")],
            ..subject("llama-cpp", "aiperf-qualified", &[])
        }
    }

    #[test]
    fn a_person_sees_ladder_evidence_and_what_is_missing() {
        let moves = [
            Transition {
                subject: "llama-cpp".to_owned(),
                from: None,
                to: "planned".to_owned(),
                at: "2026-11-30T17:00:00Z".to_owned(),
                run: "r7".to_owned(),
                reason: "first seen".to_owned(),
                evidence: None,
            },
            Transition {
                subject: "llama-cpp".to_owned(),
                from: Some("planned".to_owned()),
                to: "aiperf-qualified".to_owned(),
                at: "2026-11-30T17:03:29Z".to_owned(),
                run: "r7".to_owned(),
                reason: "16 of 16 rows sent once, no errors".to_owned(),
                evidence: None,
            },
        ];
        let subjects = [qualified(), subject("trtmc", "planned", &["a GPU", "the program trtmc-server"])];
        insta::assert_snapshot!(text(&subjects, &moves, &[]), @"
        llama-cpp (plan stage-f, target llama-cpp, ordinary generation)
          planned → implemented → family-validated → [aiperf-qualified]
          since     2026-11-30T17:03:29Z by run r7
          evidence  aaaaaaaaaaaa validate[target=llama-cpp]
                    bbbbbbbbbbbb correlate
          missing   nothing, this is the top of the ladder
          history   2026-11-30T17:00:00Z new → planned: first seen
                    2026-11-30T17:03:29Z planned → aiperf-qualified: 16 of 16 rows sent once, no errors

        trtmc (plan stage-f, target trtmc, ordinary generation)
          [planned] → implemented → family-validated → aiperf-qualified
          since     2026-11-30T17:03:29Z by run r7
          evidence  none
          missing   for implemented: a GPU
                    for implemented: the program trtmc-server
        ");
    }

    #[test]
    fn a_pipeline_gets_the_documented_document() {
        insta::assert_snapshot!(json(&[qualified()], &[]).unwrap(), @r#"
        {
          "subjects": [
            {
              "subject": "llama-cpp",
              "target": "llama-cpp",
              "mode": "ordinary",
              "status": "aiperf-qualified",
              "since": "2026-11-30T17:03:29Z",
              "evidence": [
                {
                  "node": "validate[target=llama-cpp]",
                  "digest": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                },
                {
                  "node": "correlate",
                  "digest": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
                }
              ],
              "missing": []
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_run_that_goes_on_and_one_that_was_killed_are_shown_first() {
        let run = |id: &str, pid, nodes: &[&str]| UnfinishedRun {
            run: id.to_owned(),
            plan: "stage-f".to_owned(),
            since: "2026-11-30T17:03:29Z".to_owned(),
            pid,
            nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
        };
        let runs =
            [run("r6", None, &["load"]), run("r7", Some(41), &["load", "fetch"]), run("r8", Some(42), &[])];
        insta::assert_snapshot!(text(&[], &[], &runs), @"
        run r6 of plan stage-f was killed; the next `orchestrate apply` clears what it left
        run r7 of plan stage-f goes on since 2026-11-30T17:03:29Z by process 41; at work: load, fetch
        run r8 of plan stage-f goes on since 2026-11-30T17:03:29Z by process 42; at work: no node

        No subject has a status yet; run `orchestrate apply PLAN`.
        ");
        insta::assert_snapshot!(json(&[], &runs[1..2]).unwrap(), @r#"
        {
          "subjects": [],
          "unfinished_runs": [
            {
              "run": "r7",
              "plan": "stage-f",
              "since": "2026-11-30T17:03:29Z",
              "pid": 41,
              "nodes": [
                "load",
                "fetch"
              ]
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_word_that_is_no_rung_is_shown_as_such() {
        assert!(
            text(&[subject("s", "finished", &[])], &[], &[])
                .contains(r#"recorded as "finished", which is no rung"#)
        );
    }

    #[test]
    fn no_subject_is_said_and_not_left_blank() {
        assert_eq!(text(&[], &[], &[]), "No subject has a status yet; run `orchestrate apply PLAN`.\n");
        assert_eq!(json(&[], &[]).unwrap(), "{\n  \"subjects\": []\n}\n");
    }

    #[test]
    fn a_rung_below_the_top_with_nothing_recorded_does_not_claim_that_nothing_is_missing() {
        let shown = text(&[subject("s", "implemented", &[])], &[], &[]);
        assert!(shown.contains("for family-validated: not recorded"), "{shown}");
    }
}
