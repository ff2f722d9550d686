//! Records where each subject stands, as soon as the evidence changes and
//! again at the end of a run.

use jiff::Timestamp;

use super::{RunError, timestamp};
use crate::event::Event;
use crate::evidence::ladder::{Standing, Status};
use crate::node::{SubjectInputs, World};
use crate::plan::Plan;
use crate::state::{EvidenceLink, State, SubjectRow, Transition};

/// Raises the given subjects, which stand on a node that just ended, if they
/// stand higher by it. What a run has not come to yet takes nothing away, but other
/// evidence than a standing rests on takes it away at once.
pub(super) fn raise(
    state: &State,
    plan: &Plan,
    world: &World,
    subjects: &[SubjectInputs],
    ended: &str,
) -> Result<(), RunError> {
    if subjects.is_empty() {
        return Ok(());
    }
    let recorded = state.subjects()?;
    for subject in subjects {
        let standing = subject.read(&world.store).standing;
        let before = rung(&recorded, &subject.name);
        if rests_on_other(&recorded, subject, ended) {
            let why = format!("{ended} left other evidence than the status rested on");
            let steps = steps(before, standing.status, &why);
            record(state, plan, world, subject, &standing, steps, left_by(subject, ended).as_deref())?;
        } else if before.is_none_or(|before| standing.status > before) {
            let steps = steps(before, standing.status, "");
            record(state, plan, world, subject, &standing, steps, left_by(subject, ended).as_deref())?;
        }
    }
    Ok(())
}

/// Sets every subject to where it stands at the end of a run. Returns those
/// whose nodes all passed and that are not qualified by what they left:
/// requests that failed must not look like success.
pub(super) fn settle(
    state: &State,
    plan: &Plan,
    world: &World,
    subjects: &[SubjectInputs],
) -> Result<Vec<Event>, RunError> {
    let recorded = state.subjects()?;
    let mut short = Vec::new();
    for subject in subjects {
        let standing = subject.read(&world.store).standing;
        let why = standing.missing.first().map_or("", String::as_str);
        let before = rung(&recorded, &subject.name);
        let steps = steps(before, standing.status, why);
        let climbs = before.is_none_or(|before| standing.status > before);
        let moved_by = links(subject, &standing.held_by).pop().filter(|_| climbs).map(|link| link.digest);
        record(state, plan, world, subject, &standing, steps, moved_by.as_deref())?;
        let passed = subject.roles.values().all(|(_, record)| record.outcome.passed());
        if passed && standing.status < Status::AiperfQualified {
            short.push(Event::FellShort {
                subject: subject.name.clone(),
                status: standing.status.to_string(),
                missing: standing.missing,
            });
        }
    }
    Ok(short)
}

/// Whether the recorded standing rests on other evidence of this node than
/// the subject has now: then it no longer holds.
fn rests_on_other(recorded: &[SubjectRow], subject: &SubjectInputs, node: &str) -> bool {
    let row = recorded.iter().find(|row| row.subject == subject.name);
    let link = row.and_then(|row| row.evidence.iter().find(|link| link.node == node));
    link.is_some_and(|link| Some(&link.digest) != left_by(subject, node).as_ref())
}

/// The digest of the evidence that a node of a subject has left.
fn left_by(subject: &SubjectInputs, node: &str) -> Option<String> {
    let (_, record) = subject.roles.values().find(|(name, _)| name == node)?;
    Some(record.evidence?.to_string())
}

fn rung(recorded: &[SubjectRow], subject: &str) -> Option<Status> {
    let row = recorded.iter().find(|row| row.subject == subject)?;
    Status::ALL.into_iter().find(|status| status.word() == row.status)
}

fn record(
    state: &State,
    plan: &Plan,
    world: &World,
    subject: &SubjectInputs,
    standing: &Standing,
    steps: Vec<Step>,
    moved_by: Option<&str>,
) -> Result<(), RunError> {
    let now = timestamp(Timestamp::now());
    let row = SubjectRow {
        subject: subject.name.clone(),
        plan: plan.name.clone(),
        target: subject.target.clone(),
        mode: subject.mode.to_string(),
        status: standing.status.to_string(),
        since: now.clone(),
        run: world.run.clone(),
        evidence: links(subject, &standing.held_by),
        missing: standing.missing.clone(),
    };
    let steps = steps.into_iter().map(|(from, to, reason)| Transition {
        subject: subject.name.clone(),
        from: from.map(|status| status.to_string()),
        to: to.to_string(),
        at: now.clone(),
        run: world.run.clone(),
        reason,
        evidence: moved_by.map(str::to_owned),
    });
    let steps: Vec<_> = steps.collect();
    state.set_subject(&row, &steps)?;
    for Transition { subject, from, to, reason, .. } in steps {
        (world.events)(Event::StatusChanged { subject, from, to, reason });
    }
    Ok(())
}

/// A change of rung: from, to, and why.
type Step = (Option<Status>, Status, String);

/// The changes of rung: up one by one, each by its own rule; down in one, for
/// the given reason.
fn steps(before: Option<Status>, to: Status, why_lower: &str) -> Vec<Step> {
    if before.is_some_and(|before| before > to) {
        return vec![(before, to, why_lower.to_owned())];
    }
    let mut from = before;
    let mut steps = Vec::new();
    for rung in
        Status::ALL.into_iter().filter(|rung| *rung <= to && before.is_none_or(|before| *rung > before))
    {
        steps.push((from, rung, rung.holds_when().to_owned()));
        from = Some(rung);
    }
    steps
}

fn links(subject: &SubjectInputs, roles: &[&str]) -> Vec<EvidenceLink> {
    roles
        .iter()
        .filter_map(|role| {
            let (node, record) = subject.roles.get(*role)?;
            Some(EvidenceLink { node: node.clone(), digest: record.evidence?.to_string() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climbed(before: Option<Status>, status: Status) -> Vec<(Option<Status>, Status)> {
        steps(before, status, "the bundle changed").into_iter().map(|(from, to, _)| (from, to)).collect()
    }

    #[test]
    fn a_subject_climbs_rung_by_rung_and_falls_at_once() {
        use Status::{AiperfQualified, FamilyValidated, Implemented, Planned};
        assert_eq!(
            climbed(None, FamilyValidated),
            [(None, Planned), (Some(Planned), Implemented), (Some(Implemented), FamilyValidated)]
        );
        assert_eq!(
            climbed(Some(FamilyValidated), AiperfQualified),
            [(Some(FamilyValidated), AiperfQualified)]
        );
        assert_eq!(climbed(Some(AiperfQualified), Planned), [(Some(AiperfQualified), Planned)]);
        assert_eq!(climbed(Some(Planned), Planned), []);
    }
}
