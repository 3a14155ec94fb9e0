//! Netlink attributes: the type-length-value pairs every message is made of.
//!
//! Numbers of nftables and connection tracking are big-endian unless a function says otherwise.

/// Marks an attribute that holds others.
const NESTED: u16 = 0x8000;
/// The bits of a type that are flags.
const FLAGS: u16 = 0xc000;
const HEADER: usize = 4;

/// Appends attributes to a message.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.header(kind, value.len());
        self.0.extend_from_slice(value);
        self.pad();
    }

    /// A text that ends with a zero.
    pub(crate) fn text(&mut self, kind: u16, value: &str) {
        self.header(kind, value.len() + 1);
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(0);
        self.pad();
    }

    pub(crate) fn u8(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }

    pub(crate) fn u16(&mut self, kind: u16, value: u16) {
        self.bytes(kind, &value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, kind: u16, value: u64) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// An attribute that holds what `fill` writes.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Writer<'_>)) {
        let start = self.0.len();
        self.header(kind | NESTED, 0);
        fill(&mut Writer(self.0));
        // Who writes lists keeps them below 64 kB; the kernel refuses what is cut off.
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn header(&mut self, kind: u16, length: usize) {
        self.0.extend_from_slice(&((length + HEADER) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
    }

    fn pad(&mut self) {
        let missing = self.0.len().wrapping_neg() % 4;
        self.0.extend_from_slice(&[0; 3][..missing]);
    }
}

/// The attributes in some bytes, each with its type; what does not fit ends them.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.0.get(..HEADER)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !FLAGS;
        let value = self.0.get(HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

impl<'a> Attributes<'a> {
    pub(crate) fn get(self, wanted: u16) -> Option<&'a [u8]> {
        let mut all = self;
        all.find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    pub(crate) fn nested(self, wanted: u16) -> Attributes<'a> {
        Attributes(self.get(wanted).unwrap_or_default())
    }

    pub(crate) fn text(self, wanted: u16) -> Option<String> {
        let value = self.get(wanted)?;
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        Some(String::from_utf8_lossy(&value[..end]).into_owned())
    }

    pub(crate) fn u8(self, wanted: u16) -> Option<u8> {
        self.get(wanted)?.first().copied()
    }

    pub(crate) fn u16(self, wanted: u16) -> Option<u16> {
        Some(u16::from_be_bytes(self.get(wanted)?.try_into().ok()?))
    }

    pub(crate) fn u32(self, wanted: u16) -> Option<u32> {
        Some(u32::from_be_bytes(self.get(wanted)?.try_into().ok()?))
    }

    pub(crate) fn u64(self, wanted: u16) -> Option<u64> {
        Some(u64::from_be_bytes(self.get(wanted)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_everything_is_aligned() {
        let mut bytes = Vec::new();
        let mut writer = Writer(&mut bytes);
        writer.text(1, "ab");
        writer.nested(2, |inner| inner.u32(7, 0x0102_0304));
        writer.u8(3, 9);
        assert_eq!(bytes.len(), 8 + 12 + 8);
        let attributes = Attributes(&bytes);
        assert_eq!(attributes.text(1).as_deref(), Some("ab"));
        assert_eq!(attributes.nested(2).u32(7), Some(0x0102_0304));
        assert_eq!(attributes.u8(3), Some(9));
        assert_eq!(attributes.get(4), None);
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_list() {
        for bytes in [&[9, 0, 1, 0, 5][..], &[3, 0, 1, 0], &[0, 0], &[4, 0, 1, 0, 0, 0, 0, 0]] {
            assert!(Attributes(bytes).count() <= 1, "{bytes:?}");
        }
    }
}
