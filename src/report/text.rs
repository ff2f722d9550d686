//! Text as a person reads it: lengths of time, foreign text made harmless, colour.

use std::borrow::Cow;
use std::time::Duration;

/// A length of time in the form `12ms`, `1.2s`, `3m04s` or `2h07m`.
#[must_use]
pub fn elapsed(took: Duration) -> String {
    let millis = took.as_millis();
    let tenths = (millis + 50) / 100;
    let seconds = (millis + 500) / 1000;
    let minutes = seconds / 60;
    if millis < 1000 {
        format!("{millis}ms")
    } else if tenths < 600 {
        format!("{}.{}s", tenths / 10, tenths % 10)
    } else if minutes < 60 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else {
        format!("{}h{:02}m", minutes / 60, minutes % 60)
    }
}

/// One line of foreign text that cannot move the cursor, colour the terminal or
/// reverse the reading direction: escape sequences and control characters go,
/// tabs become spaces, and of what carriage returns overwrite the last remains.
#[must_use]
pub fn printable(line: &str) -> String {
    let line = line.trim_end_matches(['\r', '\n']);
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut shown = String::with_capacity(line.len());
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape_sequence(&mut rest),
            '\t' => shown.push_str("    "),
            '\n' => shown.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => shown.push(c),
        }
    }
    shown
}

fn skip_escape_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            rest.by_ref().find(|c| ('@'..='~').contains(c));
        }
        Some(']') => {
            rest.by_ref().find(|c| matches!(c, '\u{7}' | '\u{1b}'));
            rest.next_if_eq(&'\\');
        }
        _ => {}
    }
}

/// The text in at most `columns` characters, the cut shown by `…`.
pub(super) fn clipped(text: &str, columns: usize) -> Cow<'_, str> {
    if text.chars().count() <= columns {
        return Cow::Borrowed(text);
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    Cow::Owned(kept + "…")
}

/// The text in lines of at most `columns` characters, broken between words; a
/// word that is longer has a line of its own.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Adds colour, or leaves text as it is.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Paints only when asked to.
    #[must_use]
    pub const fn when(on: bool) -> Self {
        Self { on }
    }

    /// For what went well.
    #[must_use]
    pub fn green(self, text: &str) -> String {
        self.sgr("32", text)
    }

    /// For what went wrong.
    #[must_use]
    pub fn red(self, text: &str) -> String {
        self.sgr("1;31", text)
    }

    /// For what did not happen.
    #[must_use]
    pub fn yellow(self, text: &str) -> String {
        self.sgr("33", text)
    }

    /// For names.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.sgr("1", text)
    }

    /// For what is beside the point.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.sgr("2", text)
    }

    fn sgr(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_short_and_never_show_sixty() {
        let shown = |millis| elapsed(Duration::from_millis(millis));
        assert_eq!(shown(0), "0ms");
        assert_eq!(shown(999), "999ms");
        assert_eq!(shown(1234), "1.2s");
        assert_eq!(shown(59_949), "59.9s");
        assert_eq!(shown(59_950), "1m00s");
        assert_eq!(shown(184_000), "3m04s");
        assert_eq!(shown(3_599_600), "1h00m");
        assert_eq!(shown(7_620_000), "2h07m");
    }

    #[test]
    fn foreign_text_cannot_drive_the_terminal() {
        assert_eq!(printable("\u{1b}[31mred\u{1b}[0m"), "red");
        assert_eq!(printable("\u{1b}]0;title\u{7}after"), "after");
        assert_eq!(printable("\u{1b}]8;;target\u{1b}\\link"), "link");
        assert_eq!(printable("10%\r50%\r100%\r\n"), "100%");
        assert_eq!(printable("a\tb\u{8}c\u{0}"), "a    bc");
        assert_eq!(printable("a\u{202e}b"), "ab");
        assert_eq!(printable("\u{1b}["), "");
    }

    #[test]
    fn a_clipped_text_keeps_its_length_in_characters() {
        assert_eq!(clipped("größe", 5), "größe");
        assert_eq!(clipped("größer", 5), "größ…");
    }

    #[test]
    fn a_wrapped_text_keeps_every_word_and_its_width() {
        assert_eq!(wrapped("a bb  ccc dddddd e", 5), ["a bb", "ccc", "dddddd", "e"]);
        assert!(wrapped("", 5).is_empty());
    }

    #[test]
    fn no_colour_means_no_escape() {
        assert_eq!(Paint::when(false).red("x"), "x");
        assert_eq!(Paint::when(true).green("x"), "\u{1b}[32mx\u{1b}[0m");
    }
}
