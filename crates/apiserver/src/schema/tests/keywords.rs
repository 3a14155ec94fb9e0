//! Every keyword of a schema, with the message a violation gets.

use serde_json::{Value, json};

use super::{parse, texts};

/// Checks a field `spec.x` with the given schema.
#[track_caller]
fn check(schema: Value, value: Value, expected: &[&str]) {
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}});
    let found = texts(&parse(&schema).validate(&json!({"spec": {"x": value}}), None));
    assert_eq!(found, expected, "{schema} on {value}");
}

#[test]
fn values_have_the_declared_type() {
    check(
        json!({"type": "integer"}),
        json!("a"),
        &[r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#],
    );
    check(
        json!({"type": "string"}),
        json!(1),
        &[r#"spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer""#],
    );
    check(
        json!({"type": "object"}),
        json!([]),
        &[r#"spec.x: Invalid value: "array": spec.x in body must be of type object: "array""#],
    );
    check(
        json!({"type": "boolean"}),
        json!(null),
        &[r#"spec.x: Invalid value: "null": spec.x in body must be of type boolean: "null""#],
    );
    check(json!({"type": "boolean", "nullable": true}), json!(null), &[]);
    check(json!({"type": "number"}), json!(1), &[]);
    check(json!({"type": "integer"}), json!(2.0), &[]);
    check(
        json!({"type": "string", "format": "date"}),
        json!(1),
        &[r#"spec.x: Invalid value: "int64": spec.x in body must be of type date: "int64""#],
    );
    check(json!({"x-kubernetes-int-or-string": true}), json!("80%"), &[]);
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!(true),
        &[r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#],
    );
    check(json!({"x-kubernetes-preserve-unknown-fields": true}), json!([1, {"a": null}]), &[]);
}

#[test]
fn numbers_stay_within_their_limits() {
    check(
        json!({"type": "integer", "minimum": 1}),
        json!(0),
        &["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
    );
    check(
        json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
        json!(1),
        &["spec.x: Invalid value: 1: spec.x in body should be greater than 1"],
    );
    check(
        json!({"type": "integer", "maximum": 3}),
        json!(4),
        &["spec.x: Invalid value: 4: spec.x in body should be less than or equal to 3"],
    );
    check(
        json!({"type": "number", "maximum": 2.5, "exclusiveMaximum": true}),
        json!(2.5),
        &["spec.x: Invalid value: 2.5: spec.x in body should be less than 2.5"],
    );
    check(
        json!({"type": "integer", "multipleOf": 2}),
        json!(3),
        &["spec.x: Invalid value: 3: spec.x in body should be a multiple of 2"],
    );
    check(json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[]);
    check(
        json!({"type": "integer", "format": "int32"}),
        json!(5_000_000_000_i64),
        &[r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#],
    );
    check(
        json!({"type": "number", "format": "float"}),
        json!(1e300),
        &[r#"<nil>: Invalid value: "": Checked value must be of type number with format float in spec.x"#],
    );
}

#[test]
fn strings_have_length_pattern_and_format() {
    check(
        json!({"type": "string", "minLength": 1}),
        json!(""),
        &[r#"spec.x: Invalid value: "": spec.x in body should be at least 1 chars long"#],
    );
    check(
        json!({"type": "string", "maxLength": 2}),
        json!("äöü"),
        &["spec.x: Too long: may not be more than 2 bytes"],
    );
    check(json!({"type": "string", "maxLength": 3, "minLength": 3}), json!("äöü"), &[]);
    check(
        json!({"type": "string", "pattern": "^[a-z]$"}),
        json!("x1"),
        &[r#"spec.x: Invalid value: "x1": spec.x in body should match '^[a-z]$'"#],
    );
    check(
        json!({"type": "string", "format": "date-time"}),
        json!("now"),
        &[r#"spec.x: Invalid value: "now": spec.x in body must be of type date-time: "now""#],
    );
    check(json!({"type": "string", "format": "unheard-of"}), json!("now"), &[]);
    check(
        json!({"type": "string", "enum": ["B", "A"]}),
        json!("Foo"),
        &[r#"spec.x: Unsupported value: "Foo": supported values: "B", "A""#],
    );
    check(
        json!({"type": "integer", "enum": [1, 2]}),
        json!(3),
        &[r#"spec.x: Unsupported value: 3: supported values: "1", "2""#],
    );
}

#[test]
fn lists_have_a_size_and_items() {
    let item = json!({"type": "string", "minLength": 1});
    check(
        json!({"type": "array", "items": item, "minItems": 2}),
        json!(["a"]),
        &["spec.x: Invalid value: 1: spec.x in body should have at least 2 items"],
    );
    check(
        json!({"type": "array", "items": item, "maxItems": 2}),
        json!(["a", "b", "c"]),
        &["spec.x: Too many: 3: must have at most 2 items"],
    );
    check(
        json!({"type": "array", "items": item, "uniqueItems": true}),
        json!(["a", "a"]),
        &[r#"spec.x: Invalid value: "": spec.x in body shouldn't contain duplicates"#],
    );
    check(
        json!({"type": "array", "items": item}),
        json!(["a", ""]),
        &[r#"spec.x[1]: Invalid value: "": spec.x[1] in body should be at least 1 chars long"#],
    );
}

#[test]
fn objects_have_a_size_and_fields() {
    let object = |extra: Value| {
        let mut schema = json!({"type": "object"});
        schema.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        schema
    };
    check(object(json!({"required": ["a"]})), json!({}), &["spec.x.a: Required value"]);
    check(
        object(json!({"minProperties": 1})),
        json!({}),
        &["spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"],
    );
    check(
        object(json!({"maxProperties": 2})),
        json!({"a": 1, "b": 2, "c": 3}),
        &["spec.x: Too many: 3: must have at most 2 items"],
    );
    check(
        object(json!({"additionalProperties": false})),
        json!({"a": 1}),
        &[r#"spec.x: Invalid value: "a": spec.x.a in body is a forbidden property"#],
    );
    check(object(json!({"additionalProperties": true})), json!({"a": 1}), &[]);
    check(
        object(json!({"additionalProperties": {"type": "string"}})),
        json!({"a": 1}),
        &[r#"spec.x.a: Invalid value: "integer": spec.x.a in body must be of type string: "integer""#],
    );
}

#[test]
fn junctors_report_the_branch_that_fits_best() {
    let x = json!({"a": "short"});
    let with = |key: &str, branches: Value| json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, key: branches});
    check(
        with("anyOf", json!([{"required": ["b"]}, {"properties": {"a": {"minLength": 9}}}])),
        x.clone(),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            r#"spec.x.a: Invalid value: "short": spec.x.a in body should be at least 9 chars long"#,
        ],
    );
    check(
        with("oneOf", json!([{"required": ["a"]}, {"minProperties": 1}])),
        x.clone(),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check(
        with("oneOf", json!([{"required": ["b"]}])),
        x.clone(),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.x.b: Required value",
        ],
    );
    check(
        with("allOf", json!([{"required": ["b"]}, {}])),
        x.clone(),
        &[
            "spec.x.b: Required value",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
        ],
    );
    check(
        with("not", json!({"required": ["a"]})),
        x.clone(),
        &[r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#],
    );
    check(with("not", json!({"required": ["b"]})), x, &[]);
}

#[test]
fn sets_and_maps_hold_everything_once() {
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    check(set, json!(["a", "b", "a", "a"]), &[r#"spec.x[2]: Duplicate value: "a""#]);
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}},
    });
    check(ports.clone(), json!([{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]), &[]);
    check(
        ports,
        json!([{"port": 1}, {"port": 2}, {"port": 1}]),
        &[r#"spec.x[2]: Duplicate value: {"port":1}"#],
    );
}

#[test]
fn embedded_resources_need_a_type() {
    let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    check(schema.clone(), json!({"apiVersion": "v1", "kind": "Pod"}), &[]);
    check(
        schema,
        json!({"apiVersion": ""}),
        &[r#"spec.x.apiVersion: Invalid value: "": must not be empty"#, "spec.x.kind: Required value"],
    );
}

#[test]
fn an_update_is_not_blamed_for_what_was_there_before() {
    let schema = parse(&json!({"type": "object", "properties": {
        "a": {"type": "string", "minLength": 3},
        "b": {"type": "string", "minLength": 3},
        "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }}));
    let old = json!({"a": "x", "b": "x", "l": ["d", "d"]});
    let new = json!({"a": "x", "b": "y", "l": ["d", "d"]});
    let expected = [r#"b: Invalid value: "y": b in body should be at least 3 chars long"#];
    assert_eq!(texts(&schema.validate(&new, Some(&old))), expected);
    assert_eq!(schema.validate(&new, None).len(), 3);
}

#[test]
fn pruning_removes_and_names_unknown_fields() {
    let schema = parse(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "known": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "strict": {"type": "object", "properties": {"a": {"type": "string"}}},
            }},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        }},
    }}));
    let mut value = json!({
        "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "zz": 1,
        "spec": {
            "known": "k", "zz": {"deep": 1},
            "list": [{"a": "x", "foo": 1}, "odd"],
            "free": {"anything": {"goes": 1}, "strict": {"a": "x", "b": 1}},
            "map": {"k": {"a": "x", "b": 1}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {}},
        },
    });
    let unknown = schema.prune(&mut value);
    assert_eq!(
        unknown,
        ["spec.free.strict.b", "spec.list[0].foo", "spec.map.k.b", "spec.pod.status", "spec.zz", "zz"]
    );
    assert_eq!(
        value,
        json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"},
            "spec": {
                "known": "k",
                "list": [{"a": "x"}, "odd"],
                "free": {"anything": {"goes": 1}, "strict": {"a": "x"}},
                "map": {"k": {"a": "x"}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
            },
        })
    );
}

#[test]
fn defaults_fill_what_is_absent_or_null() {
    let schema = parse(&json!({"type": "object", "properties": {
        "absent": {"type": "string", "default": "d"},
        "null": {"type": "string", "default": "d"},
        "dropped": {"type": "string"},
        "nullable": {"type": "string", "nullable": true, "default": "d"},
        "kept": {"type": "string", "default": "d"},
        "nested": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 1}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
    }}));
    let mut value = json!({
        "null": null, "dropped": null, "nullable": null, "kept": "k", "list": [{}, {"p": "UDP"}], "map": {"a": null, "b": 1},
    });
    schema.drop_nulls(&mut value);
    schema.default(&mut value);
    assert_eq!(
        value,
        json!({
            "absent": "d", "null": "d", "nullable": null, "kept": "k", "nested": {"n": 1},
            "list": [{"p": "TCP"}, {"p": "UDP"}], "map": {"a": 7, "b": 1},
        })
    );
}
