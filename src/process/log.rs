//! The end of a log, safe to show: bounded, readable, without control codes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::mask::Masker;

/// The log of a node's attempt, numbered from 1, in the node's directory of a run.
#[must_use]
pub fn of_attempt(dir: &Path, attempt: u32) -> PathBuf {
    dir.join(if attempt <= 1 { "log".to_owned() } else { format!("log.{attempt}") })
}

/// The attempts that left a log in a node's directory of a run, in their order.
#[must_use]
pub fn attempts_in(dir: &Path) -> Vec<u32> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let attempt = |name: &str| match name.strip_prefix("log")? {
        "" => Some(1),
        number => number.strip_prefix('.')?.parse().ok().filter(|attempt| *attempt > 1),
    };
    let mut attempts: Vec<u32> = names.filter_map(|name| attempt(name.to_str()?)).collect();
    attempts.sort_unstable();
    attempts
}

/// The last lines of a log, at most `max_lines` and `max_bytes` of UTF-8.
///
/// Reads only the end of the file, whatever its size and the length of its
/// lines. Bytes that are not UTF-8 become `U+FFFD`; escape sequences and
/// control characters are left out; of a line that was overwritten by
/// carriage returns, as progress bars do, the last state is kept. A log that
/// cannot be read gives one line in parentheses that says so.
#[must_use]
pub fn tail(path: &Path, max_lines: usize, max_bytes: usize) -> String {
    tail_masked(path, max_lines, max_bytes, &Masker::default())
}

/// Like [`tail`], with secrets replaced, also one that the cut would split.
#[must_use]
pub fn tail_masked(path: &Path, max_lines: usize, max_bytes: usize, masker: &Masker) -> String {
    let (bytes, is_whole) = match read_end(path, max_bytes.saturating_add(masker.longest())) {
        Ok(end) => end,
        Err(error) => return format!("(the log {} cannot be read: {error})", path.display()),
    };
    let mut text = readable(&String::from_utf8_lossy(&bytes));
    // Where the file was cut, a secret may have lost its head; the part it can reach is not shown.
    let hidden = if is_whole { 0 } else { boundary_from(&text, masker.longest()) };
    text = masker.mask_from(&text, hidden);
    if !is_whole
        && let Some((_, whole_lines)) = text.split_once('\n')
        && !whole_lines.is_empty()
    {
        text = whole_lines.to_owned();
    }
    let text = last_lines(&text, max_lines);
    text[boundary_from(text, text.len().saturating_sub(max_bytes))..].to_owned()
}

/// The first place at or after byte `at` where a character begins, or the end.
fn boundary_from(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Reads at most `limit` bytes from the end, and whether that is the whole file.
fn read_end(path: &Path, limit: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let start = length.saturating_sub(limit);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes, start == 0))
}

fn last_lines(text: &str, max_lines: usize) -> &str {
    let text = text.trim_end_matches('\n');
    if max_lines == 0 {
        return "";
    }
    match text.rmatch_indices('\n').nth(max_lines - 1) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

/// Text without escape sequences and control characters, but for newlines and tabs.
#[must_use]
pub fn readable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let overwritten = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        push_readable(overwritten, &mut out);
        out.push_str(end);
    }
    out
}

/// Appends a line; an escape sequence that does not end swallows only the line's rest.
fn push_readable(line: &str, out: &mut String) {
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            '\t' => out.push(c),
            c if c.is_control() || is_direction_override(c) => {}
            c => out.push(c),
        }
    }
}

/// Skips the rest of an escape sequence (ECMA-48).
fn skip_escape(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some('[') => skip_control_sequence(chars),
        // Strings (title, device control): until BEL or the string terminator `ESC \`.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let mut after_escape = false;
            for c in chars.by_ref() {
                if c == '\u{7}' || c == '\u{9c}' || (after_escape && c == '\\') {
                    return;
                }
                after_escape = c == '\u{1b}';
            }
        }
        // Intermediate bytes, then one final byte.
        Some(' '..='/') => {
            chars.by_ref().find(|c| !(' '..='/').contains(c));
        }
        Some(_) | None => {}
    }
}

fn skip_control_sequence(chars: &mut std::str::Chars<'_>) {
    chars.by_ref().find(|c| ('@'..='~').contains(c));
}

/// Characters that make text appear in another order than it has.
fn is_direction_override(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn log_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn the_last_lines_are_shown() {
        let log = log_of(b"one\ntwo\nthree\n");
        assert_eq!(tail(log.path(), 2, 1000), "two\nthree");
        assert_eq!(tail(log.path(), 9, 1000), "one\ntwo\nthree");
        assert_eq!(tail(log.path(), 0, 1000), "");
    }

    #[test]
    fn a_line_cut_by_the_limit_is_left_out_when_there_are_others() {
        let log = log_of(b"a long first line\nlast\n");
        assert_eq!(tail(log.path(), 9, 12), "last");
    }

    #[test]
    fn a_huge_single_line_is_cut_and_read_only_at_its_end() {
        let log = tempfile::NamedTempFile::new().unwrap();
        log.as_file().set_len(100 << 20).unwrap();
        log.as_file().write_all(b"head").unwrap();
        let mut end = log.reopen().unwrap();
        end.seek(SeekFrom::End(0)).unwrap();
        end.write_all("é".repeat(50).as_bytes()).unwrap();
        let text = tail(log.path(), 5, 21);
        assert!(text.len() <= 21 && text.ends_with("ééé"), "{text:?}");
    }

    #[test]
    fn bytes_that_are_no_text_stay_within_the_limit() {
        let noise: Vec<u8> = (0..4096_u32).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
        let log = log_of(&noise);
        for limit in [0, 1, 2, 3, 10, 1000] {
            assert!(tail(log.path(), 50, limit).len() <= limit, "{limit}");
        }
    }

    #[test]
    fn control_codes_are_removed_and_progress_shows_its_last_state() {
        let cases = [
            ("\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}text\u{1b}(B", "red text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            (" 10%\r 50%\r100%\r\ndone\r\n", "100%\ndone\n"),
            ("tab\tbell\u{7}nul\0del\u{7f}\u{202e}", "tab\tbellnuldel"),
            ("\u{1b}]never ended\nnext", "\nnext"),
        ];
        for (raw, shown) in cases {
            assert_eq!(readable(raw), shown, "{raw:?}");
        }
    }

    #[test]
    fn a_secret_is_masked_wherever_the_cut_falls() {
        let masker = Masker::new(["hunter2-hunter2"]);
        let log = log_of(b"0123456789 hunter2-hunter2 tail");
        for limit in 0..40 {
            let text = tail_masked(log.path(), 5, limit, &masker);
            assert!(!text.contains("er2"), "{limit}: {text:?}");
            assert!(text.len() <= limit && (limit < 5 || text.ends_with(" tail")), "{text:?}");
        }
    }

    #[test]
    fn a_missing_log_says_so() {
        let text = tail(Path::new("/no/such.log"), 5, 100);
        assert!(text.starts_with("(the log /no/such.log cannot be read: "), "{text}");
    }

    #[test]
    fn the_first_log_has_no_number_and_attempts_are_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        for attempt in [10, 1, 2] {
            fs::write(of_attempt(dir.path(), attempt), "").unwrap();
        }
        for other in ["log.1", "log.txt", "logs", "log.", "work"] {
            fs::write(dir.path().join(other), "").unwrap();
        }
        assert_eq!(attempts_in(dir.path()), [1, 2, 10]);
        assert_eq!(attempts_in(&dir.path().join("none")), [0; 0]);
        assert!(dir.path().join("log.10").is_file());
    }
}
