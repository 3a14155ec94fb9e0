//! What Kubernetes accepts as a name, a label and an annotation.
//!
//! Offers come from other clusters. A label the local API server would refuse must not keep the whole import from being
//! written, so it is recognised here first.

/// The longest DNS label, label value and Service name.
pub(crate) const LABEL_LIMIT: usize = 63;
/// The longest DNS subdomain, which most object names are.
pub(crate) const SUBDOMAIN_LIMIT: usize = 253;
/// The room all annotations of an object share, keys included.
pub(crate) const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// RFC 1123: lower case letters, digits and inner dashes, at most 63.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= LABEL_LIMIT
        && text.bytes().all(inner)
        && !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// DNS labels joined by dots, at most 253 characters.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_LIMIT && text.split('.').all(is_dns_label)
}

/// A key of a label or, if it is in lower case, of an annotation: `[prefix/]name`.
pub(crate) fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_qualified_part(name),
        None => is_qualified_part(key),
    }
}

/// The value of a label: empty, or like the last part of its key.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_qualified_part(value)
}

fn is_qualified_part(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_alphanumeric();
    let inner = |byte: u8| edge(byte) || matches!(byte, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    bytes.len() <= LABEL_LIMIT
        && bytes.iter().copied().all(inner)
        && bytes.first().copied().is_some_and(edge)
        && bytes.last().copied().is_some_and(edge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_told_from_what_the_server_would_refuse() {
        let long = "a".repeat(64);
        for good in ["a", "a-b", "0", &long[..63]] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", &long] {
            assert!(!is_dns_label(bad), "{bad}");
        }
        for good in ["app", "example.com/App_1.x", "a/b"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Example.com/a", "-a", "a b", &long] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
        assert!(is_label_value("") && is_label_value("v1.2_3-X"));
        assert!(!is_label_value("a b") && !is_label_value(&long) && !is_label_value("-"));
    }
}
