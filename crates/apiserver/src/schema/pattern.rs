//! Regular expressions of schemas, which are written for Go's engine.
//!
//! Go reads `\d`, `\w`, `\s` and `\b` as ASCII and takes `[`, `&&`, `--` and `~~` inside a class literally. The engine
//! here does neither, so patterns are rewritten before they are compiled; everything else means the same to both.

use regex::Regex;

/// A pattern together with its source, which messages quote.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    pub(crate) fn parse(source: &str) -> Result<Self, regex::Error> {
        Ok(Self { source: source.to_owned(), regex: Regex::new(&translate(source))? })
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut chars = source.chars().peekable();
    let mut in_class = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' => push_escape(&mut out, chars.next(), in_class),
            '[' if in_class && chars.peek() != Some(&':') => out.push_str("\\["),
            '[' if in_class => push_posix(&mut out, &mut chars),
            '[' => {
                in_class = true;
                open_class(&mut out, &mut chars);
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' | '-' if in_class && chars.peek() == Some(&char) => {
                out.push('\\');
                out.push(char);
            }
            other => out.push(other),
        }
    }
    out
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Writes `[`, `[^` and a literal `]` directly after it, which does not close the class.
fn open_class(out: &mut String, chars: &mut Chars<'_>) {
    out.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    if chars.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
}

/// Copies the rest of `[:alpha:]` so that its bracket does not close the class.
fn push_posix(out: &mut String, chars: &mut Chars<'_>) {
    out.push('[');
    for char in chars.by_ref() {
        out.push(char);
        if char == ']' {
            break;
        }
    }
}

fn push_escape(out: &mut String, escaped: Option<char>, in_class: bool) {
    let class = match escaped {
        Some('d') => "0-9",
        Some('w') => "0-9A-Za-z_",
        Some('s') => r"\t\n\f\r ",
        Some('D') => return out.push_str("[^0-9]"),
        Some('W') => return out.push_str("[^0-9A-Za-z_]"),
        Some('S') => return out.push_str(r"[^\t\n\f\r ]"),
        Some('b') if !in_class => return out.push_str(r"(?-u:\b)"),
        Some('B') if !in_class => return out.push_str(r"(?-u:\B)"),
        Some(other) => return out.extend(['\\', other]),
        None => return out.push('\\'),
    };
    if in_class {
        out.push_str(class);
    } else {
        out.extend(["[", class, "]"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "१२", false),
            (r"^[\d-]+$", "1-2", true),
            (r"^[\w.]+$", "a_b.c", true),
            (r"^\w+$", "é", false),
            (r"^[^\s]+$", "a b", false),
            (r"^[\S]+$", "ab", true),
            (r"^[a[]+$", "[a", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[]a]+$", "]", true),
            (r"^[^]a]+$", "b]", false),
            (r"^[[:alpha:]_]+$", "ab_", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^a\/b$", "a/b", true),
            (r"^\p{L}+$", "é", true),
            (r"^a$", "a\n", false),
        ];
        for (source, text, matches) in cases {
            let pattern = Pattern::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
            assert_eq!(pattern.matches(text), matches, "{source} on {text:?}");
        }
    }

    #[test]
    fn a_broken_pattern_is_an_error() {
        for source in ["(", "[a", "*a", "\\"] {
            assert!(Pattern::parse(source).is_err(), "{source}");
        }
    }
}
