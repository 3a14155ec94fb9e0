//! Strings that stand for places: URIs, e-mail addresses and host names.

use std::sync::LazyLock;

use regex::Regex;

use super::format::known;

/// A URI as it may stand in a request: absolute, or a path from the root.
pub(super) fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        return text == "*" || scheme;
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) if scheme || !rest.starts_with('/') => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        _ => ("", rest),
    };
    is_authority(authority) && escapes_are_whole(path)
}

/// Whether the text has a scheme, and what follows it; `None` where a colon comes too early.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (at, char) in text.char_indices() {
        match char {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at > 0 => return Some((true, &text[at + 1..])),
            ':' => return None,
            _ => break,
        }
    }
    Some((false, text))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user_ok =
        user.chars().all(|char| char.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(char));
    let (host, port) = match host.rfind(']') {
        Some(end) if host.starts_with('[') => host.split_at(end + 1),
        Some(_) => return false,
        None => host.rfind(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let port_ok = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let host_ok = host.chars().all(|char| !char.is_ascii() || is_host_char(char));
    user_ok && port_ok && host_ok && escapes_are_whole(host) && escapes_are_whole(user)
}

fn is_host_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(char)
}

fn escapes_are_whole(text: &str) -> bool {
    let hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let mut escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    escapes.all(|(at, _)| hex(bytes.get(at + 1)) && hex(bytes.get(at + 2)))
}

/// One address of RFC 5322, alone or in angle brackets after a name.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((name, address)) if is_phrase(name.trim_matches([' ', '\t'])) => address,
            _ => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    (is_dot_atom(local) || is_quoted(local)) && is_dot_atom(domain)
}

fn is_phrase(name: &str) -> bool {
    is_quoted(name)
        || name
            .split([' ', '\t'])
            .all(|word| word.is_empty() || word.chars().all(|char| char == '.' || is_atom_char(char)))
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || !char.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(char)
}

fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| {
        !inner.is_empty() && !inner.contains(['"', '\\']) && !inner.contains(char::is_control)
    })
}

/// A host name: several labels with a top-level domain of letters, or a single label with at most an early dash.
pub(super) fn is_hostname(text: &str) -> bool {
    let short = text.len() <= 255 && text.split('.').all(|label| label.len() <= 63);
    short && (is_lone_label(text) || is_domain(text))
}

fn is_lone_label(text: &str) -> bool {
    static LABEL: LazyLock<Regex> =
        LazyLock::new(|| known(r"^[a-zA-Z0-9\p{S}\p{L}]-?[a-zA-Z0-9\p{S}\p{L}]*$"));
    LABEL.is_match(text)
}

fn is_domain(text: &str) -> bool {
    static LABEL: LazyLock<Regex> =
        LazyLock::new(|| known(r"^[a-zA-Z0-9\p{S}\p{L}]([-a-zA-Z0-9\p{S}\p{L}]*[a-zA-Z0-9\p{S}\p{L}])?$"));
    static TOP: LazyLock<Regex> = LazyLock::new(|| known(r"^\p{L}{2,63}$"));
    text.rsplit_once('.')
        .is_some_and(|(labels, top)| TOP.is_match(top) && labels.split('.').all(|l| LABEL.is_match(l)))
}
