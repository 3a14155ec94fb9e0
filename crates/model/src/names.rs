//! Names made of several parts that cannot be mistaken for each other.
//!
//! Cluster `a` with service `b-c` and cluster `a-b` with service `c` must not meet in one object, whatever the parts
//! contain. So a derived name is a readable beginning, for people, and a hash over what the name is for and each part with
//! its length, for certainty. They are at most 63 characters long, so that each can be a label value, too. The hash has 120 bits: nobody finds two inputs with the same one by trying.

use ring::digest;
use tombolo_api::karmada::EXECUTION_NAMESPACE_PREFIX;
use tombolo_api::karmada::cluster::MAX_NAME_LENGTH;
use tombolo_api::karmada::strategy::IMPORTED_SLICE_PREFIX;
use tombolo_api::tombolo::{DERIVED_SERVICE_PREFIX, Dialect, HUB_NAMESPACE_PREFIX, ServiceRef};

use crate::cluster::ClusterId;
use crate::syntax::{LABEL_LIMIT, is_dns_label};

/// Characters of the hash in a name, 5 bits each.
const HASH_LENGTH: usize = 24;
/// Letters and digits in an order that leaves out none a DNS label may have.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// The namespace of a member at the hub: `tombolo-` and its id, as long as that is a namespace's name and cannot be taken
/// for one with a hash.
pub fn hub_namespace(cluster: &ClusterId) -> String {
    let plain = format!("{HUB_NAMESPACE_PREFIX}{cluster}");
    if is_dns_label(&plain) && !ends_in_hash(&plain) {
        return plain;
    }
    hashed("hub namespace", HUB_NAMESPACE_PREFIX, cluster.as_str(), &[cluster.as_str()])
}

/// The offer of a Service in its member's namespace at the hub.
pub fn offer(dialect: Dialect, service: &ServiceRef) -> String {
    let parts = [dialect.as_str(), &service.namespace, &service.name];
    let readable = format!("{}-{}", service.name, service.namespace);
    hashed("offer", "", &readable, &parts)
}

/// The copy of a source slice in its member's namespace at the hub.
pub fn hub_slice(dialect: Dialect, service: &ServiceRef, slice: &str) -> String {
    let parts = [dialect.as_str(), &service.namespace, &service.name, slice];
    hashed("hub slice", "", slice, &parts)
}

/// The slice that a consumer makes of one at the hub.
pub fn imported_slice(service: &ServiceRef, source: &ClusterId, hub_slice: &str) -> String {
    let readable = format!("{}-{source}", service.name);
    let parts = [source.as_str(), &service.namespace, &service.name, hub_slice];
    hashed("imported slice", "imported-", &readable, &parts)
}

/// The slice that a consumer makes of one at the hub under the Service's own name.
pub fn native_slice(service: &ServiceRef, source: &ClusterId, hub_slice: &str) -> String {
    let readable = format!("{}-{source}", service.name);
    let parts = [source.as_str(), &service.namespace, &service.name, hub_slice];
    hashed("native slice", IMPORTED_SLICE_PREFIX, &readable, &parts)
}

/// The Service that holds the address of an import, in the import's namespace.
pub fn derived_service(dialect: Dialect, service: &ServiceRef) -> String {
    let parts = [dialect.as_str(), &service.namespace, &service.name];
    format!("{DERIVED_SERVICE_PREFIX}{}", hash("derived service", &parts))
}

/// The lease that says whether a source cluster is alive, in a consumer. An id is a unique DNS name
/// already, so a label before it is enough.
pub fn source_lease(source: &ClusterId) -> String {
    format!("tombolo-source.{source}")
}

/// The namespace of a member's Works at the hub; none for an id that is no name of a Karmada cluster.
pub fn execution_namespace(cluster: &ClusterId) -> Option<String> {
    let fits = is_dns_label(cluster.as_str()) && cluster.as_str().len() <= MAX_NAME_LENGTH;
    fits.then(|| format!("{EXECUTION_NAMESPACE_PREFIX}{cluster}"))
}

/// The Work that brings a Service to a member.
pub fn service_work(service: &ServiceRef) -> String {
    hashed("service work", "", &service.name, &[&service.namespace, &service.name])
}

/// The Work in which a member reports a slice of a Service.
pub fn collected_work(service: &ServiceRef, slice: &str) -> String {
    hashed("collected work", "", slice, &[&service.namespace, &service.name, slice])
}

/// The Work that brings a slice of one member to another one.
pub fn dispatched_work(service: &ServiceRef, source: &ClusterId, slice: &str) -> String {
    let parts = [source.as_str(), &service.namespace, &service.name, slice];
    hashed("dispatched work", "", &format!("{source}-{slice}"), &parts)
}

/// The slice in the member that such a Work is for.
pub fn dispatched_slice(service: &ServiceRef, source: &ClusterId, slice: &str) -> String {
    let parts = [source.as_str(), &service.namespace, &service.name, slice];
    hashed("dispatched slice", IMPORTED_SLICE_PREFIX, &format!("{}-{source}", service.name), &parts)
}

/// A class of load balancers, which is a qualified name, as a label of a name and as a label's value.
pub fn load_balancer_class(class: &str) -> String {
    hashed("load balancer class", "", class, &[class])
}

/// Prefix, what can be read of the parts, and the hash: a DNS label.
fn hashed(purpose: &str, prefix: &str, readable: &str, parts: &[&str]) -> String {
    let room = LABEL_LIMIT - prefix.len() - HASH_LENGTH - 1;
    let readable = legible(readable, room);
    let separator = if readable.is_empty() { "" } else { "-" };
    format!("{prefix}{readable}{separator}{}", hash(purpose, parts))
}

/// As much of a text as can stand at the beginning of a DNS label.
fn legible(text: &str, room: usize) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = text.chars().map(allowed).skip_while(|c| *c == '-').take(room).collect();
    text.trim_end_matches('-').to_owned()
}

pub(crate) fn hash(purpose: &str, parts: &[&str]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [purpose].iter().chain(parts) {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let digest = context.finish();
    let bit = |index: usize| (digest.as_ref()[index / 8] >> (7 - index % 8)) & 1;
    let letter = |place: usize| (0..5).fold(0, |value, i| value << 1 | bit(place * 5 + i));
    (0..HASH_LENGTH).map(|place| char::from(ALPHABET[usize::from(letter(place))])).collect()
}

fn ends_in_hash(name: &str) -> bool {
    let tail = name.rsplit('-').next().unwrap_or(name);
    tail.len() == HASH_LENGTH && tail.bytes().all(|byte| ALPHABET.contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::syntax::{is_dns_subdomain, is_label_value};
    use crate::testing::{id, service};

    #[test]
    fn the_same_letters_split_in_another_place_give_another_name() {
        let split = |cluster: &str, name: &str| imported_slice(&service("ns", name), &id(cluster), "x");
        assert_ne!(split("a", "b-c"), split("a-b", "c"));
        assert_ne!(offer(Dialect::Mcs, &service("a", "b-c")), offer(Dialect::Mcs, &service("a-b", "c")));
        assert_ne!(
            derived_service(Dialect::Mcs, &service("a", "b")),
            derived_service(Dialect::Kep, &service("a", "b"))
        );
        assert_ne!(
            hub_slice(Dialect::Kep, &service("a", "b"), "c"),
            hub_slice(Dialect::Kep, &service("a", "b-c"), "")
        );
    }

    #[test]
    fn names_begin_with_what_people_know_them_by() {
        assert_eq!(hub_namespace(&id("east")), "tombolo-east");
        assert_eq!(source_lease(&id("east.prod")), "tombolo-source.east.prod");
        assert!(offer(Dialect::Kep, &service("demo", "echo")).starts_with("echo-demo-"));
        assert!(
            imported_slice(&service("demo", "echo"), &id("east"), "echo-x1")
                .starts_with("imported-echo-east-")
        );
        assert!(hub_slice(Dialect::Kep, &service("demo", "echo"), "echo-x1").starts_with("echo-x1-"));
        assert!(derived_service(Dialect::Kep, &service("demo", "echo")).starts_with("derived-"));
        assert!(load_balancer_class("example.com/l2").starts_with("example-com-l2-"));
        assert_ne!(load_balancer_class("example.com/l2"), load_balancer_class("example.com.l2"));
    }

    #[test]
    fn a_name_stays_the_same_from_release_to_release() {
        assert_eq!(
            derived_service(Dialect::Mcs, &service("demo", "echo")),
            "derived-57djkriruso1ogrl1jeaahud"
        );
    }

    #[test]
    fn a_cluster_named_like_another_ones_hash_gets_a_namespace_of_its_own() {
        let dotted = id("east.prod");
        let namespace = hub_namespace(&dotted);
        let imitator = id(namespace.strip_prefix(HUB_NAMESPACE_PREFIX).unwrap());
        assert_ne!(hub_namespace(&imitator), namespace);
    }

    prop_compose! {
        /// Parts from a small alphabet, so that their concatenations coincide often; and now and then a long one.
        fn part()(text in "[a-b.-]{0,4}", repeat in prop_oneof![9 => Just(1), 1 => Just(80)]) -> String {
            text.repeat(repeat)
        }
    }

    fn cluster() -> impl Strategy<Value = ClusterId> {
        "[ab](-?[ab]){0,3}(\\.[ab](-?[ab]){0,2})?|[ab]{50,63}".prop_map(|text| id(&text))
    }

    proptest! {
        #[test]
        fn distinct_parts_never_share_a_name_and_every_name_fits(
            all in proptest::collection::vec((cluster(), part(), part(), part()), 2..40)
        ) {
            let mut seen: HashMap<(&str, String), Vec<String>> = HashMap::new();
            let mut note = |space, name: String, parts: Vec<&str>| {
                let parts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
                let first = seen.entry((space, name.clone())).or_insert_with(|| parts.clone());
                assert_eq!(*first, parts, "{space} {name}");
            };
            for (cluster, namespace, name, slice) in &all {
                let service = ServiceRef { namespace: namespace.clone(), name: name.clone() };
                for &dialect in Dialect::ALL {
                    let made = offer(dialect, &service);
                    prop_assert!(is_dns_label(&made) && is_label_value(&made), "{}", made);
                    note("offer", made, vec![dialect.as_str(), namespace, name]);
                    let made = derived_service(dialect, &service);
                    prop_assert!(is_dns_label(&made) && made.starts_with(DERIVED_SERVICE_PREFIX), "{}", made);
                    note("derived", made, vec![dialect.as_str(), namespace, name]);
                    let made = hub_slice(dialect, &service, slice);
                    prop_assert!(is_dns_label(&made), "{}", made);
                    note("hub slice", made, vec![dialect.as_str(), namespace, name, slice]);
                }
                let made = imported_slice(&service, cluster, slice);
                prop_assert!(is_dns_label(&made), "{}", made);
                note("imported", made, vec![cluster.as_str(), namespace, name, slice]);
                let made = hub_namespace(cluster);
                prop_assert!(is_dns_label(&made) && made.starts_with(HUB_NAMESPACE_PREFIX), "{}", made);
                note("namespace", made, vec![cluster.as_str()]);
                let made = collected_work(&service, slice);
                prop_assert!(is_dns_label(&made), "{}", made);
                note("collected", made, vec![namespace, name, slice]);
                for made in [dispatched_work(&service, cluster, slice), dispatched_slice(&service, cluster, slice)] {
                    prop_assert!(is_dns_label(&made), "{}", made);
                    note("dispatched", made, vec![cluster.as_str(), namespace, name, slice]);
                }
                if let Some(made) = execution_namespace(cluster) {
                    prop_assert!(is_dns_label(&made), "{}", made);
                    note("execution namespace", made, vec![cluster.as_str()]);
                }
                let made = source_lease(cluster);
                prop_assert!(is_dns_subdomain(&made), "{}", made);
                note("lease", made, vec![cluster.as_str()]);
            }
        }
    }
}
