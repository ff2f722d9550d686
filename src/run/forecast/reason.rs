//! Why a node would run, in words.

use super::Question;
use crate::plan::PlannedNode;
use crate::run::difference::{Change, changes};
use crate::run::key::Key;
use crate::store::Recorded;

/// Why there is no result under the key, and what differs from the key of the
/// last result.
pub(super) fn since_the_last(
    question: &Question<'_>,
    node: &PlannedNode,
    key: Option<&Key>,
) -> (String, Vec<Change>) {
    let nothing = |why: &str| (why.to_owned(), Vec::new());
    let last = question.last.get(&node.name).and_then(|last| last.key.as_ref());
    let (Some(last), Some(key)) = (last.and_then(|last| last.parse().ok()), key) else {
        return nothing("not in the store yet");
    };
    match question.world.store.recorded(last) {
        _ if last == key.digest => nothing("its result is no longer in the store"),
        Ok(Recorded::Whole(result) | Recorded::Broken { result, .. }) => (
            "it differs from its last result".to_owned(),
            changes(&result.key_document.value(), &key.document),
        ),
        Ok(Recorded::Absent) | Err(_) => {
            nothing("not in the store yet; its last result had another key and is no longer in the store")
        }
    }
}

/// Which inputs would run first, and what they would have to give for an
/// earlier result to count.
pub(super) fn waiting(inputs: &[String]) -> (String, String) {
    let (them, same) = match inputs {
        [one] => (one.clone(), format!("{one} gives the same content")),
        [all @ .., last] => {
            (format!("{} and {last}", all.join(", ")), "they give the same content".to_owned())
        }
        [] => (String::new(), String::new()),
    };
    (format!("{them} would run first, so its key is not known yet"), same)
}
