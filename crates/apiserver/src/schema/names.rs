//! Names that have to be valid in DNS, with the API server's explanation when they are not.

/// What is wrong with `text` as a DNS label (RFC 1035).
pub(super) fn dns_label(text: &str) -> Option<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 bytes");
    }
    if !text.starts_with(|char: char| char.is_ascii_lowercase()) || !is_label(text) {
        wrong.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    (!wrong.is_empty()).then(|| wrong.join(","))
}

/// What is wrong with `text` as a DNS name (RFC 1123).
pub(super) fn dns_subdomain(text: &str) -> Option<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 bytes");
    }
    if !text.split('.').all(is_label) {
        wrong.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
    }
    (!wrong.is_empty()).then(|| wrong.join(","))
}

/// Whether `text` is a DNS label in lower case, of any length.
pub(super) fn is_label(text: &str) -> bool {
    let inner = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    inner && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_start_with_a_letter_and_subdomains_need_not() {
        for (text, label, subdomain) in [
            ("abc-1", true, true),
            ("1a", false, true),
            ("a.b", false, true),
            ("", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("a..b", false, false),
        ] {
            assert_eq!(dns_label(text).is_none(), label, "{text}");
            assert_eq!(dns_subdomain(text).is_none(), subdomain, "{text}");
        }
        assert!(dns_label(&"a".repeat(64)).is_some_and(|wrong| wrong == "must be no more than 63 bytes"));
    }
}
