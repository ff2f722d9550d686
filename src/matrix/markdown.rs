//! Values made harmless in GitHub-flavoured Markdown, still readable as they are.

use std::io::{self, Write};

/// Writes a value so that it is text and nothing else: no cell border, line
/// break, tag, link, emphasis or entity. An underscore inside a word stays
/// bare, since it means nothing there.
pub(super) fn escape(value: &str, output: &mut dyn Write) -> io::Result<()> {
    let mut before = ' ';
    let mut rest = value.trim().chars().peekable();
    while let Some(c) = rest.next() {
        let inside_word = before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '<' => output.write_all(b"&lt;")?,
            '>' => output.write_all(b"&gt;")?,
            '\\' | '|' | '`' | '*' | '[' | ']' | '~' | '&' | '#' => write!(output, "\\{c}")?,
            '_' if !inside_word => output.write_all(b"\\_")?,
            c if c.is_control() => {
                if before != ' ' {
                    output.write_all(b" ")?;
                }
                before = ' ';
                continue;
            }
            c => write!(output, "{c}")?,
        }
        before = c;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    fn escaped(value: &str) -> String {
        let mut output = Vec::new();
        super::escape(value, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn ordinary_values_stay_as_they_are() {
        for value in ["812.4 ms", "16 of 16", "family-validated", "request_latency_p50", "a/b.json", "(x)"] {
            assert_eq!(escaped(value), value);
        }
    }

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escaped("<script>"), "&lt;script&gt;");
        assert_eq!(escaped("a|b"), r"a\|b");
        assert_eq!(escaped("[x](y)"), r"\[x\](y)");
        assert_eq!(escaped("_x_ **y** `z` &lt;"), r"\_x\_ \*\*y\*\* \`z\` \&lt;");
    }

    #[test]
    fn a_line_break_cannot_leave_its_cell() {
        assert_eq!(escaped("a\r\n\n| b\n"), r"a \| b");
    }
}
