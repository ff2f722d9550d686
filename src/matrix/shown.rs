//! Text as it is shown on a page: long digests shortened, commands in parts.

use std::borrow::Cow;

use serde::Serialize;

/// Hexadecimal digits from which on a run of them is shortened: a commit has 40.
const LONG: usize = 40;
/// Digits that stay.
const KEPT: usize = 12;

/// A value for the eye, and whole.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Shown<'a> {
    /// What a reader sees first.
    pub(super) short: Cow<'a, str>,
    /// The whole value, where the short one leaves digits out.
    pub(super) full: Option<&'a str>,
    /// The parts of a command line, each an option with its value; empty for
    /// everything else.
    parts: Vec<&'a str>,
}

impl<'a> Shown<'a> {
    /// Lays out a value; nothing of it is lost.
    pub(super) fn of(text: &'a str) -> Self {
        let parts = command_parts(text);
        if !parts.is_empty() {
            return Self { short: Cow::Borrowed(text), full: None, parts };
        }
        let short = shortened(text);
        let full = matches!(short, Cow::Owned(_)).then_some(text);
        Self { short, full, parts }
    }
}

/// Every long run of hexadecimal digits cut to its first digits and `…`.
fn shortened(text: &str) -> Cow<'_, str> {
    let mut short = String::new();
    let mut copied = 0;
    for (start, run) in hexadecimal_runs(text) {
        if run.len() >= LONG {
            short.push_str(&text[copied..start + KEPT]);
            short.push('…');
            copied = start + run.len();
        }
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(short + &text[copied..]) }
}

/// Where words of nothing but hexadecimal digits begin, and the words.
fn hexadecimal_runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start_of = move |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .map(move |word| (start_of(word), word))
}

/// The program and each option with its value; nothing if there are no options.
fn command_parts(text: &str) -> Vec<&str> {
    if text.matches(" --").count() < 2 {
        return Vec::new();
    }
    let mut starts: Vec<_> = text.match_indices(" --").map(|(at, _)| at + 1).collect();
    starts.insert(0, 0);
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| text[*start..end].trim_end()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "ad79819d7da9765e7dce17cd15251790d0c4d1f50abc66acf1906752bedf7b62";

    #[test]
    fn a_digest_is_shortened_and_kept_whole() {
        let shown = Shown::of(DIGEST);
        assert_eq!((&*shown.short, shown.full), ("ad79819d7da9…", Some(DIGEST)));
    }

    #[test]
    fn a_commit_is_shortened_where_it_stands() {
        let corpus = "hemingkx/Spec-Bench@fd2c1cd7d2201ef71db4c5f4e455008f017967bf, größer";
        let shown = Shown::of(corpus);
        assert_eq!((&*shown.short, shown.full), ("hemingkx/Spec-Bench@fd2c1cd7d220…, größer", Some(corpus)));
    }

    #[test]
    fn what_is_no_long_digest_stays_as_it_is() {
        for text in ["fd2c1cd7d220", "8 of 8", "", "größe", &"z".repeat(64), &format!("x{DIGEST}")] {
            assert_eq!(Shown::of(text), Shown { short: text.into(), full: None, parts: vec![] });
        }
    }

    #[test]
    fn a_command_keeps_each_option_with_its_value() {
        let command = format!("tool run --model m --sha256 {DIGEST} --flag");
        let shown = Shown::of(&command);
        assert_eq!(shown.parts, ["tool run", "--model m", &format!("--sha256 {DIGEST}"), "--flag"]);
        assert_eq!(shown.parts.join(" "), command);
        assert_eq!(shown.full, None);
    }
}
