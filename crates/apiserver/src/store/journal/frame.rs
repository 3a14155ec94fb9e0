//! The log in pieces: each is written and synced as a whole before the next begins. Pure.
//!
//! So whatever a crash leaves of a piece is at the very end of the file, and whatever is wrong before the end was
//! damaged later, by something else. The two must not be mixed up: the first is cut, the second is reported.
//!
//! A piece is 16 octets of head (mark, length, checksum of the content, checksum of the head) and its content, which is
//! text: the mark's first octet never occurs in it.

use flate2::Crc;

const MARK: [u8; 4] = [0xff, b't', b'l', b'g'];
const HEAD: usize = 16;
/// What disks write at once: a crash leaves old or new in a sector, never a mixture.
const SECTOR: usize = 512;

/// Appends a piece to `out`.
pub(super) fn write(out: &mut Vec<u8>, content: &[u8]) {
    let length = u32::try_from(content.len()).expect("pieces are cut long before");
    let begin = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum(content).to_le_bytes());
    let own = checksum(&out[begin..]);
    out.extend_from_slice(&own.to_le_bytes());
    out.extend_from_slice(content);
}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With its last whole piece.
    Clean,
    /// With the beginning of a piece that was never finished, from this octet on.
    Torn(usize),
    /// With something that was written once and is not what it was, from this octet on.
    Damaged(usize),
}

/// The whole pieces of a log, in order and with their places, and how it ends.
pub(super) fn read(log: &[u8]) -> (Vec<(usize, &[u8])>, End) {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < log.len() {
        let Some(content) = piece(log, at) else { return (pieces, end(log, at)) };
        pieces.push((at, content));
        at += HEAD + content.len();
    }
    (pieces, End::Clean)
}

fn checksum(octets: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(octets);
    sum.sum()
}

fn number_at(octets: &[u8], at: usize) -> u32 {
    octets.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The length of the piece whose head is at `at`.
fn head(log: &[u8], at: usize) -> Option<usize> {
    let head = log.get(at..at.checked_add(HEAD)?)?;
    let whole = head.starts_with(&MARK) && number_at(head, 12) == checksum(&head[..12]);
    whole.then(|| number_at(head, 4) as usize)
}

fn piece(log: &[u8], at: usize) -> Option<&[u8]> {
    let begin = at + HEAD;
    let content = log.get(begin..begin.checked_add(head(log, at)?)?)?;
    (number_at(log, at + 8) == checksum(content)).then_some(content)
}

/// What it means that no piece is at `at`.
fn end(log: &[u8], at: usize) -> End {
    let rest = &log[at..];
    let unfinished = match head(log, at) {
        Some(length) => rest.len() - HEAD < length,
        None => rest.len() < HEAD,
    };
    let torn = unfinished || has_unwritten_sector(rest, at);
    if torn && !is_followed(rest) { End::Torn(at) } else { End::Damaged(at) }
}

/// Whether a head comes later: the place was synced once, or nothing would have been written after it.
fn is_followed(rest: &[u8]) -> bool {
    (1..rest.len()).any(|at| rest[at] == MARK[0] && head(rest, at).is_some())
}

/// Whether a sector was reserved for what begins at `at` and never arrived: content has no zeros.
fn has_unwritten_sector(rest: &[u8], at: usize) -> bool {
    let first = (SECTOR - at % SECTOR).min(rest.len());
    let (head, tail) = rest.split_at(first);
    std::iter::once(head).chain(tail.chunks(SECTOR)).any(|part| part.iter().all(|octet| *octet == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(contents: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        contents.iter().for_each(|content| write(&mut out, content.as_bytes()));
        out
    }

    const THREE: [&str; 3] = ["first", "", "the third, which is longer than the others"];

    #[test]
    fn every_beginning_of_a_log_gives_exactly_the_pieces_that_are_whole() {
        let whole = log(&THREE);
        let ends = [HEAD + 5, 2 * HEAD + 5, whole.len()];
        for length in 0..=whole.len() {
            let (pieces, end) = read(&whole[..length]);
            let expected = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(pieces.len(), expected, "of {length} octets");
            let cut = expected.checked_sub(1).map_or(0, |last| ends[last]);
            assert_eq!(end, if cut == length { End::Clean } else { End::Torn(cut) });
        }
    }

    #[test]
    fn a_changed_octet_is_never_taken_for_a_crash() {
        let whole = log(&THREE);
        for place in 0..whole.len() {
            for change in [1, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] ^= change;
                let (pieces, end) = read(&damaged);
                assert!(matches!(end, End::Damaged(at) if at <= place), "octet {place}: {end:?}");
                assert!(pieces.len() < THREE.len());
            }
        }
    }

    #[test]
    fn sectors_that_never_arrived_are_a_crash_at_the_end_and_damage_before_it() {
        let long = "x".repeat(4 * SECTOR);
        let whole = log(&["first", &long]);
        let begin = HEAD + 5;
        for sector in [0, 1, 3] {
            let mut torn = whole.clone();
            let from = (sector * SECTOR).max(begin);
            torn[from..(sector + 1) * SECTOR].fill(0);
            assert_eq!(read(&torn).1, End::Torn(begin), "sector {sector}");
            write(&mut torn, b"more");
            assert_eq!(read(&torn).1, End::Damaged(begin), "sector {sector}, and more");
        }
    }

    #[test]
    fn a_file_of_something_else_is_damage() {
        assert_eq!(read(b"{\"kind\": \"something else altogether\"}").1, End::Damaged(0));
    }
}
