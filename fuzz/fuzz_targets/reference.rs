//! Any text as one with references.

#![no_main]

use libfuzzer_sys::fuzz_target;
use orchestrate::value::Reference;
use orchestrate::value::reference::{Piece, escaped, pieces};

fuzz_target!(|text: &str| {
    names_what_it_says(text);
    stands_for_itself(text);
    match pieces(text) {
        Ok(split) => is_the_same_again(&split),
        Err(rest) => assert!(rest.starts_with("${") && text.ends_with(rest) && !rest.contains('}')),
    }
});

/// A reference that is written out is read as the same one.
fn names_what_it_says(inner: &str) {
    if let Some(reference) = Reference::parse(inner) {
        let written = reference.to_string();
        let inside = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        assert_eq!(inside, Some(inner), "it is written as it was read");
        assert_eq!(inside.and_then(Reference::parse), Some(reference));
    }
}

/// Text that is escaped is one literal, or nothing where there is no text.
fn stands_for_itself(text: &str) {
    let written = escaped(text);
    let split = pieces(&written).expect("escaped text opens no reference");
    match split.as_slice() {
        [] => assert!(text.is_empty()),
        [Piece::Literal(literal)] => assert_eq!(literal, text),
        other => panic!("{text:?} became {other:?}"),
    }
}

/// Pieces that are put together again are the same pieces.
fn is_the_same_again(split: &[Piece<'_>]) {
    for pair in split.windows(2) {
        assert!(!matches!(pair, [Piece::Literal(_), Piece::Literal(_)]), "{split:?}");
    }
    let mut text = String::new();
    for piece in split {
        match piece {
            Piece::Literal(literal) => text.push_str(&escaped(literal)),
            Piece::Reference(inner) => text.extend(["${", inner, "}"]),
        }
        if let Piece::Reference(inner) = piece {
            names_what_it_says(inner);
        }
    }
    assert_eq!(pieces(&text).as_deref(), Ok(split), "{text:?}");
}
