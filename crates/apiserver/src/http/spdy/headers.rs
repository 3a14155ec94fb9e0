//! Blocks of headers: compressed by one zlib stream per direction that begins with a dictionary everybody knows.

use std::collections::BTreeMap;
use std::io;

use flate2::{Decompress, FlushDecompress, Status};

/// The dictionary of SPDY/3 (draft 3, section 2.6.10.1).
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
/// Clients say a handful of short words.
const MOST_BYTES: usize = 64 << 10;

/// Reads the blocks of one direction, in order.
pub(super) struct Reader(Decompress);

impl Reader {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// The headers of a block, names in lower case.
    pub(super) fn read(&mut self, block: &[u8]) -> io::Result<BTreeMap<String, String>> {
        parse(&self.inflate(block)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn inflate(&mut self, block: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(1024);
        let mut rest = block;
        loop {
            let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
            let status = match self.0.decompress_vec(rest, &mut out, FlushDecompress::Sync) {
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(DICTIONARY).map_err(io::Error::other)?;
                    Status::Ok
                }
                other => other.map_err(io::Error::other)?,
            };
            let taken = usize::try_from(self.0.total_in() - before_in).map_err(io::Error::other)?;
            rest = rest.get(taken..).unwrap_or_default();
            let moved = taken > 0 || self.0.total_out() > before_out;
            if status == Status::StreamEnd || (rest.is_empty() && out.len() < out.capacity()) {
                return Ok(out);
            }
            if out.len() > MOST_BYTES || (!moved && out.len() < out.capacity()) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            out.reserve(1024);
        }
    }
}

fn parse(block: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut rest = block;
    let count = number(&mut rest)?;
    let mut headers = BTreeMap::new();
    for _ in 0..count {
        let (name, value) = (text(&mut rest)?, text(&mut rest)?);
        headers.insert(name.to_ascii_lowercase(), value);
    }
    Some(headers)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_at_checked(4)?;
    *rest = tail;
    head.try_into().ok().map(u32::from_be_bytes)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    String::from_utf8(head.to_vec()).ok()
}

/// Writes the blocks of one direction. They are empty, so they are stored as they are: a zlib stream may do without
/// compressing, and without the dictionary.
#[derive(Default)]
pub(super) struct Writer {
    begun: bool,
}

impl Writer {
    /// A block without headers.
    pub(super) fn empty(&mut self) -> Vec<u8> {
        let begin: &[u8] = if self.begun { &[] } else { &[0x78, 0x01] };
        self.begun = true;
        let content = 0_u32.to_be_bytes();
        // A stored block: not the last one, its length and the complement of it. Readers hand out what they have when an
        // empty one follows.
        let stored = [&[0, 4, 0, 0xfb, 0xff][..], &content, &[0, 0, 0, 0xff, 0xff]].concat();
        [begin, &stored].concat()
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;

    /// A client's side, which compresses with the dictionary.
    struct Client(Compress);

    impl Client {
        fn new() -> Self {
            let mut stream = Compress::new(Compression::default(), true);
            stream.set_dictionary(DICTIONARY).unwrap();
            Self(stream)
        }

        fn block(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
            let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
            for word in headers.iter().flat_map(|(name, value)| [name, value]) {
                plain.extend_from_slice(&(word.len() as u32).to_be_bytes());
                plain.extend_from_slice(word.as_bytes());
            }
            let mut out = Vec::with_capacity(plain.len() + 1024);
            self.0.compress_vec(&plain, &mut out, FlushCompress::Sync).unwrap();
            out
        }
    }

    #[test]
    fn blocks_of_one_stream_are_read_one_after_the_other() {
        let (mut client, mut reader) = (Client::new(), Reader::new());
        let long = "x".repeat(5000);
        for headers in [
            vec![("streamtype", "stdin")],
            vec![("Streamtype", "error"), ("port", "80")],
            vec![],
            vec![("a", &long)],
        ] {
            let read = reader.read(&client.block(&headers)).unwrap();
            let expected =
                headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()));
            assert_eq!(read, expected.collect());
        }
    }

    #[test]
    fn what_is_no_block_is_refused_and_a_bomb_does_not_go_off() {
        for bytes in [&b""[..], b"garbage", &[0x78, 0x01], &[0xff; 64]] {
            assert!(Reader::new().read(bytes).is_err(), "{bytes:?}");
        }
        let bomb = Client::new().block(&[("a", &"x".repeat(10 << 20))]);
        assert!(Reader::new().read(&bomb).is_err());
    }

    #[test]
    fn empty_blocks_are_a_zlib_stream() {
        let (mut writer, mut reader) = (Writer::default(), Reader::new());
        for _ in 0..3 {
            assert_eq!(reader.read(&writer.empty()).unwrap(), BTreeMap::new());
        }
    }
}
