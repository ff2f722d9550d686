//! What is wrong with a plan, where, and the way out.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::files::Files;
use super::tree::Position;

/// Most bytes of a line that is shown, and of a sentence.
const LONGEST: usize = 1000;
/// Most bytes of a word that is compared with others.
const WORD: usize = 64;
/// Most words that one is compared with.
pub(super) const CANDIDATES: usize = 2000;
/// Most mistakes of one plan that are told at once; who looks for them stops
/// where there are more.
pub(super) const MOST: usize = 100;

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
        Self { message: shortened(message.into()), at, help: None }
    }

    /// Adds the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(shortened(help.into()));
        self
    }
}

/// A sentence without the end of a name that is absurdly long.
fn shortened(mut sentence: String) -> String {
    if sentence.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| sentence.is_char_boundary(*at));
        sentence.truncate(end.unwrap_or_default());
        sentence.push('…');
    }
    sentence
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

/// A diagnostic with the lines around its place.
#[derive(Debug)]
struct Shown<'a> {
    diagnostic: &'a Diagnostic,
    message: Cow<'a, str>,
    excerpt: Option<Excerpt>,
}

/// The line of a mistake and those beside it.
#[derive(Debug)]
struct Excerpt {
    name: String,
    text: String,
    /// Lines of the file before the first of the text.
    before: usize,
    /// What is underlined.
    label: LabeledSpan,
}

impl<'a> Shown<'a> {
    /// The place stands in words where the lines around it are too long to be
    /// shown.
    fn new(diagnostic: &'a Diagnostic, reached: &mut Reached<'a>) -> Self {
        let Diagnostic { slip, file } = diagnostic;
        let Position { line, column } = slip.at;
        let message = Cow::Borrowed(slip.message.as_str());
        if line == 0 {
            return Self { diagnostic, message, excerpt: None };
        }
        let excerpt = Excerpt::of(file, slip.at, reached);
        let message = match excerpt {
            Some(_) => message,
            None => format!("{}:{line}:{column}: {message}", file.path.display()).into(),
        };
        Self { diagnostic, message, excerpt }
    }
}

impl Excerpt {
    /// Nothing where the lines are too long.
    fn of<'a>(file: &'a SourceFile, at: Position, reached: &mut Reached<'a>) -> Option<Self> {
        let line = at.line as usize;
        let first = line.saturating_sub(1).max(1);
        let rest = &file.text[reached.line(file, first)..];
        let lines = || rest.split_inclusive('\n').take(line - first + 2);
        if lines().any(|line| line.len() > LONGEST) {
            return None;
        }
        let text: String = lines().collect();
        let start: usize = lines().take(line - first).map(str::len).sum();
        let column = (at.column as usize).saturating_sub(1);
        let own = text[start..].lines().next().unwrap_or_default();
        let offset = start + own.char_indices().nth(column).map_or(own.len(), |(offset, _)| offset);
        let length = extent(&text[offset..]).max(1);
        let name = file.path.display().to_string();
        Some(Self { name, before: first - 1, label: LabeledSpan::underline((offset, length)), text })
    }
}

/// A line of a file that was reached, so that later lines are found from there.
struct Reached<'a> {
    file: Option<&'a SourceFile>,
    line: usize,
    offset: usize,
}

impl<'a> Reached<'a> {
    fn nothing() -> Self {
        Self { file: None, line: 1, offset: 0 }
    }

    /// Where a line of a file begins.
    fn line(&mut self, file: &'a SourceFile, line: usize) -> usize {
        if line < self.line || !self.file.is_some_and(|reached| std::ptr::eq(reached, file)) {
            *self = Self { file: Some(file), ..Self::nothing() };
        }
        while self.line < line
            && let Some(length) = file.text[self.offset..].find('\n')
        {
            self.offset += length + 1;
            self.line += 1;
        }
        self.offset
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let read = self.text.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            read.data(),
            *read.span(),
            self.before + read.line(),
            read.column(),
            read.line_count(),
        )))
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl miette::Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.diagnostic.slip.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = self.excerpt.as_ref()?.label.clone();
        Some(Box::new(std::iter::once(label)))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn SourceCode)
    }
}

/// Every mistake found in the files of one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// The first of many mistakes, and that there are more.
    #[must_use]
    pub fn first(mut found: Vec<Diagnostic>) -> Self {
        if found.len() > MOST {
            found.truncate(MOST);
            let file = Arc::clone(&found[MOST - 1].file);
            let slip = Slip::new(Position::default(), format!("there are more mistakes than these {MOST}"));
            found.push(Diagnostic { slip: slip.help("correct them first"), file });
        }
        Self(found)
    }

    /// Renders all mistakes for a terminal of a given width.
    #[must_use]
    pub fn render(&self, width: usize, color: bool) -> String {
        let theme =
            if color { miette::GraphicalTheme::unicode() } else { miette::GraphicalTheme::unicode_nocolor() };
        let handler = miette::GraphicalReportHandler::new_themed(theme).with_width(width);
        let mut text = String::new();
        let mut reached = Reached::nothing();
        for diagnostic in &self.0 {
            let shown = Shown::new(diagnostic, &mut reached);
            if handler.render_report(&mut text, &shown).is_err() {
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
    let length = word.chars().count();
    let is_comparable = |candidate: &&str| {
        let longest = candidate.len().max(word.len());
        longest <= WORD && candidate.chars().count().abs_diff(length) <= longest / 3 + 1
    };
    candidates
        .into_iter()
        .filter(is_comparable)
        .take(CANDIDATES)
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
    fn a_place_behind_the_end_of_a_line_is_its_end() {
        let file = Arc::new(SourceFile { path: "a.yaml".into(), text: "a: 1\nb: é\nc: 3".into() });
        for (line, column, shown) in [(2, 5, "  · "), (3, 90, "a.yaml:3:5"), (9, 1, "a.yaml"), (1, 1, "─")]
        {
            let slip = Slip::new(Position { line, column }, "it is wrong").help("correct it");
            let text = Diagnostics(vec![Diagnostic { slip, file: Arc::clone(&file) }]).render(80, false);
            assert!(text.contains(shown) && text.contains("it is wrong"), "{text}");
        }
    }

    #[test]
    fn the_first_of_many_mistakes_are_told() {
        let file = Arc::new(SourceFile { path: "a.yaml".into(), text: String::new() });
        let slip = |number: usize| Slip::new(Position::default(), format!("mistake {number}"));
        let many =
            |count| (0..count).map(|n| Diagnostic { slip: slip(n), file: Arc::clone(&file) }).collect();
        assert_eq!(Diagnostics::first(many(MOST)).0.len(), MOST);
        let told = Diagnostics::first(many(10 * MOST));
        assert_eq!(told.0.len(), MOST + 1);
        assert!(told.to_string().ends_with("there are more mistakes than these 100"), "{told}");
    }

    #[test]
    fn a_word_is_not_compared_for_long() {
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&long, [long.as_str(), "x"]), None);
        assert_eq!(nearest("größe", ["große", "maß"]), Some("große"));
    }

    #[test]
    fn the_nearest_word_is_near() {
        let words = ["concurrency", "corpus", "client"];
        assert_eq!(nearest("concurency", words), Some("concurrency"));
        assert_eq!(nearest("corpse", words), Some("corpus"));
        assert_eq!(nearest("zebra", words), None);
    }
}
