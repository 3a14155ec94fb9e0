//! The oldest Kubernetes that we ask for takes all definitions, and everybody is told the same one.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tombolo_api::crd::{OLDEST_KUBERNETES, crds};

/// What rules call, and the first Kubernetes that takes it in a new definition: the one after that which brought it (CEL in
/// Kubernetes, "CEL options, language features, and libraries"). Those of the language and of the first libraries came
/// with rules by default.
const FUNCTIONS: [(&str, (u32, u32)); 15] = [
    ("all", (1, 25)),
    ("exists", (1, 25)),
    ("exists_one", (1, 25)),
    ("filter", (1, 25)),
    ("has", (1, 25)),
    ("map", (1, 25)),
    ("matches", (1, 25)),
    ("size", (1, 25)),
    ("split", (1, 25)),
    ("startsWith", (1, 25)),
    ("cidr", (1, 31)),
    ("family", (1, 31)),
    ("ip", (1, 31)),
    ("isCIDR", (1, 31)),
    ("isIP", (1, 31)),
];

/// All rules anywhere in a schema.
fn rules(value: &Value) -> Vec<&str> {
    let own = value["x-kubernetes-validations"].as_array().into_iter().flatten();
    let own = own.filter_map(|one| one["rule"].as_str());
    let inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    };
    own.chain(inner.flat_map(rules)).collect()
}

/// The words before opening brackets, outside of quoted text.
fn called(rule: &str) -> BTreeSet<String> {
    let code: String = rule.split(['\'', '"']).step_by(2).collect::<Vec<_>>().join("\"");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices('(') {
        let word =
            code[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        found.insert(word.to_owned());
    }
    found.remove("");
    found
}

#[test]
fn no_rule_calls_what_the_oldest_kubernetes_does_not_know() {
    let definitions: Vec<Value> = crds().iter().map(|one| serde_json::to_value(one).unwrap()).collect();
    let rules: Vec<&str> = definitions.iter().flat_map(rules).collect();
    assert!(rules.iter().any(|rule| called(rule).contains("isCIDR")), "the rules are looked at: {rules:?}");
    for rule in rules {
        for word in called(rule) {
            let known = FUNCTIONS.iter().find(|(function, _)| *function == word);
            let (_, since) = known.unwrap_or_else(|| panic!("say here since when there is {word}: {rule}"));
            assert!(*since <= OLDEST_KUBERNETES, "{word} needs Kubernetes {since:?}: {rule}");
        }
    }
}

#[test]
fn the_documentation_names_the_oldest_kubernetes() {
    let (major, minor) = OLDEST_KUBERNETES;
    let read = |path: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
    };
    for path in ["docs/install.md", "docs/cli.md"] {
        assert!(read(path).contains(&format!("{major}.{minor} or later")), "{path}");
    }
    assert!(read("docs/install.md").contains(&format!("Kubernetes before {major}.{minor},")));
}
