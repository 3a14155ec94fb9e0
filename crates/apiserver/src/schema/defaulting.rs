//! Filling in the defaults of a schema.

use serde_json::{Map, Value};

use super::structural::Schema;

impl Schema {
    /// Removes fields that are null where no null is allowed and no default takes their place.
    pub(crate) fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| !self.field(name).is_some_and(|schema| schema.drops(value)));
                for (name, value) in fields {
                    self.field(name).into_iter().for_each(|schema| schema.drop_nulls(value));
                }
            }
            // Elements keep their place, so a null without a default stays (and is rejected by validation).
            Value::Array(items) => {
                let schema = self.items.iter();
                schema.for_each(|schema| items.iter_mut().for_each(|item| schema.drop_nulls(item)));
            }
            _ => {}
        }
    }

    /// Applies defaults, also where there is a null and none is allowed.
    pub(crate) fn default(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.default_fields(fields),
            Value::Array(items) => self.default_items(items),
            _ => {}
        }
    }

    fn default_fields(&self, fields: &mut Map<String, Value>) {
        for (name, schema) in &self.properties {
            let Some(default) = &schema.default else { continue };
            let absent = fields.get(name).is_none_or(|value| schema.refuses(value));
            if absent {
                fields.insert(name.clone(), default.clone());
            }
        }
        for (name, value) in fields {
            let Some(schema) = self.field(name) else { continue };
            schema.replace_null(value);
            schema.default(value);
        }
    }

    fn default_items(&self, items: &mut [Value]) {
        let Some(schema) = &self.items else { return };
        for item in items {
            schema.replace_null(item);
            schema.default(item);
        }
    }

    fn replace_null(&self, value: &mut Value) {
        if let Some(default) = &self.default
            && self.refuses(value)
        {
            *value = default.clone();
        }
    }

    fn refuses(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    fn drops(&self, value: &Value) -> bool {
        self.refuses(value) && self.default.is_none()
    }
}
