//! The `format` keyword: the formats that an API server checks, with its idea of each.
//!
//! Formats it does not know are ignored, and so are formats on a type they do not belong to.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::names::is_label;
use super::structural::Type;

#[derive(Clone, Debug)]
pub(super) enum Format {
    Int32,
    Int64,
    Float,
    Double,
    /// A format of strings, with its name as the schema spells it.
    Text(String, fn(&str) -> bool),
}

impl Format {
    pub(super) fn parse(name: &str, types: &[Type]) -> Option<Self> {
        match (types, name) {
            ([Type::Integer], "int32") => Some(Self::Int32),
            ([Type::Integer], "int64") => Some(Self::Int64),
            ([Type::Number], "float") => Some(Self::Float),
            ([Type::Number], "double") => Some(Self::Double),
            ([Type::Object | Type::Array | Type::Boolean | Type::Integer | Type::Number], _) => None,
            _ => Some(Self::Text(name.to_owned(), check_for(&name.replace('-', ""))?)),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::Text(name, _) => name,
        }
    }

    pub(super) fn is_textual(&self) -> bool {
        matches!(self, Self::Text(..))
    }

    pub(super) fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Text(_, check) => check(text),
            Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
        }
    }
}

fn check_for(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name {
        "bsonobjectid" => |text| text.len() == 24 && is_hex(text),
        "uri" => super::address::is_uri,
        "email" => super::address::is_email,
        "hostname" => super::address::is_hostname,
        "ipv4" => is_ipv4,
        "ipv6" => is_ipv6,
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some('3')),
        "uuid4" => |text| is_uuid(text, Some('4')),
        "uuid5" => |text| is_uuid(text, Some('5')),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && SSN.is_match(text),
        "hexcolor" => is_hex_color,
        "rgbcolor" => |text| RGB.is_match(text),
        "byte" => is_base64,
        "password" => |_| true,
        "date" => super::moment::is_date,
        "duration" => super::moment::is_duration,
        "datetime" => super::moment::is_date_time,
        "k8sshortname" => |text| text.len() <= 63 && is_label(text),
        "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_label),
        _ => return None,
    })
}

/// Compiles a pattern of this module.
pub(super) fn known(pattern: &str) -> Regex {
    Regex::new(pattern).expect("patterns of known formats are valid")
}

static SSN: LazyLock<Regex> = LazyLock::new(|| known("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    known(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static CARD: LazyLock<Regex> = LazyLock::new(|| {
    known(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}\
         |3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Leading zeros in decimal parts are tolerated, as by old versions of Go.
fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (sloppy_ipv4(text).is_some() || text.parse::<Ipv6Addr>().is_ok())
}

fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part =
            parts.next().filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))?;
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|error| if is_zero(part) { Ok(0) } else { Err(error) })
            .ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn is_zero(digits: &str) -> bool {
    digits.bytes().all(|byte| byte == b'0')
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match (sloppy_ipv4(address), is_ipv6(address)) {
        (Some(_), _) => 32,
        (None, true) => 128,
        (None, false) => return false,
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    digits && length.trim_start_matches('0').parse::<u16>().map_or(is_zero(length), |length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.find([':', '-', '.']) {
        Some(at) if text.as_bytes()[at] == b'.' => ('.', 4),
        Some(at) => (char::from(text.as_bytes()[at]), 2),
        None => return false,
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let octets = groups.len() * width / 2;
    [6, 8, 20].contains(&octets) && groups.iter().all(|group| group.len() == width && is_hex(group))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    static UUID: LazyLock<Regex> = LazyLock::new(|| {
        known(
            "^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?([0-9A-Fa-f])[0-9A-Fa-f]{3}-?([0-9A-Fa-f])[0-9A-Fa-f]{3}-?[0-9A-Fa-f]{12}$",
        )
    });
    let Some(parts) = UUID.captures(text) else { return false };
    let Some(version) = version else { return true };
    let variant = parts[2].to_ascii_lowercase();
    parts[1].starts_with(version) && (version == '3' || "89ab".contains(&variant))
}

fn without_spacing(text: &str) -> Vec<char> {
    text.chars().filter(|char| !matches!(char, '-' | ' ' | '\t' | '\n' | '\r' | '\u{c}')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let chars = without_spacing(text);
    let digits: Option<Vec<u32>> = chars
        .iter()
        .enumerate()
        .map(|(i, char)| if i == 9 && *char == 'X' { Some(10) } else { char.to_digit(10) })
        .collect();
    digits.is_some_and(|digits| digits.len() == 10 && weigh(&digits, |i| i + 1).is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = without_spacing(text).iter().map(|char| char.to_digit(10)).collect();
    digits.is_some_and(|digits| digits.len() == 13 && weigh(&digits, |i| 1 + i % 2 * 2).is_multiple_of(10))
}

fn weigh(digits: &[u32], weight: fn(u32) -> u32) -> u32 {
    (0..).zip(digits).map(|(i, digit)| weight(i) * digit).sum()
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CARD.is_match(&digits) {
        return false;
    }
    let doubled = digits
        .chars()
        .rev()
        .filter_map(|char| char.to_digit(10))
        .enumerate()
        .map(|(i, digit)| if i % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 });
    doubled.sum::<u32>().is_multiple_of(10)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

/// Padded base64 with the standard alphabet; the empty string does not count.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let alphabet = body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/');
    alphabet && padding <= 2 && !body.is_empty() && text.len().is_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, good: &[&str], bad: &[&str]) {
        let format = Format::parse(name, &[Type::String]).expect("known format");
        for text in good {
            assert!(format.accepts(text), "{name} must accept {text:?}");
        }
        for text in bad {
            assert!(!format.accepts(text), "{name} must refuse {text:?}");
        }
    }

    #[test]
    fn known_formats_accept_and_refuse_what_the_api_server_does() {
        check(
            "bsonobjectid",
            &["507f1f77bcf86cd799439011"],
            &["", "507f1f77bcf86cd79943901", "z07f1f77bcf86cd799439011"],
        );
        check(
            "uri",
            &["http://a.b/c?d", "/path", "mailto:x@y", "https://[::1]:80/"],
            &["", "a/b", "http://a b/", "://x"],
        );
        check("email", &["a@b.c", "A B <a@b.c>", "\"x y\"@b"], &["", "a", "a@", "@b", "a@b..c", "a b@c"]);
        check(
            "hostname",
            &["a", "a.bc", "my-host.example.com", "a-b"],
            &["", "-a.com", "a.b", "my-host", "a..com"],
        );
        check("ipv4", &["1.2.3.4", "010.2.3.4", "::ffff:1.2.3.4"], &["", "1.2.3", "1.2.3.256", "::1"]);
        check("ipv6", &["::1", "2001:db8::1"], &["", "1.2.3.4", ":::", "fe80::1%eth0"]);
        check(
            "cidr",
            &["10.0.0.0/8", "10.0.0.1/08", "::/0", "fd00::/64"],
            &["10.0.0.0", "10.0.0.0/33", "::/129", "a/8", "10.0.0.0/"],
        );
        check(
            "mac",
            &["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab"],
            &["", "01:23:45:67:89", "01:23-45:67:89:ab"],
        );
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
            &["", "123e4567"],
        );
        check("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]);
        check("isbn", &["0321751043", "978-0321751041"], &["0321751044", "", "978-0321751042"]);
        check("creditcard", &["4111 1111 1111 1111"], &["4111111111111112", ""]);
        check("ssn", &["123-45-6789"], &["123456789", "123-45-678x"]);
        check("hexcolor", &["#fff", "FFFFFF"], &["#ffff", "", "#ggg"]);
        check("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2,256)", "1,2,3"]);
        check("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ=", "YQ", "Y-==", "===="]);
        check("password", &["", "x"], &[]);
        check("k8s-short-name", &["a", "a-1"], &["", "-a", "A", "a.b"]);
        check("k8s-long-name", &["a.b-c"], &["", "a..b", "A.b"]);
    }

    #[test]
    fn formats_count_only_where_they_belong() {
        assert!(Format::parse("made-up", &[Type::String]).is_none());
        assert!(Format::parse("date", &[Type::Integer]).is_none());
        assert!(Format::parse("int32", &[Type::String]).is_none());
        assert!(matches!(Format::parse("int32", &[Type::Integer]), Some(Format::Int32)));
        assert!(Format::parse("date-time", &[]).is_some_and(|format| format.name() == "date-time"));
    }
}
