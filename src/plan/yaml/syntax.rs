//! What is wrong with text that is not YAML, in the words of people who write
//! plans.

use granit_parser::{ErrorKind, ScanError};

use super::super::diagnostic::Slip;
use super::super::tree::Position;
use super::{position, too_deep};

/// The mistake and the way out, where the parser stopped.
pub(super) fn syntax(error: &ScanError, text: &str) -> Slip {
    use ErrorKind as E;
    let at = position(*error.marker());
    let line = text.lines().nth(at.line.saturating_sub(1) as usize).unwrap_or_default();
    let indent = line
        .char_indices()
        .nth(at.column.saturating_sub(1) as usize)
        .map_or(line.len(), |(indent, _)| indent);
    if let Some(slip) = bare_reference(line, at) {
        return slip;
    }
    let (message, help) = match error.kind() {
        E::RecursionLimitExceeded => return too_deep(at),
        E::TabInBlockIndentation
        | E::TabInIndentation
        | E::TabNotAllowed
        | E::TabInPlainScalar
        | E::TabAtBlockScalarStart => ("a tab stands in or before this line", "indent with spaces"),
        E::UnclosedQuotedScalar | E::DocumentIndicatorInQuotedScalar => {
            ("the quotes that open here are not closed", "add the closing quote")
        }
        E::InvalidTrailingSingleQuotedScalar | E::InvalidTrailingDoubleQuotedScalar => (
            "something follows the closing quote",
            "write '' for a quote inside single quotes, \\\" inside double quotes",
        ),
        E::UnexpectedEofImplicitFlowMapping => {
            ("a value is missing between two commas", "remove one of the commas")
        }
        E::UnclosedFlowCollection { .. } | E::UnexpectedEofFlowSequence | E::UnexpectedEofFlowMapping => {
            ("the bracket or brace that opens here is not closed", "close it with `]` or `}`")
        }
        E::ExpectedFlowSequenceSeparator | E::ExpectedFlowMappingSeparator | E::InvalidColonPlacement => (
            "a comma or a closing bracket is missing before this",
            "separate values with `,`, close the list with `]` or the mapping with `}`",
        ),
        E::MismatchedFlowCollectionEnd { .. } | E::MisplacedFlowCollectionEnd => {
            ("this closing bracket has no opening one of its kind", "`[` ends with `]`, `{` with `}`")
        }
        E::MappingValueNotAllowed | E::InvalidMappingValueWhitespace => (
            "a `key: value` cannot begin here",
            "put text that holds `: ` in quotes, and check the indentation",
        ),
        E::SimpleKeyExpected | E::ExpectedBlockMappingKey if !line[..indent].trim().is_empty() => {
            ("the value before this has ended", "put the whole text in quotes, or begin a new line")
        }
        E::SimpleKeyExpected | E::ExpectedBlockMappingKey if holds_key(line) => {
            ("the indentation does not fit here", "align the line with those it belongs to")
        }
        E::SimpleKeyExpected | E::InvalidSimpleKey | E::ExpectedBlockMappingKey | E::MappingKeyNotAllowed => {
            (
                "a `key: value` is expected here",
                "a `:` and a space follow a key, and items of a list begin with `- `",
            )
        }
        E::InvalidIndentation
        | E::ExpectedDocumentStart
        | E::ExpectedBlockSequenceEntry
        | E::BlockSequenceEntryNotAllowed
        | E::InvalidBlockEntryWhitespace
        | E::InvalidBlockScalarIndent
        | E::InvalidQuotedScalarIndent
        | E::InvalidFlowScalarIndent => {
            ("the indentation does not fit here", "align the line with those it belongs to")
        }
        E::InvalidBlockScalarHeader | E::ZeroBlockScalarIndent => (
            "text stands on the line of its `|` or `>`",
            "begin it on the next line, indented, or put it in quotes",
        ),
        E::BomInsideDocument => ("an invisible character, a byte order mark, stands here", "delete it"),
        E::BlockEntryInFlowCollection => {
            ("a `- ` item stands between brackets", "separate items with `,` there")
        }
        E::MissingAnchorOrAliasName
        | E::ExpectedTagBang
        | E::UndeclaredTagHandle
        | E::InvalidTagTerminator
        | E::MissingTagUri => (
            "`&`, `*` and `!` begin something else than text",
            "put text that begins with one of them in quotes",
        ),
        E::UnknownQuotedScalarEscape | E::InvalidQuotedScalarHexEscape | E::InvalidUnicodeEscape => {
            ("a backslash in double quotes begins an unknown escape", "double it, or use single quotes")
        }
        E::UnknownAnchor => (
            "`*` begins an alias, and no value before it has this name",
            "put text that begins with `*` in quotes, or write the value out",
        ),
        E::UnexpectedCharacter { .. } => {
            ("a character stands here that cannot begin a value", "put the value in quotes")
        }
        _ => ("this is not YAML", "check the quotes, brackets and indentation around this place"),
    };
    Slip::new(at, message).help(help)
}

/// Whether a line is one `key: value`.
fn holds_key(line: &str) -> bool {
    line.contains(": ") || line.trim_end().ends_with(':')
}

/// A reference in a list or mapping in brackets, where its own braces mean
/// something else.
fn bare_reference(line: &str, at: Position) -> Option<Slip> {
    let before = at.column.checked_sub(2)?;
    let reference: String = line.chars().skip(before as usize).take_while(|c| *c != '}').collect();
    reference.starts_with("${").then(|| {
        let place = Position { column: at.column - 1, ..at };
        Slip::new(place, "a reference between brackets or braces has to be in quotes")
            .help(format!("write \"{reference}}}\""))
    })
}
