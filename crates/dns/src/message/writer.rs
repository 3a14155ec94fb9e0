//! A reply, written front to back into a buffer that is there already.

use super::{CLASS_IN, Edns, HEADER, OPT_LENGTH, Rcode, UDP_LIMIT, WHY_LENGTH, Why, rtype};

/// A pointer leads no farther into a message.
const FARTHEST: usize = 0x3fff;

/// The number of the option that says why (RFC 8914).
const EXTENDED_ERROR: u16 = 15;

/// The sections after the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Answer = 0,
    Authority = 1,
    Additional = 2,
}

/// Where a reply is written. What does not fit is not written, whole records at a time.
pub(crate) struct Writer<'b> {
    out: &'b mut [u8],
    at: usize,
    limit: usize,
    counts: [u16; 3],
    truncated: bool,
    why: Option<Why>,
}

impl<'b> Writer<'b> {
    /// A reply to `query`, whose question ends at `end`; it may be as long as `limit`.
    pub(crate) fn reply(out: &'b mut [u8], query: &[u8], end: usize, limit: usize) -> Self {
        out[..end].copy_from_slice(&query[..end]);
        // QR, and of the flags only RD is the client's to keep.
        out[2] = 0x80 | query[2] & 0x01;
        out[3] = 0;
        out[4..6].copy_from_slice(&[0, u8::from(end > HEADER)]);
        let limit = limit.min(out.len());
        Self { out, at: end, limit, counts: [0; 3], truncated: false, why: None }
    }

    /// Keeps room for the OPT record that comes last.
    pub(crate) fn reserve_opt(&mut self) {
        self.limit = self.limit.saturating_sub(OPT_LENGTH);
    }

    pub(crate) fn authoritative(&mut self) {
        self.out[2] |= 0x04;
    }

    pub(crate) fn recursion_available(&mut self) {
        self.out[3] |= 0x80;
    }

    /// Where the next octet goes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn count(&self, section: Section) -> u16 {
        self.counts[section as usize]
    }

    /// Something was left out that the client needs.
    pub(crate) fn truncate(&mut self) {
        self.truncated = true;
    }

    /// Says why there is no better answer, if the client understands it and there is room.
    pub(crate) fn explain(&mut self, why: Why) {
        self.why = Some(why);
    }

    /// What was written from `from` on.
    pub(crate) fn written(&self, from: usize) -> &[u8] {
        &self.out[from..self.at]
    }

    pub(crate) fn written_mut(&mut self, from: usize) -> &mut [u8] {
        &mut self.out[from..self.at]
    }

    /// Adds one record, whose owner stands at `owner` already and whose data is `parts` one after the other; `false` if it
    /// does not fit.
    pub(crate) fn record(
        &mut self,
        section: Section,
        owner: usize,
        kind: u16,
        ttl: u32,
        parts: &[&[u8]],
    ) -> bool {
        let data: usize = parts.iter().map(|part| part.len()).sum();
        let name = if owner > FARTHEST { self.name_length(owner) } else { 2 };
        let full = self.counts[section as usize] == u16::MAX;
        if full || data > usize::from(u16::MAX) || self.at + name + 10 + data > self.limit {
            return false;
        }
        if owner > FARTHEST {
            self.out.copy_within(owner..owner + name, self.at);
            self.at += name;
        } else {
            self.put(&(0xc000 | owner as u16).to_be_bytes());
        }
        self.put(&kind.to_be_bytes());
        self.put(&CLASS_IN.to_be_bytes());
        self.put(&ttl.to_be_bytes());
        self.put(&(data as u16).to_be_bytes());
        parts.iter().for_each(|part| self.put(part));
        self.counts[section as usize] += 1;
        true
    }

    /// The length of a name of ours that stands at `at` in full.
    fn name_length(&self, at: usize) -> usize {
        let mut end = at;
        while self.out[end] != 0 && end < self.at {
            end += usize::from(self.out[end]) + 1;
        }
        end + 1 - at
    }

    fn put(&mut self, octets: &[u8]) {
        self.out[self.at..self.at + octets.len()].copy_from_slice(octets);
        self.at += octets.len();
    }

    /// The data of the OPT record.
    fn put_why(&mut self) {
        let fits = self.at + 2 + WHY_LENGTH <= self.out.len().min(self.limit + OPT_LENGTH);
        let Some(why) = self.why.filter(|_| fits) else { return self.put(&[0, 0]) };
        for number in [WHY_LENGTH as u16, EXTENDED_ERROR, 2, why as u16] {
            self.put(&number.to_be_bytes());
        }
    }

    /// Ends the reply and returns its length.
    pub(crate) fn finish(mut self, rcode: Rcode, edns: Option<Edns>) -> usize {
        let mut additional = self.counts[2];
        if let Some(edns) = edns {
            self.put(&[0]);
            self.put(&rtype::OPT.to_be_bytes());
            self.put(&(UDP_LIMIT as u16).to_be_bytes());
            self.put(&[rcode as u8 >> 4, 0, u8::from(edns.dnssec_ok) << 7, 0]);
            self.put_why();
            additional += 1;
        }
        self.out[2] |= u8::from(self.truncated) << 1;
        self.out[3] |= rcode as u8 & 0x0f;
        self.out[6..8].copy_from_slice(&self.counts[0].to_be_bytes());
        self.out[8..10].copy_from_slice(&self.counts[1].to_be_bytes());
        self.out[10..12].copy_from_slice(&additional.to_be_bytes());
        self.at
    }
}
