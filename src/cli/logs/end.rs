//! Where the last lines of a file begin.

use std::io::{self, Read, Seek, SeekFrom};

use super::PIECE;

/// The place at which the last lines of a file begin. Reads from its end
/// backwards, a piece at a time, and no further than it has to.
pub(super) fn of_last_lines(file: &mut (impl Read + Seek), lines: usize) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    if lines == 0 {
        return Ok(end);
    }
    let (mut at, mut left) = (end, lines);
    let mut piece = vec![0; PIECE];
    while at > 0 {
        let start = at.saturating_sub(PIECE as u64);
        let read = &mut piece[..usize::try_from(at - start).unwrap_or(PIECE)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(read)?;
        for newline in memchr::memrchr_iter(b'\n', read) {
            let behind = start + newline as u64 + 1;
            // The newline at the very end belongs to the last line.
            if behind == end {
                continue;
            }
            left -= 1;
            if left == 0 {
                return Ok(behind);
            }
        }
        at = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    #[test]
    fn the_last_lines_begin_behind_a_newline_or_at_the_beginning() {
        let long = "x".repeat(PIECE);
        for (text, lines, shown) in [
            ("one\ntwo\nthree\n", 2, "two\nthree\n"),
            ("one\ntwo\nthree", 2, "two\nthree"),
            ("one\ntwo\n", 9, "one\ntwo\n"),
            ("one\n", 0, ""),
            ("", 5, ""),
            ("\n\n\n", 2, "\n\n"),
            (&format!("{long}\n{long}\nend"), 2, &format!("{long}\nend")),
        ] {
            let from = of_last_lines(&mut Cursor::new(text), lines).unwrap();
            assert_eq!(&text[usize::try_from(from).unwrap()..], shown, "{lines} of {} bytes", text.len());
        }
    }

    /// A file of which no more may be read than this.
    struct Limited(std::fs::File, u64);

    impl Read for Limited {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buffer)?;
            self.1 = self.1.checked_sub(read as u64).ok_or_else(|| io::Error::other("read too much"))?;
            Ok(read)
        }
    }

    impl Seek for Limited {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn of_two_gibibytes_only_the_end_is_read() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(2 << 30).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\nlast but one\nlast\n").unwrap();
        let from = of_last_lines(&mut Limited(file, PIECE as u64), 2).unwrap();
        assert_eq!(from, (2 << 30) + 1);
    }
}
