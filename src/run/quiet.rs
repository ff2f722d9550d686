//! Watches the machine while a node measures, and refuses a busy one where the
//! plan says so.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::evidence::quiet::Machine;
use crate::host::load::watch;
use crate::node::{Context, Failure, Kind, Produced};
use crate::plan::QuietSettings;

/// How long the machine is looked at before a measurement that may be refused.
const LOOK: Duration = Duration::from_millis(1100);

/// Does a node's work. The evidence of a measurement, of a failed one too,
/// gets what the machine did meanwhile.
pub(super) async fn execute(
    kind: &Kind,
    context: &Context,
    quiet: &QuietSettings,
) -> Result<Produced, Failure> {
    if !kind.is_quiet() {
        return kind.execute(context).await;
    }
    if quiet.refuses() {
        wait_for_quiet(context, quiet).await?;
    }
    let (result, machine) = watched(context, quiet, kind.execute(context)).await;
    match result {
        Ok(mut produced) => {
            let busy = machine.busy.clone();
            produced.evidence["machine"] = json!(machine);
            if !quiet.refuses() || busy.is_empty() {
                return Ok(produced);
            }
            let message = format!(
                "the machine became busy while it measured: {}; end what else runs and run it again, or write \
                 `on_busy: flag` to keep such a measurement",
                busy.join(", ")
            );
            Err(Failure::environment(message).with_evidence(&produced.evidence))
        }
        Err(mut failure) => {
            if let Some(evidence) = failure.evidence.as_mut().filter(|evidence| evidence.is_object()) {
                evidence["machine"] = json!(machine);
            }
            Err(failure)
        }
    }
}

/// What a measurement on a busy machine is marked with.
pub(super) fn flag(busy: &[String]) -> Option<String> {
    (!busy.is_empty()).then(|| format!("busy: {}", busy.join(", ")))
}

async fn watched<T>(context: &Context, quiet: &QuietSettings, work: impl Future<Output = T>) -> (T, Machine) {
    let world = &context.world;
    watch(&quiet.limits(), &world.host.gpus, &world.variables, work).await
}

async fn wait_for_quiet(context: &Context, quiet: &QuietSettings) -> Result<(), Failure> {
    let begun = Instant::now();
    let wait = quiet.wait.map(crate::value::Duration::as_std).unwrap_or_default();
    loop {
        let look = async {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => Ok(()),
                failure = context.interrupted() => Err(failure),
            }
        };
        let (looked, machine) = watched(context, quiet, look).await;
        looked?;
        if machine.busy.is_empty() {
            return Ok(());
        }
        let busy = machine.busy.join(", ");
        if begun.elapsed() >= wait {
            let waited = quiet.wait.map(|wait| format!(", also after waiting {wait}")).unwrap_or_default();
            return Err(Failure::environment(format!(
                "the machine is busy{waited}: {busy}; end what else runs, raise `wait`, or write `on_busy: flag`"
            )));
        }
        context.progress(format!("waiting for a quiet machine: {busy}"));
    }
}
