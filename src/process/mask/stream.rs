//! Masking what comes in pieces, a secret split between two of them included.

use super::{MASK, Masker};

/// Replaces secrets in a stream of bytes. Of what came it holds back only what
/// may be the beginning of a secret, which is less than the longest one.
pub struct MaskedStream<'a> {
    masker: &'a Masker,
    held: Vec<u8>,
    /// How many of the bytes held a mask already stands for.
    masked: usize,
}

impl<'a> MaskedStream<'a> {
    /// A stream of which nothing came yet.
    #[must_use]
    pub fn new(masker: &'a Masker) -> Self {
        Self { masker, held: Vec::new(), masked: 0 }
    }

    /// Takes the next piece and appends to `out` what is certain by now.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if self.masker.is_empty() {
            out.extend_from_slice(piece);
            return;
        }
        self.held.extend_from_slice(piece);
        let certain = self.masker.where_a_secret_may_begin(&self.held);
        self.release(certain, out);
    }

    /// Appends to `out` what was held back: nothing more comes.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(self.held.len(), out);
    }

    /// Appends what stands before `end`, where no secret goes on that began
    /// before it, unless it is known in full.
    fn release(&mut self, end: usize, out: &mut Vec<u8>) {
        let mut done = self.masked;
        for (from, to) in self.masker.spans(&self.held) {
            if from >= end.max(done) {
                break;
            }
            if from >= done {
                out.extend_from_slice(&self.held[done..from]);
                out.extend_from_slice(MASK.as_bytes());
            }
            done = done.max(to);
        }
        if done < end {
            out.extend_from_slice(&self.held[done..end]);
            done = end;
        }
        self.held.drain(..end);
        self.masked = done - end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text in pieces of these lengths, the rest at the end.
    fn in_pieces(masker: &Masker, text: &[u8], lengths: &[usize]) -> Vec<u8> {
        let (mut stream, mut out, mut rest) = (MaskedStream::new(masker), Vec::new(), text);
        for length in lengths {
            let (piece, left) = rest.split_at((*length).min(rest.len()));
            stream.push(piece, &mut out);
            assert!(stream.held.len() < masker.longest().max(1), "{} bytes held", stream.held.len());
            rest = left;
        }
        stream.push(rest, &mut out);
        stream.finish(&mut out);
        out
    }

    /// Text with a secret plain, percent-encoded, in base64 and escaped for
    /// JSON, two that overlap, and bytes that are no text.
    fn told() -> (Masker, Vec<u8>) {
        let masker = Masker::new(["p\"a/ß w+rd", "abcdef", "defghi", "aXaXa"]);
        let text = "plain p\"a/ß w+rd, ?key=p%22a%2F%C3%9F%20w%2Brd&x, cCJhL8OfIHcrcmQ=, {\"p\\\"a/ß w+rd\"}, \
                    <abcdefghi>, <aXaXaXaXaXa>, abcde, p\"a/";
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend([0, 0xff, b'a', b'b', b'c', b'd', b'e', b'f', 0xfe, b'\n']);
        (masker, bytes)
    }

    #[test]
    fn a_secret_is_masked_wherever_the_stream_is_split() {
        let (masker, text) = told();
        let whole = in_pieces(&masker, &text, &[]);
        let shown = String::from_utf8_lossy(&whole);
        assert_eq!(
            shown,
            "plain ***, ?key=***&x, ***Q=, {\"***\"}, <***>, <***>, abcde, p\"a/\0\u{fffd}***\u{fffd}\n"
        );
        for first in 0..text.len() {
            assert_eq!(in_pieces(&masker, &text, &[first]), whole, "split at {first}");
            for second in [1, 2, 3, 7] {
                assert_eq!(in_pieces(&masker, &text, &[first, second]), whole, "{first} and {second}");
            }
        }
        for length in 1..40 {
            assert_eq!(in_pieces(&masker, &text, &vec![length; text.len()]), whole, "pieces of {length}");
        }
    }

    #[test]
    fn what_can_begin_no_secret_is_not_held_back() {
        let masker = Masker::new(["hunter2-hunter2"]);
        let (mut stream, mut out) = (MaskedStream::new(&masker), Vec::new());
        stream.push(b"a line\n", &mut out);
        assert_eq!(out, b"a line\n");
        stream.push(b"hunt", &mut out);
        assert_eq!(out, b"a line\n");
        stream.push(b"ing\n", &mut out);
        assert_eq!(out, b"a line\nhunting\n");
    }

    #[test]
    fn secrets_that_overlap_without_end_are_one_mask_and_are_not_kept() {
        let masker = Masker::new(["aaaaaa"]);
        let text = vec![b'a'; 10_000];
        assert_eq!(in_pieces(&masker, &text, &[7; 1000]), MASK.as_bytes());
    }
}
