//! What is wrong with a plan, where, and the way out.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{LabeledSpan, NamedSource, SourceCode, SourceOffset};

use super::files::Files;
use super::tree::Position;

/// Most bytes of a line that is shown.
const LONGEST: usize = 1000;

/// Most mistakes that are shown at once.
const SHOWN: usize = 100;

/// A mistake in one file, before the file's name is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where.
    pub at: Position,
    /// The way out.
    pub help: Option<String>,
}

impl Slip {
    /// A mistake at a place.
    #[must_use]
    pub fn new(at: Position, message: impl Into<String>) -> Self {
        Self { message: message.into(), at, help: None }
    }

    /// Adds the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The text of a plan, target or site file.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// Its whole text.
    pub text: String,
}

impl SourceFile {
    /// Reads a file; the error says which.
    pub fn read(files: &dyn Files, path: &Path) -> Result<Arc<Self>, Diagnostic> {
        let unreadable = |what: String, help: &str| Diagnostic {
            slip: Slip::new(Position::default(), format!("{} {what}", path.display())).help(help),
            file: Arc::new(Self { path: path.to_owned(), text: String::new() }),
        };
        let bytes = files.read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => unreadable("does not exist".to_owned(), "check the path"),
            std::io::ErrorKind::IsADirectory => {
                unreadable("is a directory".to_owned(), "name a file; `validate` takes directories as well")
            }
            _ => unreadable(format!("cannot be read: {error}"), "check its permissions"),
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|b| *b == b'\n').count();
            unreadable(format!("is not UTF-8 text: line {line} holds another byte"), "save it as UTF-8")
        })?;
        Ok(Arc::new(Self { path: path.to_owned(), text }))
    }
}

/// A mistake and the file it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The mistake.
    pub slip: Slip,
    /// The file it is in.
    pub file: Arc<SourceFile>,
}

impl Diagnostic {
    /// The mistake with its place in words where the lines around it are too
    /// long to be shown.
    fn presentable(&self) -> Cow<'_, Self> {
        let Position { line, column } = self.slip.at;
        let mut shown = self.file.text.lines().skip(line.saturating_sub(2) as usize).take(3);
        if line == 0 || shown.all(|text| text.len() <= LONGEST) {
            return Cow::Borrowed(self);
        }
        let message = format!("{}:{line}:{column}: {}", self.file.path.display(), self.slip.message);
        let slip = Slip { message, at: Position::default(), help: self.slip.help.clone() };
        Cow::Owned(Self { slip, file: Arc::clone(&self.file) })
    }
}

/// How many bytes of a text to underline: the first quoted or plain word.
fn extent(text: &str) -> usize {
    let line = text.lines().next().unwrap_or_default();
    let quote = line.chars().next().filter(|c| ['"', '\''].contains(c));
    if let Some(end) = quote.and_then(|quote| line[1..].find(quote)) {
        return end + 2;
    }
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    let mut word = word.trim_end_matches([':', ',']);
    while let Some(rest) = without_closing(word) {
        word = rest.trim_end_matches(',');
    }
    word.len()
}

/// A word without a closing bracket at its end that nothing in it opens.
fn without_closing(word: &str) -> Option<&str> {
    let (rest, open) = match word.chars().next_back()? {
        ']' => (&word[..word.len() - 1], '['),
        '}' => (&word[..word.len() - 1], '{'),
        _ => return None,
    };
    let close = &word[rest.len()..];
    (word.matches(close).count() > word.matches(open).count()).then_some(rest)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.slip.message)
    }
}

impl std::error::Error for Diagnostic {}

impl miette::Diagnostic for Diagnostic {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.slip.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.slip.at.line == 0 {
            return None;
        }
        let Position { line, column } = self.slip.at;
        let offset = SourceOffset::from_location(&self.file.text, line as usize, column as usize);
        let length = extent(&self.file.text[offset.offset()..]);
        let span = LabeledSpan::underline((offset.offset(), length.max(1)));
        Some(Box::new(std::iter::once(span)))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        None
    }
}

/// Every mistake found in the files of one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Renders the mistakes for a terminal of a given width, the first hundred
    /// of them.
    #[must_use]
    pub fn render(&self, width: usize, color: bool) -> String {
        let theme =
            if color { miette::GraphicalTheme::unicode() } else { miette::GraphicalTheme::unicode_nocolor() };
        let handler = miette::GraphicalReportHandler::new_themed(theme).with_width(width);
        let mut text = String::new();
        for diagnostic in self.0.iter().take(SHOWN).map(Diagnostic::presentable) {
            let source =
                NamedSource::new(diagnostic.file.path.display().to_string(), diagnostic.file.text.clone());
            let report = miette::Report::new(diagnostic.clone().into_owned()).with_source_code(source);
            if handler.render_report(&mut text, report.as_ref()).is_err() {
                text.push_str(&diagnostic.to_string());
            }
        }
        if let Some(more) = self.0.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more mistakes, which are shown once these are mended");
        }
        text
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, diagnostic) in self.0.iter().enumerate() {
            let Position { line, column } = diagnostic.slip.at;
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{line}:{column}: {diagnostic}", diagnostic.file.path.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate nearest to a misspelled word, if one is near.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()) / 3 + 1)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance between two words.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_underlined_is_one_value() {
        for (text, shown) in [
            ("sources: [a]", "sources"),
            ("1:30 # x", "1:30"),
            ("\"a b\"]}", "\"a b\""),
            ("first}", "first"),
            ("[a]", "[a]"),
            ("8, 16]", "8"),
            ("{}", "{}"),
            ("${nodes.x}}", "${nodes.x}"),
            ("\"open", "\"open"),
            ("", ""),
        ] {
            assert_eq!(&text[..extent(text)], shown);
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_named_and_not_shown() {
        let file = Arc::new(SourceFile { path: "a.yaml".into(), text: "[".repeat(LONGEST + 1) });
        let slip = Slip::new(Position { line: 1, column: 7 }, "it is long").help("cut it");
        let shown = Diagnostics(vec![Diagnostic { slip, file }]).render(80, false);
        assert!(shown.contains("a.yaml:1:7: it is long") && shown.len() < 200, "{shown}");
    }

    #[test]
    fn the_nearest_word_is_near() {
        let words = ["concurrency", "corpus", "client"];
        assert_eq!(nearest("concurency", words), Some("concurrency"));
        assert_eq!(nearest("corpse", words), Some("corpus"));
        assert_eq!(nearest("zebra", words), None);
    }
}
