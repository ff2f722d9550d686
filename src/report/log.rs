//! A node's log as it is printed: bounded memory, whatever its size and the
//! length of its lines.

use std::io::{self, Write};

use crate::process::log::readable;
use crate::process::{MaskedStream, Masker};

/// Longer lines are shown in parts.
const LINE: usize = 64 << 10;

/// Prints a log that comes in pieces, its secrets masked. On a terminal it is
/// text without control codes; elsewhere every byte is as it was written.
pub struct LogPrinter<'a, W> {
    out: W,
    masked: MaskedStream<'a>,
    /// Of a terminal, the line that has not ended yet.
    line: Option<Vec<u8>>,
    ready: Vec<u8>,
}

impl<'a, W: Write> LogPrinter<'a, W> {
    /// Prints to `out`.
    pub fn new(out: W, masker: &'a Masker, is_terminal: bool) -> Self {
        let line = is_terminal.then(Vec::new);
        Self { out, masked: MaskedStream::new(masker), line, ready: Vec::new() }
    }

    /// Prints the next piece.
    pub fn print(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.line {
            None => self.masked.push(piece, &mut self.ready),
            Some(line) => {
                line.extend_from_slice(piece);
                let shown: Vec<u8> = line.drain(..shown_of(line)).collect();
                let text = readable(&String::from_utf8_lossy(&shown));
                self.masked.push(text.as_bytes(), &mut self.ready);
            }
        }
        self.write()
    }

    /// Prints what is left: nothing more comes.
    pub fn finish(mut self) -> io::Result<W> {
        let rest = self.line.take().unwrap_or_default();
        self.masked.push(readable(&String::from_utf8_lossy(&rest)).as_bytes(), &mut self.ready);
        self.masked.finish(&mut self.ready);
        self.write()?;
        Ok(self.out)
    }

    fn write(&mut self) -> io::Result<()> {
        self.out.write_all(&self.ready)?;
        self.ready.clear();
        self.out.flush()
    }
}

/// How much of what came can be shown: whole lines, or a part of a long one
/// that ends with a whole character.
fn shown_of(line: &[u8]) -> usize {
    if let Some(newline) = line.iter().rposition(|byte| *byte == b'\n') {
        return newline + 1;
    }
    if line.len() < LINE {
        return 0;
    }
    let is_first = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    let last = line.iter().rev().take(4).position(is_first);
    last.map_or(line.len(), |back| line.len() - back - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(pieces: &[&[u8]], is_terminal: bool) -> String {
        let masker = Masker::new(["hunter2-hunter2"]);
        let mut printer = LogPrinter::new(Vec::new(), &masker, is_terminal);
        for piece in pieces {
            printer.print(piece).unwrap();
        }
        String::from_utf8_lossy(&printer.finish().unwrap()).into_owned()
    }

    #[test]
    fn a_terminal_gets_text_and_a_pipe_gets_the_bytes() {
        let pieces: [&[u8]; 3] = [b"\x1b[31mred\x1b[0m 10%\r100%\n", b"\xff\0 hunter2-hun", b"ter2 tail"];
        assert_eq!(printed(&pieces, true), "100%\n\u{fffd} *** tail");
        assert_eq!(printed(&pieces, false), "\x1b[31mred\x1b[0m 10%\r100%\n\u{fffd}\0 *** tail");
    }

    #[test]
    fn a_secret_that_control_codes_split_is_masked_once_they_are_gone() {
        assert_eq!(printed(&[b"hunter2\x1b[0m-hun", b"\x1b[1mter2\n"], true), "***\n");
    }

    #[test]
    fn a_line_without_end_is_shown_in_parts_of_whole_characters() {
        let text = "é".repeat(100_000);
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(4097).collect();
        assert_eq!(printed(&pieces, true), text);
        let masker = Masker::default();
        let mut printer = LogPrinter::new(io::sink(), &masker, true);
        for piece in pieces {
            printer.print(piece).unwrap();
            assert!(printer.line.as_ref().unwrap().len() < LINE, "the line is kept whole");
        }
    }

    #[test]
    fn two_gibibytes_pass_in_pieces_and_nothing_of_them_is_kept() {
        let masker = Masker::default();
        let mut printer = LogPrinter::new(io::sink(), &masker, false);
        let piece = vec![0; 1 << 20];
        for _ in 0..2 << 10 {
            printer.print(&piece).unwrap();
        }
        assert!(printer.ready.capacity() <= 2 << 20, "{} bytes", printer.ready.capacity());
    }
}
