//! `orchestrate status`: where each subject stands.

use clap::Args;

use super::{CommandError, DONE, StateArgs, print_text};
use crate::report::status;
use crate::run::unfinished_runs;
use crate::state::State;

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Exit with 1 unless a subject has at least this status.
    #[arg(long, value_name = "STATUS", value_parser = ["planned", "implemented", "family-validated", "aiperf-qualified"])]
    require: Option<String>,
    /// Look at the subjects of this target only.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &StatusArgs) -> Result<u8, CommandError> {
    let asked = State::read(&args.state.state, |state| {
        Ok((state.subjects()?, state.transitions()?, unfinished_runs(state)?))
    });
    let (subjects, transitions, unfinished) = asked?.unwrap_or_default();
    let wanted = |target: &str| args.target.as_ref().is_none_or(|only| only == target);
    let subjects: Vec<_> = subjects.into_iter().filter(|subject| wanted(&subject.target)).collect();
    if args.json {
        print_text(
            status::json(&subjects, &unfinished).map_err(|error| CommandError::Usage(error.to_string()))?,
        )?;
    } else {
        print_text(status::text(&subjects, &transitions, &unfinished))?;
    }
    let rank =
        |status: &str| crate::evidence::ladder::Status::ALL.iter().position(|rung| rung.word() == status);
    let holds = args.require.as_ref().is_none_or(|required| {
        !subjects.is_empty() && subjects.iter().all(|subject| rank(&subject.status) >= rank(required))
    });
    Ok(if holds { DONE } else { 1 })
}
