//! Which endpoint addresses of another cluster are believed.
//!
//! An imported endpoint makes local traffic go to its address. A member that names an address it does not own, by mistake
//! or on purpose, could so divert traffic: to the client's own node, to a cloud's metadata service, to another cluster.
//! Dangerous addresses are dropped whatever the member declared, all others if they are outside of what it declared.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use tombolo_api::service::IpFamily;

use crate::complaint::Complaint;

/// Why an endpoint address was not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// No IP address at all.
    NotAnAddress,
    /// Of another family than its slice.
    WrongFamily,
    /// `0.0.0.0/8` or `::`.
    Unspecified,
    Loopback,
    LinkLocal,
    /// Multicast or broadcast.
    Multicast,
    /// The metadata service of a cloud.
    Metadata,
    /// Outside of the CIDRs that the member declared.
    Undeclared,
    /// More endpoints than a slice, or an offer, may have.
    TooMany,
    /// None of its ports is one that others see.
    NotExposed,
}

impl Dropped {
    /// The word for metrics and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Dropped::NotAnAddress => "not_an_address",
            Dropped::WrongFamily => "wrong_family",
            Dropped::Unspecified => "unspecified",
            Dropped::Loopback => "loopback",
            Dropped::LinkLocal => "link_local",
            Dropped::Multicast => "multicast",
            Dropped::Metadata => "metadata",
            Dropped::Undeclared => "undeclared",
            Dropped::TooMany => "too_many",
            Dropped::NotExposed => "not_exposed",
        }
    }
}

/// How many addresses were dropped, by reason.
pub type DropCount = BTreeMap<Dropped, usize>;

/// Where a member's endpoints may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// The member declares nothing: only dangerous addresses are dropped.
    Nothing,
    /// Inside of these and nowhere else.
    Within(Vec<IpNet>),
}

/// The metadata services that are outside of the link-local range, and the one inside that must be called by its name. Each is
/// reached from every machine of its cloud: that of most, Azure's WireServer, Alibaba's, Oracle's, then those of AWS and Google in
/// IPv6.
const METADATA: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

impl Declared {
    /// Reads a Membership's list. One that is unreadable allows nothing, but is a declaration all the same.
    pub fn read(cidrs: &[String]) -> (Declared, Vec<Complaint>) {
        if cidrs.is_empty() {
            return (Declared::Nothing, Vec::new());
        }
        let mut complaints = Vec::new();
        let mut read = |text: &String| {
            let unreadable =
                |_| complaints.push(Complaint::new("spec.podCIDRs", format!("{text:?} is no CIDR")));
            text.parse().map_err(unreadable).ok()
        };
        let networks = cidrs.iter().filter_map(&mut read).collect();
        (Declared::Within(networks), complaints)
    }

    fn contains(&self, address: IpAddr) -> bool {
        match self {
            Declared::Nothing => true,
            Declared::Within(networks) => networks.iter().any(|network| network.contains(&address)),
        }
    }

    /// The address if it may be used in a slice of this family.
    pub fn accept(&self, text: &str, family: IpFamily) -> Result<IpAddr, Dropped> {
        let address: IpAddr = text.parse().map_err(|_| Dropped::NotAnAddress)?;
        // `::ffff:127.0.0.1` is 127.0.0.1 to a kernel, so that is what it is judged as.
        let real = address.to_canonical();
        if let Some(danger) = danger(real) {
            return Err(danger);
        }
        if family_of(real) != family || real != address {
            return Err(Dropped::WrongFamily);
        }
        if self.contains(real) { Ok(real) } else { Err(Dropped::Undeclared) }
    }
}

fn danger(address: IpAddr) -> Option<Dropped> {
    if METADATA.contains(&address) {
        return Some(Dropped::Metadata);
    }
    let found = match address {
        IpAddr::V4(v4) => [
            (v4.octets()[0] == 0, Dropped::Unspecified),
            (v4.is_loopback(), Dropped::Loopback),
            (v4.is_link_local(), Dropped::LinkLocal),
            (v4.is_multicast() || v4.is_broadcast(), Dropped::Multicast),
        ],
        IpAddr::V6(v6) => [
            (v6.is_unspecified(), Dropped::Unspecified),
            (v6.is_loopback(), Dropped::Loopback),
            (v6.is_unicast_link_local(), Dropped::LinkLocal),
            (v6.is_multicast(), Dropped::Multicast),
        ],
    };
    let itself = found.into_iter().find(|(is, _)| *is).map(|(_, danger)| danger);
    itself.or_else(|| danger(IpAddr::V4(embedded(address)?)))
}

/// The IPv4 address behind an IPv6 one that a gateway translates: IPv4-compatible, NAT64 (RFC 6052) or 6to4 (RFC 3056).
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let low = Ipv4Addr::from_bits(v6.to_bits() as u32);
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => Some(low),
        [0x2002, high, next, ..] => Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(next))),
        _ => None,
    }
}

/// The family of an address.
pub fn family_of(address: IpAddr) -> IpFamily {
    if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(cidrs: &[&str]) -> Declared {
        let cidrs: Vec<String> = cidrs.iter().map(|&cidr| cidr.to_owned()).collect();
        Declared::read(&cidrs).0
    }

    #[test]
    fn dangerous_addresses_are_dropped_even_where_everything_was_declared() {
        let cases = [
            ("127.0.0.1", Dropped::Loopback),
            ("127.8.8.8", Dropped::Loopback),
            ("169.254.1.1", Dropped::LinkLocal),
            ("169.254.169.254", Dropped::Metadata),
            ("168.63.129.16", Dropped::Metadata),
            ("100.100.100.200", Dropped::Metadata),
            ("192.0.0.192", Dropped::Metadata),
            ("224.0.0.1", Dropped::Multicast),
            ("239.255.255.255", Dropped::Multicast),
            ("255.255.255.255", Dropped::Multicast),
            ("0.0.0.0", Dropped::Unspecified),
            ("0.1.2.3", Dropped::Unspecified),
            ("::", Dropped::Unspecified),
            ("::1", Dropped::Loopback),
            ("fe80::1", Dropped::LinkLocal),
            ("febf::1", Dropped::LinkLocal),
            ("ff02::1", Dropped::Multicast),
            ("fd00:ec2::254", Dropped::Metadata),
            ("fd20:ce::254", Dropped::Metadata),
            ("::ffff:127.0.0.1", Dropped::Loopback),
            ("::ffff:169.254.169.254", Dropped::Metadata),
            ("::ffff:10.0.0.1", Dropped::WrongFamily),
            ("::127.0.0.1", Dropped::Loopback),
            ("64:ff9b::a9fe:a9fe", Dropped::Metadata),
            ("64:ff9b::a83f:8110", Dropped::Metadata),
            ("2002:7f00:1::1", Dropped::Loopback),
            ("example.com", Dropped::NotAnAddress),
            ("", Dropped::NotAnAddress),
            ("10.0.0.1/8", Dropped::NotAnAddress),
            ("010.0.0.1", Dropped::NotAnAddress),
            ("fe80::1%eth0", Dropped::NotAnAddress),
        ];
        for policy in [Declared::Nothing, declared(&["0.0.0.0/0", "::/0"])] {
            for (address, dropped) in cases {
                let family = if address.contains(':') { IpFamily::V6 } else { IpFamily::V4 };
                assert_eq!(policy.accept(address, family), Err(dropped), "{address}");
            }
        }
    }

    #[test]
    fn addresses_outside_of_the_declared_cidrs_are_dropped() {
        let policy = declared(&["10.1.0.0/16", "fd00:1::/64"]);
        for (address, family, expected) in [
            ("10.1.2.3", IpFamily::V4, true),
            ("10.2.0.0", IpFamily::V4, false),
            ("fd00:1::5", IpFamily::V6, true),
            ("fd00:2::5", IpFamily::V6, false),
        ] {
            let accepted = policy.accept(address, family);
            assert_eq!(accepted.ok(), expected.then(|| address.parse().unwrap()), "{address}");
        }
        for (address, family) in [("10.1.2.3", IpFamily::V6), ("::ffff:10.1.2.3", IpFamily::V4)] {
            assert_eq!(policy.accept(address, family), Err(Dropped::WrongFamily), "{address}");
        }
    }

    #[test]
    fn a_member_that_declares_nothing_is_believed_and_one_that_declares_nonsense_is_not() {
        assert_eq!(declared(&[]).accept("10.9.9.9", IpFamily::V4), Ok("10.9.9.9".parse().unwrap()));
        let (policy, complaints) = Declared::read(&["10.0.0/8".into()]);
        assert_eq!(policy.accept("10.9.9.9", IpFamily::V4), Err(Dropped::Undeclared));
        assert_eq!(complaints[0].to_string(), "spec.podCIDRs: \"10.0.0/8\" is no CIDR");
    }
}
