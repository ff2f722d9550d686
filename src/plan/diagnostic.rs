//! What is wrong with a plan, where, and the way out.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{LabeledSpan, NamedSource, SourceCode, SourceOffset};

use super::files::Files;
use super::tree::Position;

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
        let length = self.file.text[offset.offset()..]
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != ':' && *c != ',')
            .map(char::len_utf8)
            .sum::<usize>();
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
    /// Renders all mistakes for a terminal of a given width.
    #[must_use]
    pub fn render(&self, width: usize, color: bool) -> String {
        let theme =
            if color { miette::GraphicalTheme::unicode() } else { miette::GraphicalTheme::unicode_nocolor() };
        let handler = miette::GraphicalReportHandler::new_themed(theme).with_width(width);
        let mut text = String::new();
        for diagnostic in &self.0 {
            let source =
                NamedSource::new(diagnostic.file.path.display().to_string(), diagnostic.file.text.clone());
            let report = miette::Report::new(diagnostic.clone()).with_source_code(source);
            if handler.render_report(&mut text, report.as_ref()).is_err() {
                text.push_str(&diagnostic.to_string());
            }
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
    fn the_nearest_word_is_near() {
        let words = ["concurrency", "corpus", "client"];
        assert_eq!(nearest("concurency", words), Some("concurrency"));
        assert_eq!(nearest("corpse", words), Some("corpus"));
        assert_eq!(nearest("zebra", words), None);
    }
}
