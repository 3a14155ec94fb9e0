//! Secrets: ConfigMaps in base64, with types that promise certain keys.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::{config_map, field, metadata, names, unchanged};
use crate::invalid::{FieldError, Problem};

const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";

/// Gives a Secret its type and moves `stringData` into `data`, where it wins.
pub(crate) fn default(secret: &mut Value) {
    field::fill(secret, "type", "Opaque");
    let Some(Value::Object(texts)) = field::remove(secret, "stringData") else { return };
    let Some(data) = field::section(secret, "data") else { return };
    for (key, text) in texts {
        data.insert(key, BASE64_STANDARD.encode(text.as_str().unwrap_or_default()).into());
    }
    if data.is_empty() {
        field::remove(secret, "data");
    }
}

/// Everything that is wrong with a Secret. Metadata is judged elsewhere.
pub(crate) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    if let Some(old) = old {
        wrong.extend(unchanged(new, old, "type"));
        wrong.extend(config_map::sealed(new, old, &["data"]));
    }
    let mut bytes = 0;
    for (key, value) in field::members(new, "data") {
        wrong.extend(metadata::complaints(&format!("data[{key}]"), key, names::config_key(key)));
        bytes += config_map::decoded_length(value.as_str().map_or(0, str::len));
    }
    if bytes > config_map::MOST_BYTES {
        wrong.push(FieldError::new("data", Problem::TooLong(config_map::MOST_BYTES), ""));
    }
    wrong.extend(promised(new));
    wrong
}

/// The keys that the type of a Secret promises.
fn promised(secret: &Value) -> Vec<FieldError> {
    let has = |key: &str| {
        secret.get("data").is_some_and(|data| data.get(key).is_some_and(|value| !value.is_null()))
    };
    let required = |key: &str| FieldError::required(format!("data[{key}]"), "");
    let missing = |keys: &[&str]| keys.iter().filter(|key| !has(key)).map(|key| required(key)).collect();
    match field::text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let account = field::member(secret, "metadata.annotations", ACCOUNT_ANNOTATION);
            match account.unwrap_or_default() {
                "" => vec![FieldError::required(format!("metadata.annotations[{ACCOUNT_ANNOTATION}]"), "")],
                _ => Vec::new(),
            }
        }
        "kubernetes.io/dockercfg" => missing(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => missing(&[".dockerconfigjson"]),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            missing(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" => missing(&["ssh-privatekey"]),
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_texts_become_data_and_win_over_it() {
        let mut secret = json!({"data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new"}});
        default(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "bmV3", "b": "Yg=="}}));
    }

    #[test]
    fn each_mistake_is_named_where_it_is() {
        let opaque = json!({"type": "Opaque"});
        let cases = [
            (json!({"type": "Opaque", "data": {"a": "Yg=="}}), None, vec![]),
            (
                json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
                None,
                vec!["data[tls.key]: Required value"],
            ),
            (
                json!({"type": "kubernetes.io/service-account-token"}),
                None,
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
            (
                json!({"type": "kubernetes.io/basic-auth", "data": {"username": ""}}),
                Some(&opaque),
                vec!["type: Invalid value: \"kubernetes.io/basic-auth\": field is immutable"],
            ),
        ];
        for (new, old, expected) in cases {
            let wrong: Vec<_> = validate(&new, old).iter().map(ToString::to_string).collect();
            assert_eq!(wrong, expected);
        }
    }
}
