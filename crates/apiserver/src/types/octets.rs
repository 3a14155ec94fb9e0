//! Bytes in JSON: base64 as Go's standard encoding accepts it.
//!
//! Line breaks anywhere and stray bits behind the last byte are fine; anything else is refused with the offset that Go
//! reports.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The bytes of a base64 text, or Go's words for what is wrong with it.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    Decoder { text: text.as_bytes(), at: 0 }
        .run()
        .map_err(|at| format!("illegal base64 data at input byte {at}"))
}

/// The form in which Go writes the bytes again.
pub(super) fn canonical(text: &str) -> Option<String> {
    decode(text).ok().map(|bytes| STANDARD.encode(bytes))
}

struct Decoder<'a> {
    text: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn run(&mut self) -> Result<Vec<u8>, usize> {
        let mut bytes = Vec::with_capacity(self.text.len() / 4 * 3 + 3);
        while let Some((bits, symbols)) = self.quantum()? {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..symbols]);
        }
        Ok(bytes)
    }

    /// Four symbols as 24 bits, and how many of them were not padding.
    fn quantum(&mut self) -> Result<Option<(u32, usize)>, usize> {
        let mut bits = 0;
        for symbols in 0..4 {
            let Some(symbol) = self.next() else {
                return if symbols == 0 { Ok(None) } else { Err(self.text.len() - symbols) };
            };
            match value_of(symbol) {
                Some(value) => bits |= u32::from(value) << (18 - 6 * symbols),
                None if symbol == b'=' => return self.padding(symbols).map(|()| Some((bits, symbols))),
                None => return Err(self.at - 1),
            }
        }
        Ok(Some((bits, 4)))
    }

    /// Checks what follows the first `=` of a text, which must be its end.
    fn padding(&mut self, symbols: usize) -> Result<(), usize> {
        if symbols < 2 {
            return Err(self.at - 1);
        }
        if symbols == 2 {
            match self.next() {
                Some(b'=') => {}
                Some(_) => return Err(self.at - 2),
                None => return Err(self.text.len()),
            }
        }
        match self.next() {
            Some(_) => Err(self.at - 1),
            None => Ok(()),
        }
    }

    /// The next byte that is not a line break.
    fn next(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            if !matches!(byte, b'\r' | b'\n') {
                return Some(*byte);
            }
        }
        None
    }
}

fn value_of(symbol: u8) -> Option<u8> {
    match symbol {
        b'A'..=b'Z' => Some(symbol - b'A'),
        b'a'..=b'z' => Some(symbol - b'a' + 26),
        b'0'..=b'9' => Some(symbol - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_encoder_writes_is_read_back() {
        for length in 0..9u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(71)).collect();
            assert_eq!(decode(&STANDARD.encode(&bytes)), Ok(bytes));
        }
    }

    #[test]
    fn line_breaks_and_stray_bits_disappear() {
        assert_eq!(canonical("Zm9v\r\nYg=\n="), Some("Zm9vYg==".to_owned()));
        assert_eq!(canonical("Zm9="), Some("Zm8=".to_owned()));
    }
}
