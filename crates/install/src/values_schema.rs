//! Which values the chart knows, as a schema that Helm checks before it renders: a key that is mistyped, or a part that is called
//! otherwise here, would be an empty release that succeeds. Derived from the values themselves, so that it cannot lack one.

use serde_json::{Map, Value, json};

/// Whose keys are the cluster's or its administrator's business.
const FREE: [&str; 2] = ["resources", "labels"];

/// The schema, as a file.
pub(crate) fn of(values: &str) -> String {
    let values: Value = serde_saphyr::from_str(values).expect("the chart's own values are YAML");
    let mut schema = describe("", &values);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    // Where this chart is part of another one, Helm passes on what is for all charts.
    schema["properties"]["global"] = json!({"type": "object"});
    format!("{schema:#}\n")
}

fn describe(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(_) if FREE.contains(&key) => json!({"type": "object"}),
        Value::Object(fields) => {
            let properties = fields.iter().map(|(key, value)| (key.clone(), describe(key, value)));
            let properties: Map<String, Value> = properties.collect();
            json!({"type": "object", "additionalProperties": false, "properties": properties})
        }
        Value::Array(_) => json!({"type": "array"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "integer"}),
        // `--set` makes a number of what looks like one: a port, or a tag.
        _ => json!({"type": ["string", "number"]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_values_have_is_known_and_amounts_and_labels_are_free() {
        let schema =
            of("dns: {enabled: false, resources: {limits: {}}, clusterIP: ''}\nreplicas: 2\nlist: []\n");
        let schema: Value = serde_json::from_str(&schema).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        let dns = &schema["properties"]["dns"];
        assert_eq!(
            (&dns["additionalProperties"], &dns["properties"]["enabled"]["type"]),
            (&json!(false), &json!("boolean"))
        );
        assert_eq!(dns["properties"]["resources"], json!({"type": "object"}));
        assert_eq!(dns["properties"]["clusterIP"]["type"], json!(["string", "number"]));
        assert_eq!(schema["properties"]["replicas"]["type"], "integer");
        assert_eq!(schema["properties"]["list"]["type"], "array");
        assert_eq!(schema["properties"]["global"]["type"], "object");
    }
}
