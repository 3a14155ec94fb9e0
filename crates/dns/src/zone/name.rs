//! A domain name as it is compared: wire form, ASCII letters in lower case, with the places of its labels.
//!
//! Length octets are below 64 and so never look like a capital letter: a whole name is folded in one pass. A name is a
//! fixed buffer, so that a server reads one per query without allocating.

use std::fmt;

/// The longest name in wire form, with its root (RFC 1035, 2.3.4).
pub(crate) const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: usize = 63;
const MOST_LABELS: usize = 128;

/// A folded name.
#[derive(Clone)]
pub struct Name {
    bytes: [u8; LONGEST_NAME],
    /// With the root's octet.
    length: u8,
    starts: [u8; MOST_LABELS],
    count: u8,
}

/// Why octets or a text are no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// The message ends before the name does.
    Short,
    /// It does not fit the limits of the protocol.
    Long,
    /// It is compressed, or has labels of a kind nobody uses.
    Unusual,
    /// An empty label, or a character that is not ASCII.
    Text,
}

impl Default for Name {
    /// The root.
    fn default() -> Self {
        Self { bytes: [0; LONGEST_NAME], length: 1, starts: [0; MOST_LABELS], count: 0 }
    }
}

impl Name {
    /// Reads an uncompressed name at the beginning of `octets`, over whatever this was before. Returns its length.
    pub fn read(&mut self, octets: &[u8]) -> Result<usize, BadName> {
        let (mut at, mut count) = (0_usize, 0_usize);
        loop {
            let label = usize::from(*octets.get(at).ok_or(BadName::Short)?);
            if label == 0 {
                break;
            }
            if label > LONGEST_LABEL {
                return Err(BadName::Unusual);
            }
            if at + label + 2 > LONGEST_NAME {
                return Err(BadName::Long);
            }
            self.starts[count] = at as u8;
            count += 1;
            at += label + 1;
        }
        let length = at + 1;
        self.bytes[..length].copy_from_slice(&octets[..length]);
        self.bytes[..length].make_ascii_lowercase();
        (self.length, self.count) = (length as u8, count as u8);
        Ok(length)
    }

    /// Reads a name as people write it, with or without the last dot.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let mut wire = Vec::with_capacity(text.len() + 2);
        let text = text.strip_suffix('.').unwrap_or(text);
        for label in text.split('.').filter(|_| !text.is_empty()) {
            if label.is_empty() || !label.is_ascii() {
                return Err(BadName::Text);
            }
            wire.push(u8::try_from(label.len()).ok().filter(|length| *length <= 63).ok_or(BadName::Long)?);
            wire.extend_from_slice(label.as_bytes());
        }
        wire.push(0);
        let mut name = Self::default();
        name.read(&wire).map(|_| name)
    }

    /// The whole name with its root.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// How many labels it has, without the root.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Where the label begins; after the last one, where the root is.
    pub fn start(&self, label: usize) -> usize {
        match self.starts[..self.count()].get(label) {
            Some(start) => usize::from(*start),
            None => usize::from(self.length) - 1,
        }
    }

    /// A label without its length octet.
    pub fn label(&self, label: usize) -> &[u8] {
        &self.bytes[(self.start(label) + 1).min(self.start(label + 1))..self.start(label + 1)]
    }

    /// The labels from `from` up to but without `to`, in wire form and without a root.
    pub fn labels(&self, from: usize, to: usize) -> &[u8] {
        &self.bytes[self.start(from)..self.start(to)]
    }

    /// How many labels stand before `apex`; `None` if this is not at or below it.
    pub fn below(&self, apex: &Name) -> Option<usize> {
        let before = self.count().checked_sub(apex.count())?;
        (self.bytes()[self.start(before)..] == *apex.bytes()).then_some(before)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(f, self.bytes())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(f, self.bytes())
    }
}

/// Labels in wire form as people write them, each with a dot.
fn write_labels(f: &mut fmt::Formatter<'_>, mut wire: &[u8]) -> fmt::Result {
    if wire == [0] {
        return f.write_str(".");
    }
    while let Some((length, rest)) = wire.split_first().filter(|(length, _)| **length > 0) {
        let (label, after) = rest.split_at(usize::from(*length).min(rest.len()));
        for octet in label {
            match octet {
                b'.' | b'\\' => write!(f, "\\{}", char::from(*octet))?,
                0x21..=0x7e => write!(f, "{}", char::from(*octet))?,
                _ => write!(f, "\\{octet:03}")?,
            }
        }
        f.write_str(".")?;
        wire = after;
    }
    Ok(())
}

/// Labels in wire form without a root, as people write them.
pub(crate) struct Labels<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(f, self.0)
    }
}

/// Adds one folded label; `false` if it cannot be one.
pub(crate) fn push_label(wire: &mut Vec<u8>, label: &str) -> bool {
    let fits = (1..=LONGEST_LABEL).contains(&label.len()) && !label.contains('.');
    if fits {
        wire.push(label.len() as u8);
        wire.extend(label.bytes().map(|octet| octet.to_ascii_lowercase()));
    }
    fits
}

/// Whether `tail` is `path`, or what is left of it after some of its labels.
pub(crate) fn ends_with_labels(mut path: &[u8], tail: &[u8]) -> bool {
    while path.len() > tail.len() {
        let Some(length) = path.first() else { return false };
        path = path.get(usize::from(*length) + 1..).unwrap_or_default();
    }
    path == tail
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn a_name_is_folded_and_knows_its_labels() {
        let name = name("WwW.Example.ORG.");
        assert_eq!(name.to_string(), "www.example.org.");
        assert_eq!((name.count(), name.label(0), name.label(2)), (3, &b"www"[..], &b"org"[..]));
        assert_eq!(name.labels(0, 2), b"\x03www\x07example");
        assert_eq!(name.label(3), b"");
    }

    #[test]
    fn a_name_is_below_another_only_at_a_label() {
        let cases =
            [("a.b.c", "b.c", Some(1)), ("b.c", "b.c", Some(0)), ("ab.c", "b.c", None), ("c", "b.c", None)];
        for (below, apex, expected) in cases {
            assert_eq!(name(below).below(&name(apex)), expected, "{below} {apex}");
        }
        assert_eq!(name("a.b").below(&name(".")), Some(2));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(64);
        let cases =
            [("a..b", BadName::Text), (".a", BadName::Text), ("ä", BadName::Text), (&long, BadName::Long)];
        for (text, expected) in cases {
            assert_eq!(Name::parse(text), Err(expected), "{text}");
        }
        assert_eq!(Name::parse(&["a".repeat(49).as_str(); 6].join(".")), Err(BadName::Long));
        assert_eq!(Name::default().read(b"\x03ab"), Err(BadName::Short));
        assert_eq!(Name::default().read(b"\x01a\xc0\x0c"), Err(BadName::Unusual));
        let longest = [&[49; 50][..], &[49; 50], &[49; 50], &[49; 50], &[52; 53], &[0]].concat();
        assert_eq!(longest.len(), 254);
        assert_eq!(Name::default().read(&longest), Ok(254));
    }

    #[test]
    fn the_tail_of_a_path_is_found_at_labels_only() {
        let path = b"\x05_http\x04_tcp";
        let cases: [(&[u8], bool); 5] =
            [(b"\x04_tcp", true), (path, true), (b"tcp", false), (b"\x04_udp", false), (b"", true)];
        for (tail, expected) in cases {
            assert_eq!(ends_with_labels(path, tail), expected, "{tail:?}");
        }
    }
}
