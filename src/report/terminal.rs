//! Live lines for a terminal: active nodes stay at the bottom, finished ones
//! scroll up, a table ends the run.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::text::{Paint, clipped, elapsed, printable};
use super::{Reporter, line};
use crate::event::{Event, Outcome};

/// How often the elapsed time of an active node is drawn anew.
const TICK: Duration = Duration::from_millis(120);
/// A terminal narrower than this is treated as this wide.
const NARROWEST: u16 = 40;
/// A rule below the head of the final table, and nothing else.
const TABLE_STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Draws a run on a terminal.
#[derive(Debug)]
pub struct Terminal {
    lines: MultiProgress,
    paint: Paint,
    width: u16,
    active: Vec<Active>,
    /// Reused nodes that were not shown yet; they share one line.
    unshown_reuse: Vec<String>,
    ended: Vec<Ended>,
}

#[derive(Debug)]
struct Active {
    node: String,
    bar: ProgressBar,
}

#[derive(Debug)]
struct Ended {
    node: String,
    outcome: Outcome,
    took: Duration,
}

impl Terminal {
    /// Draws to `target`, at most `width` columns wide.
    #[must_use]
    pub fn new(target: ProgressDrawTarget, paint: Paint, width: u16) -> Self {
        Self {
            lines: MultiProgress::with_draw_target(target),
            paint,
            width: width.max(NARROWEST),
            active: Vec::new(),
            unshown_reuse: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn started(&mut self, node: &str, kind: &str) {
        let name = printable(node);
        let name = clipped(&name, usize::from(self.width / 2));
        let bar = self.lines.add(ProgressBar::new_spinner());
        bar.set_style(active_style());
        bar.set_prefix(self.paint.bold(&name));
        bar.set_message(self.paint.dim(kind));
        bar.enable_steady_tick(TICK);
        self.active.push(Active { node: node.to_owned(), bar });
    }

    fn progressed(&self, node: &str, doing: &str) {
        if let Some(active) = self.active.iter().find(|active| active.node == node) {
            active.bar.set_message(printable(doing));
        }
    }

    fn no_longer_active(&mut self, node: &str) {
        if let Some(at) = self.active.iter().position(|active| active.node == node) {
            let Active { bar, .. } = self.active.remove(at);
            bar.finish_and_clear();
            self.lines.remove(&bar);
        }
    }

    fn finished(&mut self, ended: Ended, reason: Option<&str>, log_tail: Option<&str>) {
        self.no_longer_active(&ended.node);
        if ended.outcome == Outcome::Reused {
            self.unshown_reuse.push(printable(&ended.node));
        } else {
            self.show_reuse();
            let shown = line::finished(self.paint, &ended.node, ended.outcome, reason, ended.took, log_tail);
            self.show(&shown.join("\n"));
        }
        self.ended.push(ended);
    }

    fn run_finished(&mut self, exit_code: u8, took: Duration, reports: &[String]) {
        self.show_reuse();
        for Active { bar, .. } in self.active.drain(..) {
            bar.finish_and_clear();
        }
        if !self.ended.is_empty() {
            self.show(&format!("\n{}\n\n", self.table()));
        }
        for report in reports {
            self.show(&line::tagged("report", report));
        }
        let outcomes: Vec<_> = self.ended.iter().map(|ended| ended.outcome).collect();
        self.show(&line::ended(self.paint, exit_code, took, &outcomes).join("\n"));
    }

    /// Node, outcome and time; reused nodes, when there are several, in one row.
    fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(TABLE_STYLE)
            .set_width(self.width)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header([Cell::new("Node"), Cell::new("Outcome"), right("Time")]);
        let (reused, others): (Vec<_>, Vec<_>) =
            self.ended.iter().partition(|ended| ended.outcome == Outcome::Reused);
        if let [one] = reused.as_slice() {
            table.add_row(row(&one.node, one));
        } else if let [first, ..] = reused.as_slice() {
            let took = reused.iter().map(|ended| ended.took).sum();
            let all = Ended { node: String::new(), outcome: first.outcome, took };
            table.add_row(row(&format!("{} nodes", reused.len()), &all));
        }
        for ended in others {
            table.add_row(row(&ended.node, ended));
        }
        table.trim_fmt()
    }

    fn show_reuse(&mut self) {
        if !self.unshown_reuse.is_empty() {
            let names = std::mem::take(&mut self.unshown_reuse).join(", ");
            self.show(&self.paint.dim(&line::tagged(Outcome::Reused.word(), &names)));
        }
    }

    /// Writes lines that stay, above the active ones.
    fn show(&self, lines: &str) {
        // A terminal that went away must not stop the run, so errors end here.
        let _ = self.lines.println(lines);
    }
}

impl Reporter for Terminal {
    fn report(&mut self, event: &Event) {
        match event {
            Event::Waiting { holder } => {
                self.show(&line::tagged("waiting", &format!("for {}", printable(holder))));
            }
            Event::Recovered { run, processes, unfinished } => {
                self.show(&line::recovered(run, *processes, unfinished));
            }
            Event::Stopping => self.show(&line::stopping()),
            Event::RunStarted { run, plan, nodes } => {
                let plan = self.paint.bold(&printable(plan));
                self.show(&line::tagged("run", &format!("{run} of plan {plan}, {nodes} nodes")));
            }
            Event::NodeStarted { node, kind } => self.started(node, kind),
            Event::NodeProgress { node, doing } => self.progressed(node, doing),
            Event::NodeFinished { node, outcome, reason, took, log_tail } => {
                let ended = Ended { node: node.clone(), outcome: *outcome, took: *took };
                self.finished(ended, reason.as_deref(), log_tail.as_deref());
            }
            Event::NodeRetried { node, reason, took, log_tail } => {
                self.no_longer_active(node);
                self.show_reuse();
                let lines = line::retried(self.paint, node, reason, *took, log_tail.as_deref());
                self.show(&lines.join("\n"));
            }
            Event::NodeReopened { node, reason } => {
                self.ended.retain(|ended| ended.node != *node);
                self.show_reuse();
                self.show(&line::reopened(node, reason));
            }
            Event::StatusChanged { subject, from, to, reason } => {
                self.show_reuse();
                self.show(&line::moved(subject, from.as_deref(), to, reason));
            }
            Event::FellShort { subject, status, missing } => {
                self.show_reuse();
                self.show(&line::fell_short(subject, status, missing));
            }
            Event::RunFinished { exit_code, took, reports } => {
                self.run_finished(*exit_code, *took, reports);
            }
        }
    }
}

fn active_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {prefix} {took} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .with_key("took", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            // Writing into the line that is being drawn does not fail.
            let _ = text.write_str(&elapsed(state.elapsed()));
        })
}

fn row(name: &str, ended: &Ended) -> [Cell; 3] {
    let took = line::spent(ended.outcome, ended.took).unwrap_or_else(|| "-".to_owned());
    [Cell::new(printable(name)), Cell::new(ended.outcome.word()), right(&took)]
}

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::super::tests::{a_failing_run, a_healing_run};
    use super::*;

    /// A terminal of 100 columns that remembers what stands on it.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<Content>>);

    #[derive(Debug, Default)]
    struct Content {
        lines: Vec<String>,
        row: usize,
    }

    impl Content {
        fn write(&mut self, text: &str) {
            for c in text.chars() {
                let is_full =
                    self.lines.get(self.row).is_some_and(|line| printable(line).chars().count() >= 100);
                self.row += usize::from(c == '\n' || is_full);
                self.lines.resize(self.lines.len().max(self.row + 1), String::new());
                if c != '\n' {
                    self.lines[self.row].push(c);
                }
            }
        }
    }

    impl Screen {
        fn shown(&self) -> String {
            let lines: Vec<_> =
                self.0.lock().unwrap().lines.iter().map(|line| line.trim_end().to_owned()).collect();
            lines.join("\n").trim_end().to_owned()
        }

        fn terminal(&self, paint: Paint) -> Terminal {
            let target = ProgressDrawTarget::term_like_with_hz(Box::new(self.clone()), 200);
            Terminal::new(target, paint, 100)
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().row -= n;
            Ok(())
        }
        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().row += n;
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(&format!("{text}\n"))
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().write(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            let mut content = self.0.lock().unwrap();
            let row = content.row;
            if let Some(line) = content.lines.get_mut(row) {
                line.clear();
            }
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_run_leaves_its_nodes_their_reasons_a_table_and_the_reports() {
        let screen = Screen::default();
        let mut terminal = screen.terminal(Paint::when(false));
        for event in &a_failing_run() {
            terminal.report(event);
        }
        insta::assert_snapshot!(screen.shown(), @"
        run         r7 of plan stage-f, 6 nodes
        reused      client, corpus
        succeeded   model 4.2s
        failed      load[target=llama-cpp] 3m04s: the server ended with signal 9
                    see its log below
                    │ srv slot 0 busy
                    │ Killed
        blocked     matrix: load[target=llama-cpp] failed
        not-run     serve[target=trtmc]: no GPU on this machine
        status      llama-cpp: planned → family-validated (its own checks passed on this bundle)

         Node                     Outcome      Time
        ────────────────────────────────────────────
         2 nodes                  reused        5ms
         model                    succeeded    4.2s
         load[target=llama-cpp]   failed      3m04s
         matrix                   blocked         -
         serve[target=trtmc]      not-run         -

        report      runs/r7/coverage.html
        nodes       1 succeeded, 2 reused, 1 failed, 1 blocked, 1 not-run
        run         exit 1 (a node failed or a gate did not hold) in 3m12s
        ");
    }

    #[test]
    fn an_active_node_shows_what_it_is_doing_and_leaves_no_trace_when_it_ends() {
        let screen = Screen::default();
        let mut terminal = screen.terminal(Paint::when(false));
        terminal.report(&Event::NodeStarted { node: "load".into(), kind: "aiperf" });
        terminal.report(&Event::NodeProgress { node: "load".into(), doing: "7 of 16 requests".into() });
        std::thread::sleep(TICK * 2);
        let live = screen.shown();
        assert!(live.contains("load") && live.ends_with("ms 7 of 16 requests"), "{live:?}");

        let took = Duration::from_secs(65);
        let outcome = Outcome::Succeeded;
        terminal.report(&Event::NodeFinished {
            node: "load".into(),
            outcome,
            reason: None,
            took,
            log_tail: None,
        });
        assert_eq!(screen.shown(), "succeeded   load 1m05s");
    }

    #[test]
    fn an_attempt_that_failed_is_told_and_each_node_has_one_row() {
        let screen = Screen::default();
        let mut terminal = screen.terminal(Paint::when(false));
        for event in &a_healing_run() {
            terminal.report(event);
        }
        insta::assert_snapshot!(screen.shown(), @"
        reused      corpus, model
        retried     bundle 40ms: the model is damaged; model is made again; then bundle is tried again
        again       model: its output file was damaged in the store
        succeeded   model 900ms: made again
        succeeded   bundle 50ms

         Node     Outcome      Time
        ────────────────────────────
         corpus   reused        2ms
         model    succeeded   900ms
         bundle   succeeded    50ms

        nodes       2 succeeded, 1 reused
        run         exit 0 (done) in 1.0s
        ");
    }

    #[test]
    fn a_run_that_reuses_everything_is_two_rows() {
        let screen = Screen::default();
        let mut terminal = screen.terminal(Paint::when(false));
        for node in ["client", "corpus", "model"] {
            terminal.report(&Event::NodeFinished {
                node: node.into(),
                outcome: Outcome::Reused,
                reason: None,
                took: Duration::from_millis(2),
                log_tail: None,
            });
        }
        terminal.report(&Event::RunFinished {
            exit_code: 0,
            took: Duration::from_millis(140),
            reports: vec![],
        });
        insta::assert_snapshot!(screen.shown(), @"
        reused      client, corpus, model

         Node      Outcome   Time
        ──────────────────────────
         3 nodes   reused     6ms

        nodes       3 reused
        run         exit 0 (done) in 140ms
        ");
    }

    #[test]
    fn colour_is_used_only_when_asked_for() {
        for on in [true, false] {
            let screen = Screen::default();
            let mut terminal = screen.terminal(Paint::when(on));
            for event in &a_failing_run() {
                terminal.report(event);
            }
            assert_eq!(screen.shown().contains('\u{1b}'), on);
        }
    }
}
