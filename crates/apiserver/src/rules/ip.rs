//! Which texts are addresses and networks.
//!
//! As strict as Kubernetes has been since 1.36: no leading zeros, no IPv4 in IPv6 clothes, no bits beyond the prefix.
//! A value that the stored object carries already is always accepted, since it was accepted once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::invalid::FieldError;

const ZEROS: &str = "must not have leading 0s in IP or prefix length";

/// What is wrong with `text` as an address at `path`, unless it is among the `known` ones.
pub(crate) fn address(path: &str, text: &str, known: &[&str]) -> Option<FieldError> {
    if known.contains(&text) {
        return None;
    }
    let detail = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => "must not be an IPv4-mapped IPv6 address",
        Ok(_) => return None,
        Err(_) if without_zeros(text).parse::<Ipv4Addr>().is_ok() => "must not have leading 0s",
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    };
    Some(FieldError::invalid(path, text, detail))
}

/// What is wrong with `text` as a network at `path`, unless it is among the `known` ones.
pub(crate) fn network(path: &str, text: &str, known: &[&str]) -> Option<FieldError> {
    if known.contains(&text) {
        return None;
    }
    let detail = match text.parse::<IpNet>() {
        Ok(IpNet::V6(net)) if net.addr().to_ipv4_mapped().is_some() => {
            "must not have an IPv4-mapped IPv6 address"
        }
        Ok(_) if has_leading_zeros(text) => ZEROS,
        Ok(net) if net.addr() != net.network() => "must not have bits set beyond the prefix length",
        Ok(_) => return None,
        Err(_) if without_zeros(text).parse::<IpNet>().is_ok() => ZEROS,
        Err(_) => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    };
    Some(FieldError::invalid(path, text, detail))
}

/// What is wrong with `ip` as the address of something that is to be reached from elsewhere.
pub(crate) fn reachable(path: &str, text: &str, ip: IpAddr) -> Vec<FieldError> {
    let details = [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (is_link_local(ip), "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (
            is_link_local_multicast(ip),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    details
        .into_iter()
        .filter(|(is_wrong, _)| *is_wrong)
        .map(|(_, detail)| FieldError::invalid(path, text, detail))
        .collect()
}

/// `IPv4` or `IPv6`, as `spec.ipFamilies` has it.
pub(crate) fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => is_link_local_scope(ip),
    }
}

fn is_link_local_scope(ip: Ipv6Addr) -> bool {
    ip.octets()[0] == 0xff && ip.octets()[1] & 0x0f == 0x02
}

/// Whether a network that could be read is written with leading zeros, in its address or its prefix length.
fn has_leading_zeros(text: &str) -> bool {
    text.rsplit_once('/').is_some_and(|(ip, length)| {
        ip.parse::<IpAddr>().is_err() || length.len() > 1 && length.starts_with('0')
    })
}

/// The dotted text with the leading zeros of each number taken away.
fn without_zeros(text: &str) -> String {
    let strip = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
    let ip =
        if ip.contains(':') { ip.to_owned() } else { ip.split('.').map(strip).collect::<Vec<_>>().join(".") };
    match length {
        Some(length) => format!("{ip}/{}", strip(length)),
        None => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(error: Option<FieldError>) -> String {
        error.map(|error| error.detail).unwrap_or_default()
    }

    #[test]
    fn addresses_are_judged_strictly() {
        let cases = [
            ("10.9.8.7", ""),
            ("2001:db8::1", ""),
            ("10.09.8.7", "must not have leading 0s"),
            ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
            ("10.0.0", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ("", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ];
        for (text, expected) in cases {
            assert_eq!(detail(address("ip", text, &[])), expected, "{text}");
        }
        assert_eq!(address("ip", "10.09.8.7", &["10.09.8.7"]), None);
    }

    #[test]
    fn networks_are_judged_strictly() {
        let cases = [
            ("10.0.0.0/8", ""),
            ("2001:db8::/64", ""),
            ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
            ("10.00.0.0/8", "must not have leading 0s in IP or prefix length"),
            ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
            ("10.0.0.0", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        ];
        for (text, expected) in cases {
            assert_eq!(detail(network("cidr", text, &[])), expected, "{text}");
        }
    }

    #[test]
    fn addresses_that_mean_this_host_are_not_reachable() {
        let cases = [
            ("10.0.0.1", 0),
            ("0.0.0.0", 1),
            ("127.0.0.1", 1),
            ("::1", 1),
            ("169.254.1.1", 1),
            ("fe80::1", 1),
            ("224.0.0.5", 1),
            ("ff02::1", 1),
        ];
        for (text, count) in cases {
            let ip = text.parse().expect("an address");
            assert_eq!(reachable("ip", text, ip).len(), count, "{text}");
        }
    }
}
