//! The words of the ladder and of the runtime modes.

/// The rungs, lowest first (design, section 8).
pub(crate) const RUNGS: [&str; 4] = ["planned", "implemented", "family-validated", "aiperf-qualified"];

/// The runtime modes.
pub(crate) const MODES: [&str; 2] = ["ordinary", "speculative"];

/// The place of a rung on the ladder; nothing for a word that names none.
pub(crate) fn rung(status: &str) -> Option<usize> {
    RUNGS.iter().position(|rung| *rung == status)
}

/// How a runtime mode is called in every report; nothing for an unknown one.
///
/// A mode is what was asked for. Whether speculation was executed is a finding
/// with evidence of its own, so the label does not say so.
pub(crate) fn mode_label(mode: &str) -> Option<&'static str> {
    match mode {
        "ordinary" => Some("ordinary generation"),
        "speculative" => Some("speculative mode"),
        _ => None,
    }
}
