//! Whether what a node says of a quiet machine can be meant.

use super::{Review, without_instance};
use crate::plan::diagnostic::Slip;
use crate::plan::{PlannedNode, QuietSettings};

impl Review<'_> {
    pub(super) fn quiet(&mut self, node: &PlannedNode) {
        let Some(quiet) = &node.quiet else { return };
        if !node.kind.is_quiet() {
            let name = without_instance(&node.name);
            let message = format!("`{name}` runs beside other nodes, so it needs no quiet machine");
            let help = "remove `quiet`; it is for warmup, aiperf, and run with `reuse: measurement`";
            self.wrong_about_quiet(node, None, message, help);
            return;
        }
        for (setting, limit) in [("others_below", quiet.others_below), ("steal_below", quiet.steal_below)] {
            if let Some(limit) = limit.filter(|limit| !(0.0..=1.0).contains(limit)) {
                let message = format!("`{setting}` is {limit}, and is a share from 0 to 1");
                self.wrong_about_quiet(node, Some(setting), message, "write 0.1 for a tenth of all cores");
            }
        }
        if waits_for_nothing(quiet) {
            let message = "`wait` is given, and nothing is refused".to_owned();
            let help = "write `on_busy: refuse` beside it, or remove `wait`";
            self.wrong_about_quiet(node, Some("wait"), message, help);
        }
    }

    fn wrong_about_quiet(&mut self, node: &PlannedNode, setting: Option<&str>, message: String, help: &str) {
        let mut keys = vec!["nodes", without_instance(&node.name), "quiet"];
        keys.extend(setting);
        let at = self.place(&node.file, &keys).unwrap_or(node.at);
        self.mistakes.add(&node.file, Slip::new(at, message).help(help));
    }
}

fn waits_for_nothing(quiet: &QuietSettings) -> bool {
    quiet.wait.is_some() && !quiet.refuses()
}
