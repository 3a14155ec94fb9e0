//! Which of the names that a CustomResourceDefinition asks for it gets: those that no other of its group has. Pure.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::object;

/// What became of the names of a definition.
pub(super) struct Verdict {
    /// The names it has now: of those that are taken, the ones it had before.
    pub(super) accepted: Value,
    /// The last conflict, as reason and message of a condition.
    pub(super) conflict: Option<(&'static str, String)>,
}

/// Looks for names of `definition` among those that `others` have been given.
pub(super) fn accept<'a>(definition: &Value, others: impl Iterator<Item = &'a Value>) -> Verdict {
    let group = object::text(definition, &["spec", "group"]).unwrap_or_default();
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in others.filter(|other| object::text(other, &["spec", "group"]) == Some(group)) {
        let Some(names) = object::at(other, &["status", "acceptedNames"]) else { continue };
        resources.extend(["plural", "singular"].iter().filter_map(|field| names[*field].as_str()));
        resources.extend(short_names(names));
        kinds.extend(["kind", "listKind"].iter().filter_map(|field| names[*field].as_str()));
    }
    let nothing = json!({});
    let asked = object::at(definition, &["spec", "names"]).unwrap_or(&nothing);
    let had = object::at(definition, &["status", "acceptedNames"]).unwrap_or(&nothing);
    let mut verdict = Verdict { accepted: had.clone(), conflict: None };
    let taken = |name: &str| format!("{name:?} is already in use");
    let single = |verdict: &mut Verdict, field: &str, used: &BTreeSet<&str>, reason: &'static str| {
        let name = asked[field].as_str().unwrap_or_default();
        if asked[field] != had[field] && used.contains(name) {
            verdict.conflict = Some((reason, taken(name)));
        } else {
            put(&mut verdict.accepted, field, &asked[field]);
        }
    };
    single(&mut verdict, "plural", &resources, "PluralConflict");
    single(&mut verdict, "singular", &resources, "SingularConflict");
    let own: BTreeSet<&str> = short_names(had).collect();
    let conflicts: Vec<String> = short_names(asked)
        .filter(|name| !own.contains(name) && resources.contains(name))
        .map(taken)
        .collect();
    match conflicts.as_slice() {
        [] => put(&mut verdict.accepted, "shortNames", &asked["shortNames"]),
        [only] => verdict.conflict = Some(("ShortNamesConflict", only.clone())),
        many => verdict.conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    single(&mut verdict, "kind", &kinds, "KindConflict");
    single(&mut verdict, "listKind", &kinds, "ListKindConflict");
    put(&mut verdict.accepted, "categories", &asked["categories"]);
    // A definition that got none of its names shows empty ones all the same.
    for field in ["plural", "kind"] {
        object::fields(&mut verdict.accepted).entry(field).or_insert_with(|| "".into());
    }
    verdict
}

fn short_names(names: &Value) -> impl Iterator<Item = &str> {
    names.get("shortNames").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn put(names: &mut Value, field: &str, value: &Value) {
    let names = object::fields(names);
    if value.is_null() {
        names.remove(field);
    } else {
        names.insert(field.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(group: &str, names: Value, accepted: Value) -> Value {
        json!({"spec": {"group": group, "names": names}, "status": {"acceptedNames": accepted}})
    }

    fn names(word: &str, short: &[&str]) -> Value {
        json!({"plural": format!("{word}s"), "singular": word, "kind": word, "listKind": format!("{word}List"),
            "shortNames": short})
    }

    #[test]
    fn a_name_is_given_to_the_first_of_a_group_that_asks_for_it() {
        let first = definition("a", names("one", &["o", "w"]), names("one", &["o", "w"]));
        let cases = [
            (definition("a", names("two", &["t"]), json!({})), None),
            (definition("b", names("one", &["o"]), json!({})), None),
            (
                definition("a", names("two", &["o", "w"]), json!({})),
                Some(("ShortNamesConflict", "[\"o\" is already in use, \"w\" is already in use]")),
            ),
            (
                definition("a", names("two", &["o"]), names("two", &["o"])),
                None, // it had it before
            ),
        ];
        for (asking, expected) in cases {
            let verdict = accept(&asking, [&first].into_iter());
            let found = verdict.conflict.as_ref().map(|(reason, message)| (*reason, message.as_str()));
            assert_eq!(found, expected, "{asking}");
            assert_eq!(verdict.accepted["kind"], asking["spec"]["names"]["kind"]);
        }
        let mut asking = definition("a", names("two", &[]), json!({}));
        asking["spec"]["names"]["kind"] = "one".into();
        let verdict = accept(&asking, [&first].into_iter());
        assert_eq!(verdict.conflict, Some(("KindConflict", "\"one\" is already in use".to_owned())));
        assert_eq!((&verdict.accepted["plural"], &verdict.accepted["kind"]), (&json!("twos"), &json!("")));
    }
}
