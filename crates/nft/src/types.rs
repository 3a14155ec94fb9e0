//! Types of keys and data, as `nft` names them.
//!
//! The kernel only knows lengths. The types are what lets `nft list ruleset` print a key as `10.0.0.1 . tcp . 80`.

/// How many bits a type takes in the number of a concatenation.
const BITS: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Ipv4,
    Ipv6,
    /// A transport protocol.
    Protocol,
    /// A port.
    Port,
    /// 32 bits in the byte order of the host.
    Mark,
}

impl Type {
    /// The number `nft` gives it.
    const fn number(self) -> u32 {
        match self {
            Type::Ipv4 => 7,
            Type::Ipv6 => 8,
            Type::Protocol => 12,
            Type::Port => 13,
            Type::Mark => 19,
        }
    }

    pub(crate) const fn length(self) -> u32 {
        match self {
            Type::Ipv4 | Type::Mark => 4,
            Type::Ipv6 => 16,
            Type::Protocol => 1,
            Type::Port => 2,
        }
    }

    /// What it takes in a concatenation: whole registers.
    const fn padded(self) -> u32 {
        self.length().next_multiple_of(4)
    }
}

/// The number of a type, or of several one after the other.
pub(crate) fn number(types: &[Type]) -> u32 {
    types.iter().fold(0, |sum, kind| (sum << BITS) | kind.number())
}

/// The length of a type, or of several one after the other.
pub(crate) fn length(types: &[Type]) -> u32 {
    match types {
        [only] => only.length(),
        several => several.iter().map(|kind| kind.padded()).sum(),
    }
}

/// Bytes of several fields, each filling whole registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<u8>);

impl Fields {
    pub fn new() -> Self {
        // Most keys fit: one allocation each.
        Self(Vec::with_capacity(32))
    }

    pub fn with(mut self, field: &[u8]) -> Self {
        self.0.extend_from_slice(field);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub fn with_address(self, address: std::net::IpAddr) -> Self {
        match address {
            std::net::IpAddr::V4(address) => self.with(&address.octets()),
            std::net::IpAddr::V6(address) => self.with(&address.octets()),
        }
    }

    pub fn with_port(self, port: u16) -> Self {
        self.with(&port.to_be_bytes())
    }

    /// A number in the byte order of the host.
    pub fn with_mark(self, mark: u32) -> Self {
        self.with(&mark.to_ne_bytes())
    }

    pub fn bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concatenation_has_the_number_and_length_nft_gives_it() {
        let key = [Type::Ipv4, Type::Protocol, Type::Port];
        assert_eq!(number(&key), (7 << 12) | (12 << 6) | 13);
        assert_eq!((length(&key), length(&[Type::Port]), length(&[Type::Ipv6, Type::Port])), (12, 2, 20));
    }

    #[test]
    fn fields_fill_whole_registers() {
        let key = Fields::new().with_address("10.0.0.1".parse().unwrap()).with(&[6]).with_port(80);
        assert_eq!(key.bytes(), [10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0]);
    }
}
