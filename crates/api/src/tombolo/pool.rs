//! AddressPool: the addresses that load balancers of a cluster may have.
//!
//! The CRD refuses what is no address; that a range runs forwards and that a CIDR has no stray host bits needs
//! arithmetic, so [`AddressPoolSpec::ranges`] checks it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::core::{Selector, SelectorExt as _};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::schema;
use crate::service::IpFamily;
use crate::vocabulary::vocabulary;

vocabulary! {
    /// Conditions of an AddressPool.
    PoolCondition {
        /// Addresses are handed out from it.
        Accepted = "Accepted",
    }
}

vocabulary! {
    /// Reasons of an AddressPool's `Accepted`.
    PoolReason {
        /// `True`.
        Accepted = "Accepted",
        /// `False`: some entry is no range of addresses.
        InvalidAddresses = "InvalidAddresses",
        /// `False`: an older pool has some of the same addresses.
        Overlapping = "Overlapping",
    }
}

/// Which addresses there are and who may have them.
#[derive(CustomResource, Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "tombolo.dev",
    version = "v1alpha1",
    kind = "AddressPool",
    status = "AddressPoolStatus",
    derive = "PartialEq",
    shortname = "apool",
    doc = "AddressPool holds addresses for Services of type LoadBalancer in this cluster.",
    printcolumn(name = "Addresses", type_ = "string", json_path = ".spec.addresses"),
    printcolumn(name = "Auto-Assign", type_ = "boolean", json_path = ".spec.autoAssign"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(name = "Assigned", type_ = "integer", json_path = ".status.assigned"),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AddressPoolSpec {
    /// CIDRs ("192.0.2.0/28"), ranges ("192.0.2.10-192.0.2.20") and single addresses, of either family.
    #[schemars(length(min = 1, max = 64), inner(length(min = 2, max = 91)))]
    #[x_kube(
        validation = ("self.all(a, isCIDR(a) || isIP(a) || (a.split('-').size() == 2 && a.split('-').all(e, isIP(e)) && ip(a.split('-')[0]).family() == ip(a.split('-')[1]).family()))", "each must be a CIDR, a range first-last of one family, or an address"),
        merge_strategy = ListMerge::Atomic
    )]
    pub addresses: Vec<String>,
    /// Services that do not ask for an address or a pool may get one from here.
    #[serde(default = "auto_assign")]
    pub auto_assign: bool,
    /// Only Services in namespaces with these labels; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Only Services with these labels; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub service_selector: Option<LabelSelector>,
    /// Of several pools that fit, the one with the highest priority is used first; equal ones in the order of their
    /// names.
    #[serde(default)]
    pub priority: i32,
}

fn auto_assign() -> bool {
    true
}

/// What has become of the pool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AddressPoolStatus {
    /// How many addresses are in use.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub assigned: i64,
    /// Accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl AddressPoolSpec {
    /// The ranges of the pool in the order they are written, or the first entry that is none.
    pub fn ranges(&self) -> Result<Vec<AddressRange>, BadAddress> {
        self.addresses.iter().map(|entry| entry.parse()).collect()
    }

    /// Whether a Service with these labels, in a namespace with those, may have addresses from here. A selector that
    /// cannot be read selects nothing.
    pub fn admits(&self, namespace: &BTreeMap<String, String>, service: &BTreeMap<String, String>) -> bool {
        let matches = |selector: &Option<LabelSelector>, labels| match selector {
            None => true,
            Some(selector) => {
                Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
            }
        };
        matches(&self.namespace_selector, namespace) && matches(&self.service_selector, service)
    }
}

/// Consecutive addresses of one family, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
    /// Whether the first is the network's own address, to which all its routers listen.
    is_routers: bool,
}

/// An entry of an AddressPool that is no range of addresses.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BadAddress {
    #[error("{0:?} is no CIDR, range or address")]
    Unreadable(String),
    #[error("{0:?} has bits set outside its network: did you mean {1}?")]
    StrayBits(String, IpNet),
    #[error("{0:?} mixes IPv4 and IPv6")]
    MixedFamilies(String),
    #[error("{0:?} ends before it starts")]
    Backwards(String),
}

impl AddressRange {
    pub fn first(&self) -> IpAddr {
        self.first
    }

    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// The first one that may be given to somebody who did not ask for it. That without host bits in an IPv6 network is the anycast
    /// address of its routers (RFC 4291, 2.6.1).
    pub fn first_to_give(&self) -> IpAddr {
        match self.first {
            IpAddr::V6(first) if self.is_routers => Ipv6Addr::from_bits(first.to_bits() | 1).into(),
            first => first,
        }
    }

    pub fn family(&self) -> IpFamily {
        if self.first.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }
    }

    /// Addresses of the other family are in no range of this one: `IpAddr` sorts all of IPv4 before IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first <= address && address <= self.last
    }

    pub fn overlaps(&self, other: &AddressRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for AddressRange {
    type Err = BadAddress;

    fn from_str(entry: &str) -> Result<Self, BadAddress> {
        if entry.contains('/') {
            return network(entry);
        }
        let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
        let (first, last) = (address(entry, first)?, address(entry, last)?);
        if first.is_ipv4() != last.is_ipv4() {
            return Err(BadAddress::MixedFamilies(entry.to_owned()));
        }
        if first > last {
            return Err(BadAddress::Backwards(entry.to_owned()));
        }
        Ok(AddressRange { first, last, is_routers: false })
    }
}

fn network(entry: &str) -> Result<AddressRange, BadAddress> {
    let network: IpNet = entry.parse().map_err(|_| BadAddress::Unreadable(entry.to_owned()))?;
    if network != network.trunc() {
        return Err(BadAddress::StrayBits(entry.to_owned(), network.trunc()));
    }
    // Unlike `hosts`, these are the first and last address of the block, also for IPv4.
    let last = match network {
        IpNet::V4(network) => IpAddr::V4(network.broadcast()),
        IpNet::V6(network) => IpAddr::V6(network.broadcast()),
    };
    let is_routers = matches!(network, IpNet::V6(network) if network.prefix_len() < 128);
    Ok(AddressRange { first: network.network(), last, is_routers })
}

fn address(entry: &str, text: &str) -> Result<IpAddr, BadAddress> {
    text.parse().map_err(|_| BadAddress::Unreadable(entry.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidrs_ranges_and_addresses_are_ranges() {
        for (entry, range) in [
            ("192.0.2.0/28", "192.0.2.0-192.0.2.15"),
            ("192.0.2.10-192.0.2.20", "192.0.2.10-192.0.2.20"),
            ("192.0.2.7", "192.0.2.7-192.0.2.7"),
            ("0.0.0.0/0", "0.0.0.0-255.255.255.255"),
            ("2001:db8::/126", "2001:db8::-2001:db8::3"),
            ("2001:db8::a-2001:db8::f", "2001:db8::a-2001:db8::f"),
        ] {
            assert_eq!(entry.parse::<AddressRange>().unwrap().to_string(), range);
        }
    }

    #[test]
    fn the_address_of_routers_is_given_to_nobody_unasked() {
        for (entry, first) in [
            ("2001:db8::/120", "2001:db8::1"),
            ("2001:db8::/127", "2001:db8::1"),
            ("2001:db8::/128", "2001:db8::"),
            ("2001:db8::", "2001:db8::"),
            ("2001:db8::-2001:db8::5", "2001:db8::"),
            ("192.0.2.0/28", "192.0.2.0"),
        ] {
            assert_eq!(entry.parse::<AddressRange>().unwrap().first_to_give().to_string(), first, "{entry}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused_with_its_reason() {
        for (entry, message) in [
            ("", r#""" is no CIDR, range or address"#),
            ("192.0.2.0/33", r#""192.0.2.0/33" is no CIDR, range or address"#),
            ("192.0.2.1 - 192.0.2.2", r#""192.0.2.1 - 192.0.2.2" is no CIDR, range or address"#),
            ("192.0.2.1-2-3", r#""192.0.2.1-2-3" is no CIDR, range or address"#),
            (
                "192.0.2.5/28",
                r#""192.0.2.5/28" has bits set outside its network: did you mean 192.0.2.0/28?"#,
            ),
            ("192.0.2.1-2001:db8::1", r#""192.0.2.1-2001:db8::1" mixes IPv4 and IPv6"#),
            ("192.0.2.9-192.0.2.1", r#""192.0.2.9-192.0.2.1" ends before it starts"#),
        ] {
            assert_eq!(entry.parse::<AddressRange>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_pool_admits_what_both_its_selectors_select() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        let pool = |spec: serde_json::Value| -> AddressPoolSpec { serde_json::from_value(spec).unwrap() };
        let open = pool(serde_json::json!({"addresses": ["192.0.2.1"]}));
        assert!(open.auto_assign && open.admits(&labels(&[]), &labels(&[])));
        let picky = pool(serde_json::json!({
            "addresses": ["192.0.2.1"],
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "serviceSelector": {"matchExpressions": [{"key": "edge", "operator": "Exists"}]},
        }));
        let (team, edge) = (labels(&[("team", "a")]), labels(&[("edge", "")]));
        assert!(picky.admits(&team, &edge));
        assert!(!picky.admits(&team, &labels(&[])) && !picky.admits(&labels(&[("team", "b")]), &edge));
        let odd = pool(serde_json::json!({
            "addresses": ["192.0.2.1"],
            "serviceSelector": {"matchExpressions": [{"key": "edge", "operator": "Near"}]},
        }));
        assert!(!odd.admits(&team, &edge));
    }

    #[test]
    fn ranges_overlap_when_they_share_an_address() {
        let range = |entry: &str| entry.parse::<AddressRange>().unwrap();
        for (a, b, expected) in [
            ("192.0.2.0/30", "192.0.2.3", true),
            ("192.0.2.0/30", "192.0.2.4/30", false),
            ("192.0.2.0/24", "192.0.2.8-192.0.2.9", true),
            ("0.0.0.0/0", "::/0", false),
        ] {
            assert_eq!(
                (range(a).overlaps(&range(b)), range(b).overlaps(&range(a))),
                (expected, expected),
                "{a} {b}"
            );
        }
        assert!(range("192.0.2.0/30").contains("192.0.2.3".parse().unwrap()));
        assert!(!range("0.0.0.0/0").contains("::1".parse().unwrap()));
    }
}
