//! Whether a server can do what is asked of it, by its engine's capabilities
//! and settings.

use super::super::diagnostic::Slip;
use super::Review;
use crate::corpus::{PinnedForm, Turns};
use crate::engine::Engine;
use crate::evidence::mode::Mode;
use crate::node::{Aiperf, Dataset, Kind, PinCorpus};
use crate::plan::PlannedNode;
use crate::value::Input;

impl Review<'_> {
    pub fn serving(&mut self) {
        let plan = self.plan;
        for node in plan.nodes.values() {
            match node.kind.as_ref() {
                Kind::Aiperf(load) => self.load(node, load),
                Kind::PinCorpus(corpus) => self.corpus(node, corpus),
                _ => {}
            }
        }
        self.modes();
        self.correlated_modes();
    }

    /// A correlation reports the mode of its subject.
    fn correlated_modes(&mut self) {
        for subject in &self.plan.subjects {
            let correlation = subject.roles.iter().find(|(role, _)| role == "correlation");
            let Some(node) = correlation.and_then(|(_, name)| self.plan.nodes.get(name)) else { continue };
            if let Kind::Correlate(correlate) = node.kind.as_ref()
                && correlate.mode != subject.mode
            {
                let message =
                    format!("the subject and its correlation `{}` state different modes", node.name);
                let slip = Slip::new(subject.mode_at, message).help("state the same `mode:` in both");
                self.mistakes.add(&self.plan.file, slip);
            }
        }
    }

    /// The engine behind a bundle.
    fn engine(&self, bundle: &Input) -> Option<&dyn Engine> {
        match self.plan.nodes.get(&bundle.0.node)?.kind.as_ref() {
            Kind::BuildBundle(bundle) => Some(bundle.engine.adapter()),
            _ => None,
        }
    }

    fn load(&mut self, node: &PlannedNode, load: &Aiperf) {
        let plan = self.plan;
        let serves = plan.nodes.get(&load.server.0.node).map(|node| node.kind.as_ref());
        if let Some(Kind::Serve(serve)) = serves
            && serve.bundle.0.node != load.bundle.0.node
        {
            let message = format!(
                "`{}` serves `{}`, and `bundle` names `{}`",
                load.server.0.node, serve.bundle.0.node, load.bundle.0.node
            );
            self.add(node, "bundle", message, "name the bundle that the server serves");
            return;
        }
        let Some(engine) = self.engine(&load.bundle) else { return };
        let (can, name, most, context) =
            (engine.capabilities(), engine.name(), engine.most_concurrent(), engine.context_limit());
        if load.streaming && !can.streaming {
            let message = format!("`streaming` is asked for, and {name} does not stream answers");
            self.add(node, "streaming", message, "write `streaming: false`");
        }
        if let Some(most) = most.filter(|most| load.concurrency > *most) {
            let message = format!(
                "`concurrency` is {}, and {name} refuses more than {most} at a time",
                load.concurrency
            );
            self.add(node, "concurrency", message, "lower it, or let the engine take more");
        }
        if load.max_tokens >= context {
            let message = format!(
                "`max_tokens` is {}, and prompt and answer together have {context} tokens of context",
                load.max_tokens
            );
            self.add(node, "max_tokens", message, "lower it, or give the engine a longer context");
        }
        let Some(Kind::PinCorpus(corpus)) =
            plan.nodes.get(&load.corpus.0.node).map(|node| node.kind.as_ref())
        else {
            return;
        };
        let all_turns = corpus.select.turns == Turns::All;
        let (form, word) = match load.dataset {
            Dataset::SpecBench => (PinnedForm::SpecBench, "spec_bench"),
            Dataset::SpeedBench => (PinnedForm::SpeedBench, "speed_bench"),
        };
        let written = match corpus.written_as {
            PinnedForm::SpecBench => "spec_bench",
            PinnedForm::SpeedBench => "speed_bench",
        };
        if corpus.written_as != form {
            let message =
                format!("`dataset` is {word}, and `{}` is written as {}", load.corpus.0.node, written);
            self.add(
                node,
                "dataset",
                message,
                &format!("write `written_as: {word}` in the corpus, or `dataset: {written}` here"),
            );
        } else if load.dataset == Dataset::SpecBench && all_turns {
            let message = format!(
                "AIPerf's spec_bench loader sends first turns only, and `{}` pins all turns",
                load.corpus.0.node
            );
            self.add(
                node,
                "dataset",
                message,
                "write `turns: first` in the corpus, or use speed_bench on both sides",
            );
        } else if all_turns && !can.multi_turn {
            let message =
                format!("`{}` pins all turns, and {name} takes one user message", load.corpus.0.node);
            self.add(node, "corpus", message, "write `turns: first` in the corpus");
        }
        if let Some(limit) =
            corpus.context.as_ref().filter(|limit| limit.reserved_output_tokens < load.max_tokens)
        {
            let message = format!(
                "`max_tokens` is {}, and `{}` keeps {} tokens free for an answer",
                load.max_tokens, load.corpus.0.node, limit.reserved_output_tokens
            );
            self.add(
                node,
                "max_tokens",
                message,
                "raise `reserved_output_tokens` of the corpus, or lower it here",
            );
        }
    }

    fn corpus(&mut self, node: &PlannedNode, corpus: &PinCorpus) {
        let Some(limit) = &corpus.context else { return };
        let Some(context) = self.engine(&limit.bundle).map(Engine::context_limit) else { return };
        let kept = limit
            .reserved_output_tokens
            .saturating_add(limit.template_tokens_once)
            .saturating_add(limit.template_tokens_per_message.saturating_mul(2));
        if kept >= context {
            let message = format!(
                "the answer and the chat template alone need {kept} tokens, and the context has {context}"
            );
            self.add(
                node,
                "context.reserved_output_tokens",
                message,
                "lower `reserved_output_tokens`, or give the engine a longer context",
            );
        }
    }

    /// A mode that the engine's settings contradict.
    fn modes(&mut self) {
        for subject in &self.plan.subjects {
            let bundle = subject.roles.iter().find(|(role, _)| role == "bundle");
            let Some(Kind::BuildBundle(bundle)) =
                bundle.and_then(|(_, name)| self.plan.nodes.get(name)).map(|node| node.kind.as_ref())
            else {
                continue;
            };
            let engine = bundle.engine.adapter();
            let (message, help) = match (subject.mode, engine.configured_speculation()) {
                (Mode::Speculative, None) => (
                    format!("the mode is speculative, and the settings of {} name no drafter", engine.name()),
                    "configure one in the bundle, or write `mode: ordinary`",
                ),
                (Mode::Ordinary, Some(drafter)) => (
                    format!(
                        "the mode is ordinary, and the settings of {} name a drafter: {drafter}",
                        engine.name()
                    ),
                    "remove it from the bundle, or write `mode: speculative`",
                ),
                _ => continue,
            };
            self.mistakes.add(&self.plan.file, Slip::new(subject.mode_at, message).help(help));
        }
    }
}
