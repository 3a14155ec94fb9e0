//! Which texts are names: of objects, labels, ports and keys.
//!
//! Each function returns the complaints about a text, empty when it is fine. The wording is the one of Kubernetes,
//! regular expressions included, because people search for these sentences; the checks themselves are written out.

/// The rule that the name of an object has to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Labels joined by dots: most kinds.
    Subdomain,
    /// One RFC 1123 label: namespaces.
    Label,
    /// One RFC 1035 label, which starts with a letter: services.
    Label1035,
    /// Anything that fits into a path: roles and their bindings.
    PathSegment,
}

impl NameRule {
    /// The rule for the names of a built-in kind, or of custom resources.
    pub(crate) fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            ("", "Namespace") => Self::Label,
            ("", "Service") => Self::Label1035,
            ("apps", "StatefulSet") => Self::Label,
            ("rbac.authorization.k8s.io", _) => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    /// What is wrong with `name`.
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => dns_subdomain(name),
            Self::Label => dns_label(name),
            Self::Label1035 => dns_1035_label(name),
            Self::PathSegment => path_segment(name),
        }
    }

    /// What is wrong with `prefix` as the beginning of a generated name, where it may end with a dash.
    pub(crate) fn check_prefix(self, prefix: &str) -> Vec<String> {
        if self == Self::PathSegment {
            return path_segment_prefix(prefix);
        }
        match prefix.strip_suffix('-') {
            Some(stem) if !stem.is_empty() => self.check(&format!("{}a", chop(stem))),
            _ => self.check(prefix),
        }
    }
}

/// An RFC 1123 label of at most 63 characters.
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "characters");
    if is_dns_label(text) {
        return wrong;
    }
    wrong.push(if is_dns_subdomain(text) {
        "must not contain dots".to_owned()
    } else {
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
         end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            .to_owned()
    });
    wrong
}

/// An RFC 1035 label: one that starts with a letter.
pub(crate) fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "characters");
    if !is_dns_label(text) || text.starts_with(|first: char| first.is_ascii_digit()) {
        wrong.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    wrong
}

/// Labels joined by dots, at most 253 characters.
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    subdomain(text, "characters")
}

/// A label key: a name of at most 63 bytes, optionally after a DNS subdomain and a slash.
pub(crate) fn label_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            wrong.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            wrong.extend(subdomain(prefix, "bytes").into_iter().map(|text| format!("prefix part {text}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {LABEL_KEY} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(too_long(name, 63, "bytes").into_iter().map(|text| format!("name part {text}")));
    if !is_label_name(name) {
        wrong.push(format!("name part {LABEL_KEY}"));
    }
    wrong
}

/// A label value: empty, or a name of at most 63 bytes.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "bytes");
    if !text.is_empty() && !is_label_name(text) {
        wrong.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    wrong
}

/// A name that can stand between two slashes of a path.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_segment_prefix(text),
    }
}

/// The name of a container's port: at most 15 characters, as IANA has it.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let allowed = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut wrong = too_long(text, 15, "characters");
    let complaints = [
        (
            text.is_empty() || !text.bytes().all(allowed),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!text.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    wrong.extend(complaints.iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, text)| (*text).to_owned()));
    wrong
}

/// A key of a ConfigMap or Secret, which becomes a file name.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let mut wrong = too_long(text, 253, "characters");
    if text.is_empty() || !text.bytes().all(allowed) {
        wrong.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." | ".." => wrong.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

const LABEL_KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                         validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn subdomain(text: &str, unit: &str) -> Vec<String> {
    let mut wrong = too_long(text, 253, unit);
    if !is_dns_subdomain(text) {
        wrong.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    wrong
}

fn path_segment_prefix(text: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|bad| text.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

fn too_long(text: &str, most: usize, unit: &str) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} {unit}")] } else { Vec::new() }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| inner(byte) || byte == b'-') && has_ends(text, inner)
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric();
    text.bytes().all(|byte| inner(byte) || b"-_.".contains(&byte)) && has_ends(text, inner)
}

fn has_ends(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.into_iter().all(|end| end.is_some_and(&allowed))
}

/// `text` without its last character, which a dash may hide from judgement; one that is not ASCII stays to be judged.
fn chop(text: &str) -> &str {
    text.strip_suffix(|last: char| last.is_ascii()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fine(wrong: Vec<String>) -> bool {
        wrong.is_empty()
    }

    #[test]
    fn object_names_follow_the_rule_of_their_kind() {
        let cases = [
            (NameRule::Subdomain, "a.b-c.1", true),
            (NameRule::Subdomain, "a..b", false),
            (NameRule::Subdomain, "A", false),
            (NameRule::Label, "1-a", true),
            (NameRule::Label, "a.b", false),
            (NameRule::Label1035, "a-1", true),
            (NameRule::Label1035, "1-a", false),
            (NameRule::PathSegment, "system:node:x", true),
            (NameRule::PathSegment, "a/b", false),
            (NameRule::PathSegment, "..", false),
        ];
        for (rule, name, fine) in cases {
            assert_eq!(is_fine(rule.check(name)), fine, "{rule:?} {name}");
        }
    }

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        assert!(is_fine(NameRule::Subdomain.check_prefix("web-")));
        assert!(is_fine(NameRule::PathSegment.check_prefix("..")));
        assert!(!is_fine(NameRule::Subdomain.check_prefix("-")));
        assert!(!is_fine(NameRule::Subdomain.check_prefix("Web-")));
        assert!(!is_fine(NameRule::Subdomain.check_prefix("é-")));
    }

    #[test]
    fn complaints_are_worded_as_kubernetes_words_them() {
        let cases = [
            (
                dns_subdomain("A_b"),
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
                 is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
            (dns_label("a.b"), "must not contain dots"),
            (label_key("/x"), "prefix part must be non-empty"),
            (path_segment("."), "may not be '.'"),
            (config_key("..x"), "must not start with '..'"),
            (port_name("a--b"), "must not contain consecutive hyphens"),
            (port_name("80"), "must contain at least one letter (a-z)"),
            (label_value(&"x".repeat(64)), "must be no more than 63 bytes"),
            (dns_label(&"x".repeat(64)), "must be no more than 63 characters"),
        ];
        for (wrong, expected) in cases {
            assert_eq!(wrong, [expected]);
        }
    }

    #[test]
    fn label_keys_have_at_most_one_slash() {
        assert!(is_fine(label_key("example.com/My_name.x")));
        assert!(is_fine(label_key("app")));
        assert!(!is_fine(label_key("a/b/c")));
        assert!(!is_fine(label_key("Example.com/x")));
        assert!(!is_fine(label_key("")));
        assert!(is_fine(label_value("")));
    }
}
