//! What is wrong with an object, field by field, in the words a Kubernetes API server uses.
//!
//! Clients parse these: `kubectl` prints the causes, controllers branch on the cause's reason.

use std::fmt;

use serde_json::{Value, json};

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldError {
    /// A path such as `spec.ports[0].name` or `metadata.labels`.
    pub(crate) field: String,
    pub(crate) problem: Problem,
    /// A sentence for people; may be empty.
    pub(crate) detail: String,
}

/// The kind of mistake, with the offending value where the API shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Problem {
    Required,
    Invalid(Value),
    /// A value that is not among the supported ones; the detail lists them.
    NotSupported(Value),
    Duplicate(Value),
    /// The same for a value that is shown as this text: that of a struct, whose fields have an order.
    DuplicateStruct(String),
    Forbidden,
    TooLong(usize),
    TooMany {
        actual: usize,
        most: usize,
    },
    TypeInvalid(Value),
    Internal,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, problem: Problem, detail: impl Into<String>) -> Self {
        Self { field: field.into(), problem, detail: detail.into() }
    }

    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Problem::Required, detail)
    }

    pub(crate) fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(field, Problem::Invalid(value.into()), detail)
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Problem::Forbidden, detail)
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, Problem::Duplicate(value.into()), "")
    }

    /// `value` is none of `supported`; lists them sorted and quoted, as the API server does.
    pub(crate) fn not_supported(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let mut names: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
        names.sort();
        let detail = format!("supported values: {}", names.join(", "));
        Self::new(field, Problem::NotSupported(value.into()), detail)
    }

    /// The machine-readable reason in `status.details.causes[].reason`.
    pub(crate) fn reason(&self) -> &'static str {
        match self.problem {
            Problem::Required => "FieldValueRequired",
            Problem::Invalid(_) => "FieldValueInvalid",
            Problem::NotSupported(_) => "FieldValueNotSupported",
            Problem::Duplicate(_) | Problem::DuplicateStruct(_) => "FieldValueDuplicate",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::TooLong(_) => "FieldValueTooLong",
            Problem::TooMany { .. } => "FieldValueTooMany",
            Problem::TypeInvalid(_) => "FieldValueTypeInvalid",
            Problem::Internal => "InternalError",
        }
    }

    /// The message without the field, as it stands in a cause.
    pub(crate) fn message(&self) -> String {
        let head = match &self.problem {
            Problem::Required => "Required value".to_owned(),
            Problem::Invalid(value) => format!("Invalid value: {}", shown(value)),
            Problem::NotSupported(value) => format!("Unsupported value: {}", shown(value)),
            Problem::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            Problem::DuplicateStruct(text) => format!("Duplicate value: {text}"),
            Problem::Forbidden => "Forbidden".to_owned(),
            Problem::TooLong(most) => {
                return format!("Too long: may not be more than {most} {}", plural(*most, "byte"));
            }
            Problem::TooMany { actual, most } => {
                return format!("Too many: {actual}: must have at most {most} {}", plural(*most, "item"));
            }
            Problem::TypeInvalid(value) => format!("Invalid value: {}", shown(value)),
            Problem::Internal => "Internal error".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }

    /// This error as an element of `status.details.causes`.
    pub(crate) fn cause(&self) -> Value {
        json!({"reason": self.reason(), "message": self.message(), "field": self.field})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            return out.write_str(&self.message());
        }
        write!(out, "{}: {}", self.field, self.message())
    }
}

/// Several errors in one sentence, each of them once: alone as it is, otherwise in brackets.
pub(crate) fn summary(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors.iter().map(ToString::to_string) {
        if !texts.contains(&error) {
            texts.push(error);
        }
    }
    match texts.as_slice() {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_the_api_server_writes_them() {
        let cases = [
            (FieldError::required("spec.ports", ""), "spec.ports: Required value"),
            (
                FieldError::invalid("spec.ports[0].port", 0, "must be between 1 and 65535, inclusive"),
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
            (
                FieldError::not_supported("spec.type", "X", &["NodePort", "ClusterIP"]),
                r#"spec.type: Unsupported value: "X": supported values: "ClusterIP", "NodePort""#,
            ),
            (FieldError::duplicate("spec.ports[1].name", "a"), r#"spec.ports[1].name: Duplicate value: "a""#),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
