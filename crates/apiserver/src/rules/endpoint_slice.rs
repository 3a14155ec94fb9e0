//! EndpointSlices: lists of addresses behind a Service, kept by controllers of any origin.

use std::net::IpAddr;

use serde_json::Value;

use super::{field, ip, metadata, names};
use crate::invalid::{FieldError, Problem};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20_000;
const MOST_HINTS: usize = 8;

/// Fills what may be left out of a port.
pub(crate) fn default(slice: &mut Value) {
    for port in field::list_mut(slice, "ports") {
        if port.is_object() {
            field::fill_absent(port, "name", "");
            field::fill_absent(port, "protocol", "TCP");
        }
    }
}

/// Takes away what the v1 API accepts but never stores.
pub(crate) fn prepare(slice: &mut Value) {
    for endpoint in field::list_mut(slice, "endpoints") {
        field::remove(endpoint, "deprecatedTopology");
    }
}

/// Everything that is wrong with a slice. Metadata is judged elsewhere.
pub(crate) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut wrong = ports(new);
    // Endpoints that were good enough once stay good enough.
    let is_new = old.is_none_or(|old| field::list(old, "endpoints") != field::list(new, "endpoints"));
    if is_new {
        wrong.extend(endpoints(new));
    }
    // What the type of the object says by itself is looked at last.
    wrong.extend(address_type(new, old));
    if is_new {
        wrong.extend(address_counts(new));
    }
    wrong
}

fn address_type(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let path = "addressType";
    let kind = field::text(new, path);
    let mut wrong = Vec::new();
    if kind.is_empty() {
        wrong.push(FieldError::required(path, ""));
    }
    match old.map(|old| field::text(old, path)) {
        Some(before) if before == kind => return Vec::new(),
        Some(_) => wrong.push(FieldError::invalid(path, Value::Null, "field is immutable")),
        None if wrong.is_empty() && !ADDRESS_TYPES.contains(&kind) => {
            wrong.push(FieldError::not_supported(path, kind, &ADDRESS_TYPES));
        }
        None => {}
    }
    wrong
}

fn address_counts(slice: &Value) -> Vec<FieldError> {
    let numbered = field::list(slice, "endpoints").iter().enumerate();
    numbered
        .filter_map(|(index, endpoint)| {
            let path = format!("endpoints[{index}].addresses");
            match field::list(endpoint, "addresses").len() {
                0 => Some(FieldError::required(path, "")),
                count => too_many(&path, count, MOST_ADDRESSES),
            }
        })
        .collect()
}

fn ports(slice: &Value) -> Vec<FieldError> {
    let ports = field::list(slice, "ports");
    if let Some(error) = too_many("ports", ports.len(), MOST_PORTS) {
        return vec![error];
    }
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("ports[{index}]");
        let name = field::text(port, "name");
        if !name.is_empty() {
            wrong.extend(metadata::complaints(&format!("{path}.name"), name, names::dns_label(name)));
        }
        if seen.contains(&name) {
            wrong.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        seen.push(name);
        wrong.extend(protocols(port, &path));
    }
    wrong
}

fn protocols(port: &Value, path: &str) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    match field::text(port, "protocol") {
        "" => wrong.push(FieldError::required(format!("{path}.protocol"), "")),
        name if !PROTOCOLS.contains(&name) => {
            wrong.push(FieldError::not_supported(format!("{path}.protocol"), name, &PROTOCOLS));
        }
        _ => {}
    }
    if let Some(name) = field::at(port, "appProtocol").and_then(Value::as_str) {
        wrong.extend(metadata::complaints(&format!("{path}.appProtocol"), name, names::label_key(name)));
    }
    wrong
}

fn endpoints(slice: &Value) -> Vec<FieldError> {
    let endpoints = field::list(slice, "endpoints");
    if let Some(error) = too_many("endpoints", endpoints.len(), MOST_ENDPOINTS) {
        return vec![error];
    }
    let kind = field::text(slice, "addressType");
    let numbered = endpoints.iter().enumerate();
    numbered
        .flat_map(|(index, endpoint)| self::endpoint(endpoint, kind, &format!("endpoints[{index}]")))
        .collect()
}

fn endpoint(endpoint: &Value, kind: &str, path: &str) -> Vec<FieldError> {
    let addresses = field::texts(endpoint, "addresses");
    let list = format!("{path}.addresses");
    let mut wrong = Vec::new();
    for (index, text) in addresses.iter().enumerate() {
        wrong.extend(address(text, kind, &list, &format!("{list}[{index}]")));
    }
    for (key, rule) in
        [("nodeName", names::dns_subdomain as fn(&str) -> Vec<String>), ("hostname", names::dns_label)]
    {
        if let Some(text) = field::at(endpoint, key).and_then(Value::as_str) {
            wrong.extend(metadata::complaints(&format!("{path}.{key}"), text, rule(text)));
        }
    }
    wrong.extend(hints(endpoint, &format!("{path}.hints"), "forZones", names::label_value));
    wrong.extend(hints(endpoint, &format!("{path}.hints"), "forNodes", names::dns_subdomain));
    wrong
}

fn address(text: &str, kind: &str, list: &str, path: &str) -> Vec<FieldError> {
    if kind == "FQDN" {
        return domain(text, path).into_iter().collect();
    }
    if kind != "IPv4" && kind != "IPv6" {
        return Vec::new();
    }
    if let Some(error) = ip::address(path, text, &[]) {
        return vec![error];
    }
    let Ok(parsed) = text.parse::<IpAddr>() else { return Vec::new() };
    let mut wrong = Vec::new();
    if ip::family(parsed) != kind {
        wrong.push(FieldError::invalid(list, text, format!("must be an {kind} address")));
    } else if kind == "IPv6" && parsed.to_string() != text {
        let detail = format!("must be in canonical form ({:?})", parsed.to_string());
        wrong.push(FieldError::invalid(path, text, detail));
    }
    wrong.extend(ip::reachable(path, text, parsed));
    wrong
}

fn domain(text: &str, path: &str) -> Option<FieldError> {
    if text.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let mut details = names::dns_subdomain(name);
    if details.is_empty() && !name.contains('.') {
        details = vec!["should be a domain with at least two segments separated by dots".to_owned()];
    }
    (!details.is_empty()).then(|| FieldError::invalid(path, name, details.join(",")))
}

fn hints(endpoint: &Value, path: &str, key: &str, rule: fn(&str) -> Vec<String>) -> Vec<FieldError> {
    let path = format!("{path}.{key}");
    let hints = field::list(endpoint, &format!("hints.{key}"));
    if let Some(error) = too_many(&path, hints.len(), MOST_HINTS) {
        return vec![error];
    }
    let mut wrong = Vec::new();
    let mut seen = Vec::new();
    for (index, hint) in hints.iter().enumerate() {
        let (path, name) = (format!("{path}[{index}].name"), field::text(hint, "name"));
        if seen.contains(&name) {
            wrong.push(FieldError::duplicate(path.clone(), name));
        }
        seen.push(name);
        wrong.extend(metadata::complaints(&path, name, rule(name)));
    }
    wrong
}

fn too_many(path: &str, actual: usize, most: usize) -> Option<FieldError> {
    (actual > most).then(|| FieldError::new(path, Problem::TooMany { actual, most }, ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(slice: &Value) -> Vec<String> {
        validate(slice, None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ports_get_a_name_and_a_protocol() {
        let mut slice = json!({"ports": [{"port": 80}, {"name": "b", "protocol": "UDP"}], "endpoints": null});
        default(&mut slice);
        assert_eq!(
            slice["ports"],
            json!([{"name": "", "port": 80, "protocol": "TCP"}, {"name": "b", "protocol": "UDP"}])
        );
    }

    #[test]
    fn ordinary_slices_pass() {
        let endpoint =
            json!({"addresses": ["10.0.0.1"], "nodeName": "node-1", "hints": {"forZones": [{"name": "a"}]}});
        for slice in [
            json!({"addressType": "IPv4", "endpoints": [endpoint], "ports": [{"name": "", "protocol": "TCP"}]}),
            json!({"addressType": "IPv6", "endpoints": [{"addresses": ["2001:db8::1"]}]}),
            json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.example.com."]}]}),
            json!({"addressType": "IPv4", "endpoints": null, "ports": null}),
        ] {
            assert_eq!(check(&slice), Vec::<String>::new());
        }
    }

    #[test]
    fn each_mistake_is_named_where_it_is() {
        let of = |addresses: Value| json!({"addressType": "IPv4", "endpoints": [{"addresses": addresses}]});
        let cases = [
            (json!({}), "addressType: Required value"),
            (
                json!({"addressType": "IP"}),
                "addressType: Unsupported value: \"IP\": supported values: \"FQDN\", \"IPv4\", \"IPv6\"",
            ),
            (of(json!([])), "endpoints[0].addresses: Required value"),
            (
                of(json!(vec!["10.0.0.1"; 101])),
                "endpoints[0].addresses: Too many: 101: must have at most 100 items",
            ),
            (
                of(json!(["2001:db8::1"])),
                "endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address",
            ),
            (
                of(json!(["127.0.0.1"])),
                "endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range \
                 (127.0.0.0/8, ::1/128)",
            ),
            (
                of(json!(["10.0.0"])),
                "endpoints[0].addresses[0]: Invalid value: \"10.0.0\": must be a valid IP address, (e.g. 10.9.8.7 or \
                 2001:db8::ffff)",
            ),
            (
                json!({"addressType": "IPv6", "endpoints": [{"addresses": ["2001:db8:0::1"]}]}),
                "endpoints[0].addresses[0]: Invalid value: \"2001:db8:0::1\": must be in canonical form \
                 (\"2001:db8::1\")",
            ),
            (
                json!({"addressType": "FQDN", "endpoints": [{"addresses": ["com"]}]}),
                "endpoints[0].addresses[0]: Invalid value: \"com\": should be a domain with at least two segments \
                 separated by dots",
            ),
            (
                json!({"addressType": "IPv4", "ports": [
                    {"name": "a", "protocol": "TCP"}, {"name": "a", "protocol": "UDP"}]}),
                "ports[1].name: Duplicate value: \"a\"",
            ),
            (
                json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "hints": {
                    "forZones": vec![json!({"name": "a"}); 9]}}]}),
                "endpoints[0].hints.forZones: Too many: 9: must have at most 8 items",
            ),
            (
                json!({"addressType": "IPv4", "endpoints": vec![json!({"addresses": ["10.0.0.1"]}); 1001]}),
                "endpoints: Too many: 1001: must have at most 1000 items",
            ),
        ];
        for (slice, expected) in cases {
            assert_eq!(check(&slice), [expected]);
        }
    }

    #[test]
    fn the_address_type_is_for_life() {
        let (old, new) = (json!({"addressType": "IPv4"}), json!({"addressType": "IPv6"}));
        let wrong: Vec<_> = validate(&new, Some(&old)).iter().map(ToString::to_string).collect();
        assert_eq!(wrong, ["addressType: Invalid value: null: field is immutable"]);
    }
}
