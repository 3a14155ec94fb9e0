//! Ethernet frames that ask for and tell the link address of an IP address: ARP and neighbour discovery. Pure.
//!
//! Read with care, whatever came; written so that others believe them: gratuitous ARP as request and as reply, since
//! some take only one of them, and advertisements with the override flag.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of a network card.
pub(crate) type Mac = [u8; 6];

const BROADCAST: Mac = [0xff; 6];
const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Ethernet, IPv4, six and four bytes.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ICMPV6: u8 = 58;
/// What has passed no router: all else is no neighbour's.
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Somebody asks who has an address.
    Question(Question),
    /// Somebody says that it has an address.
    Claim { address: IpAddr, mac: Mac },
}

/// Who asks for which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) wanted: IpAddr,
    mac: Mac,
    /// Unspecified while the one who asks has no address yet.
    asker: IpAddr,
}

/// Reads a frame; `None` if it is about something else or makes no sense.
pub(crate) fn read(frame: &[u8]) -> Option<Heard> {
    let (head, body) = frame.split_at_checked(14)?;
    let source: Mac = head.get(6..12)?.try_into().ok()?;
    match head.get(12..14)? {
        kind if kind == ARP => read_arp(body),
        kind if kind == IPV6 => read_neighbour(source, body),
        _ => None,
    }
}

fn read_arp(body: &[u8]) -> Option<Heard> {
    let body: &[u8; 28] = body.get(..28)?.try_into().ok()?;
    if body[..6] != ARP_HEAD {
        return None;
    }
    let mac: Mac = body[8..14].try_into().ok()?;
    let sender = ipv4(&body[14..18])?;
    let target = ipv4(&body[24..28])?;
    match body[7] {
        1 if sender != target => {
            Some(Heard::Question(Question { wanted: target.into(), mac, asker: sender.into() }))
        }
        1 | 2 if !sender.is_unspecified() => Some(Heard::Claim { address: sender.into(), mac }),
        _ => None,
    }
}

fn read_neighbour(source: Mac, body: &[u8]) -> Option<Heard> {
    let (head, message) = body.split_at_checked(40)?;
    let message = message.get(..24)?;
    let genuine = head[0] >> 4 == 6 && head[6] == ICMPV6 && head[7] == HOP_LIMIT && message[1] == 0;
    let asker = ipv6(&head[8..24])?;
    let target = ipv6(&message[8..24])?;
    match message[0] {
        _ if !genuine || target.is_multicast() => None,
        SOLICITATION => {
            Some(Heard::Question(Question { wanted: target.into(), mac: source, asker: asker.into() }))
        }
        ADVERTISEMENT => Some(Heard::Claim { address: target.into(), mac: source }),
        _ => None,
    }
}

/// The answer to a question: the address is here.
pub(crate) fn answer(question: &Question, mac: Mac) -> Option<Vec<u8>> {
    match (question.wanted, question.asker) {
        (IpAddr::V4(wanted), IpAddr::V4(asker)) => {
            Some(arp(2, question.mac, (mac, wanted), (question.mac, asker)))
        }
        (IpAddr::V6(wanted), IpAddr::V6(asker)) if asker.is_unspecified() => {
            Some(advertisement(mac, wanted, multicast_mac(ALL_NODES), ALL_NODES, false))
        }
        (IpAddr::V6(wanted), IpAddr::V6(asker)) => {
            Some(advertisement(mac, wanted, question.mac, asker, true))
        }
        _ => None,
    }
}

/// What tells everybody, unasked, that an address is here.
pub(crate) fn announcements(address: IpAddr, mac: Mac) -> Vec<Vec<u8>> {
    match address {
        IpAddr::V4(v4) => {
            vec![arp(1, BROADCAST, (mac, v4), ([0; 6], v4)), arp(2, BROADCAST, (mac, v4), (mac, v4))]
        }
        IpAddr::V6(v6) => vec![advertisement(mac, v6, multicast_mac(ALL_NODES), ALL_NODES, false)],
    }
}

/// The group that questions for an address are sent to (RFC 4291, solicited-node address).
pub(crate) fn solicited_group(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from(b) << 8 | u16::from(c))
}

fn multicast_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

fn arp(operation: u8, to: Mac, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut frame = [&to[..], &sender.0, &ARP, &ARP_HEAD, &[0, operation]].concat();
    for (mac, ip) in [sender, target] {
        frame.extend(mac);
        frame.extend(ip.octets());
    }
    frame
}

/// The address speaks for itself: that it is no address of the node's link matters to nobody.
fn advertisement(mac: Mac, address: Ipv6Addr, to: Mac, receiver: Ipv6Addr, solicited: bool) -> Vec<u8> {
    let flags = if solicited { 0x60 } else { 0x20 };
    let mut message = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    message.extend(address.octets());
    message.extend([2, 1]);
    message.extend(mac);
    let sum = checksum(address, receiver, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let length = (message.len() as u16).to_be_bytes();
    let head = [0x60, 0, 0, 0, length[0], length[1], ICMPV6, HOP_LIMIT];
    [&to[..], &mac, &IPV6, &head, &address.octets(), &receiver.octets(), &message].concat()
}

/// The internet checksum over the pseudo-header and the message (RFC 8200, 8.1).
fn checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let length = (message.len() as u32).to_be_bytes();
    let whole = [&from.octets()[..], &to.octets(), &length, &[0, 0, 0, ICMPV6], message].concat();
    let words =
        whole.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(bytes).ok().map(Ipv6Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Mac = [2, 0, 0, 0, 0, 1];
    const YOU: Mac = [2, 0, 0, 0, 0, 2];

    fn v4(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, last)
    }

    fn v6(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    /// What a host sends that asks for an IPv6 address.
    fn solicitation(asker: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        let group = solicited_group(target);
        let mut frame = [&multicast_mac(group)[..], &YOU, &IPV6].concat();
        frame.extend([0x60, 0, 0, 0, 0, 24, ICMPV6, HOP_LIMIT]);
        frame.extend(asker.octets());
        frame.extend(group.octets());
        frame.extend([SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(target.octets());
        frame
    }

    #[test]
    fn a_question_is_answered_to_who_asked() {
        let asked = arp(1, BROADCAST, (YOU, v4(100)), ([0; 6], v4(1)));
        let Some(Heard::Question(question)) = read(&asked) else { panic!("no question") };
        assert_eq!(question.wanted, IpAddr::from(v4(1)));
        let answer = answer(&question, ME).unwrap();
        assert_eq!(answer[..12], [YOU, ME].concat());
        assert_eq!(read(&answer), Some(Heard::Claim { address: v4(1).into(), mac: ME }));
        assert_eq!(answer[32..42], [&YOU[..], &v4(100).octets()].concat(), "the target is who asked");
    }

    #[test]
    fn an_ipv6_question_is_answered_with_a_checksum_that_fits() {
        let (asker, target) = (v6("fd18::100"), v6("fd18::c801"));
        let Some(Heard::Question(question)) = read(&solicitation(asker, target)) else {
            panic!("no question")
        };
        let frame = answer(&question, ME).unwrap();
        assert_eq!(frame[..12], [YOU, ME].concat());
        assert_eq!(read(&frame), Some(Heard::Claim { address: target.into(), mac: ME }));
        let message = &frame[54..];
        assert_eq!(message[4], 0x60, "solicited, override");
        assert_eq!(checksum(target, asker, message), 0, "a right checksum sums up to nothing");
    }

    #[test]
    fn who_has_no_address_yet_is_told_with_everybody() {
        let question = solicitation(Ipv6Addr::UNSPECIFIED, v6("fd18::1"));
        let Some(Heard::Question(question)) = read(&question) else { panic!("no question") };
        let frame = answer(&question, ME).unwrap();
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(frame[58], 0x20, "nobody in particular asked");
    }

    #[test]
    fn announcements_are_claims_for_everybody() {
        for address in [IpAddr::from(v4(1)), v6("fd18::1").into()] {
            for frame in announcements(address, ME) {
                assert_eq!(read(&frame), Some(Heard::Claim { address, mac: ME }));
                assert_eq!(frame[0] & 1, 1, "sent to more than one");
            }
        }
    }

    #[test]
    fn a_group_has_the_last_three_bytes_of_the_address() {
        assert_eq!(solicited_group(v6("fd18::12:3456")), v6("ff02::1:ff12:3456"));
        assert_eq!(solicited_group(v6("2001:db8::")), v6("ff02::1:ff00:0"));
    }

    #[test]
    fn nonsense_is_nothing() {
        let good = arp(1, BROADCAST, (YOU, v4(100)), ([0; 6], v4(1)));
        for length in 0..good.len() {
            assert_eq!(read(&good[..length]), None);
        }
        let routed = solicitation(v6("fd18::100"), v6("fd18::1"));
        for length in 0..routed.len() {
            assert_eq!(read(&routed[..length]), None);
        }
        for (place, value) in [(21, 64), (20, 6), (54, 134), (55, 1), (62, 0xff)] {
            let mut odd = routed.clone();
            odd[place] = value;
            assert_eq!(read(&odd), None, "byte {place}");
        }
        let mut odd = good.clone();
        odd[14] = 9;
        assert_eq!(read(&odd), None);
        assert_eq!(read(&[0; 64]), None);
    }
}
