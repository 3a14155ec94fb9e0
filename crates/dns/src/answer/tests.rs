//! Whatever comes in: rules of hygiene, limits, and that nothing breaks.

use domain::base::{Message, ToName as _};
use proptest::prelude::*;

use super::*;
use crate::message::rtype::*;
use crate::zone::{Addresses, Endpoints, Host, Name, Port, Ports, Realm, Service, key};

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn http(number: u16) -> Port {
    Port { path: b"\x05_http\x04_tcp"[..].into(), number }
}

/// `db.shop` has so many endpoints, `web.shop` one address.
fn answerer(endpoints: u32) -> Answerer {
    let zones = Zones::new();
    let hosts: Box<[Host]> = (0..endpoints)
        .map(|number| {
            let ip = std::net::Ipv4Addr::from(0x0a00_0000 + number);
            let label = format!("h{number:05}");
            let path = [&[label.len() as u8], label.as_bytes(), b"\x04east"].concat();
            let addresses = Addresses::from(vec![IpAddr::V4(ip)]);
            Host { path: path.into(), addresses, ports: Ports::new([http(80)].into()) }
        })
        .collect();
    let addresses = Addresses::from(hosts.iter().flat_map(|host| host.addresses.iter()).collect::<Vec<_>>());
    let db = Service::Endpoints(Box::new(Endpoints { addresses, hosts }));
    let web =
        Service::Address { v4: Some([10, 9, 9, 9].into()), v6: None, ports: Ports::new([http(80)].into()) };
    zones.put_namespace("shop", true);
    zones.put(Realm::Mcs, &key("shop", "db").unwrap(), Some(db));
    zones.put(Realm::Mcs, &key("shop", "web").unwrap(), Some(web));
    zones.complete(Realm::Mcs);
    let apex = Apex { name: Name::parse("clusterset.local").unwrap(), kind: Kind::Services(Realm::Mcs) };
    let settings = Settings {
        zones: vec![apex],
        ttl: 5,
        negative_ttl: 5,
        shuffle: true,
        servers: Addresses::default(),
        transfer: Vec::new(),
        forward: false,
    };
    Answerer { zones, settings: Arc::new(settings) }
}

const WEB: &str = "web.shop.svc.clusterset.local";
const DB: &str = "db.shop.svc.clusterset.local";

fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(Name::parse(name).unwrap().bytes());
    message.extend_from_slice(&[0, kind as u8, 0, 1]);
    message
}

fn with_opt(mut message: Vec<u8>, size: u16, version: u8) -> Vec<u8> {
    message[11] += 1;
    let [s0, s1] = size.to_be_bytes();
    message.extend_from_slice(&[0, 0, 41, s0, s1, 0, version, 0, 0, 0, 0]);
    message
}

fn ask(answerer: &Answerer, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
    let mut out = vec![0xee; if transport == Transport::Udp { 1232 } else { 65_535 }];
    match answerer.answer(&mut Scratch::new(7), message, FROM, transport, &mut out) {
        Verdict::Reply(facts) => {
            out.truncate(facts.size);
            Some(out)
        }
        _ => None,
    }
}

/// Code with its extension, flags AA and TC, questions, answers.
fn summary(reply: &[u8]) -> (u16, bool, bool, u16, u16) {
    let message = Message::from_octets(reply).unwrap();
    let (header, counts) = (message.header(), message.header_counts());
    (message.opt_rcode().to_int(), header.aa(), header.tc(), counts.qdcount(), counts.ancount())
}

#[test]
fn odd_messages_get_what_they_deserve() {
    let answerer = answerer(3);
    let changed = |place: usize, value: u8| {
        let mut message = question(WEB, A);
        message[place] = value;
        message
    };
    let class = |value: u8| {
        let mut message = question(WEB, A);
        let last = message.len() - 1;
        message[last] = value;
        message
    };
    let whole = question(WEB, A);
    let compressed = [&whole[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
    let twice = [changed(5, 2), whole[12..].to_vec()].concat();
    let trailing = [&whole[..], b"rubbish"].concat();
    type Expected = Option<(u16, u16)>;
    let cases: [(&str, Vec<u8>, Expected); 21] = [
        ("ordinary", whole.clone(), Some((0, 1))),
        ("a reply", changed(2, 0x80), None),
        ("shorter than a header", whole[..11].to_vec(), None),
        ("nothing", Vec::new(), None),
        ("only a header", whole[..12].to_vec(), Some((1, 0))),
        ("cut in the name", whole[..20].to_vec(), Some((1, 0))),
        ("cut before the class", whole[..whole.len() - 2].to_vec(), Some((1, 0))),
        ("no question", changed(5, 0), Some((1, 0))),
        ("two questions", twice, Some((1, 0))),
        ("a name that points to itself", compressed, Some((1, 0))),
        ("notify", changed(2, 0x20), Some((4, 0))),
        ("update", changed(2, 0x28), Some((4, 0))),
        ("status", changed(2, 0x10), Some((4, 0))),
        ("chaos", class(3), Some((5, 1))),
        ("any class", class(255), Some((5, 1))),
        ("edns 1", with_opt(whole.clone(), 1232, 1), Some((16, 1))),
        ("two opt", with_opt(with_opt(whole.clone(), 1232, 0), 1232, 0), Some((1, 0))),
        ("an answer that is not there", changed(7, 1), Some((1, 0))),
        ("trailing octets", trailing, Some((0, 1))),
        ("axfr over udp", question("clusterset.local", 252), Some((5, 1))),
        ("out of zone", question("example.org", A), Some((5, 1))),
    ];
    for (what, message, expected) in cases {
        let got = ask(&answerer, &message, Transport::Udp).map(|reply| {
            let (code, _, _, questions, _) = summary(&reply);
            (code, questions)
        });
        assert_eq!(got, expected, "{what}");
    }
}

#[test]
fn a_record_besides_opt_does_not_disturb() {
    let mut message = with_opt(question(WEB, A), 1232, 0);
    message[11] += 1;
    // A TSIG-like record behind the OPT.
    message.extend_from_slice(&[1, b'k', 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 2, 1, 2]);
    let reply = ask(&answerer(1), &message, Transport::Udp).unwrap();
    assert_eq!(summary(&reply), (0, true, false, 1, 1));
}

#[test]
fn flags_are_ours_but_for_recursion_desired() {
    let mut message = question(WEB, A);
    (message[2], message[3]) = (0x07, 0xff);
    let reply = ask(&answerer(1), &message, Transport::Udp).unwrap();
    assert_eq!([reply[2], reply[3]], [0x85, 0]);
}

#[test]
fn a_reply_has_the_size_the_client_can_take_and_never_more_than_ours() {
    let answerer = answerer(300);
    for (message, limit) in [
        (question(DB, A), 512),
        (with_opt(question(DB, A), 100, 0), 512),
        (with_opt(question(DB, A), 900, 0), 900),
        (with_opt(question(DB, A), 4096, 0), 1232),
        (with_opt(question(DB, SRV), 4096, 0), 1232),
    ] {
        let reply = ask(&answerer, &message, Transport::Udp).unwrap();
        let (code, _, cut, _, answers) = summary(&reply);
        assert!(reply.len() <= limit && reply.len() + 100 > limit, "{} of {limit}", reply.len());
        assert!(code == 0 && cut && answers > 8);
    }
    let (_, _, cut, _, answers) = summary(&ask(&answerer, &question(DB, A), Transport::Tcp).unwrap());
    assert_eq!((cut, answers), (false, 300));
    let reply = ask(&answerer, &with_opt(question(DB, SRV), 1232, 0), Transport::Tcp).unwrap();
    let (_, _, cut, _, answers) = summary(&reply);
    assert_eq!((cut, answers), (false, 300));
    assert_eq!(Message::from_octets(&reply[..]).unwrap().header_counts().arcount(), 301);
}

#[test]
fn of_targets_that_fit_only_the_addresses_are_left_out_without_a_word() {
    let reply = ask(&answerer(9), &with_opt(question(DB, SRV), 700, 0), Transport::Udp).unwrap();
    let (_, _, cut, _, answers) = summary(&reply);
    let additional = Message::from_octets(&reply[..]).unwrap().header_counts().arcount();
    assert_eq!((cut, answers), (false, 9));
    assert!((1..10).contains(&additional), "{additional}");
}

#[test]
fn more_targets_than_any_message_holds_are_cut() {
    let reply = ask(&answerer(2000), &question(DB, SRV), Transport::Tcp).unwrap();
    let (code, _, cut, _, answers) = summary(&reply);
    assert!(code == 0 && cut && answers > 500);
}

#[test]
fn a_number_that_serves_two_protocols_is_one_record_at_the_bare_name() {
    let answerer = answerer(0);
    let ports: [Port; 2] = [b"\x04_dns\x04_tcp", b"\x04_dns\x04_udp"]
        .map(|path: &[u8; 10]| Port { path: path[..].into(), number: 42 });
    let ports = || Ports::new(ports.clone().into());
    let addresses = || Addresses::from(vec![IpAddr::from([10, 9, 9, 8])]);
    let host = Host { path: b"\x01h\x04east"[..].into(), addresses: addresses(), ports: ports() };
    let endpoints = Endpoints { addresses: addresses(), hosts: [host].into() };
    let both = [
        Service::Address { v4: Some([10, 9, 9, 8].into()), v6: None, ports: ports() },
        Service::Endpoints(Box::new(endpoints)),
    ];
    for service in both {
        answerer.zones.put(Realm::Mcs, &key("shop", "names").unwrap(), Some(service));
        for name in ["names.shop.svc.clusterset.local", "_dns._udp.names.shop.svc.clusterset.local"] {
            let reply = ask(&answerer, &question(name, SRV), Transport::Udp).unwrap();
            let counts = Message::from_octets(&reply[..]).unwrap().header_counts();
            assert_eq!((counts.ancount(), counts.arcount()), (1, 1), "{name}");
        }
        let owners = transferred(&answerer).concat().into_iter();
        let owners: Vec<String> = owners.filter(|(_, kind)| *kind == SRV).map(|(owner, _)| owner).collect();
        let alike = owners.iter().filter(|owner| owner.starts_with("names.")).count();
        assert_eq!((alike, owners.len()), (1, 5), "{owners:?}");
    }
}

/// Owner and type of every record of a transferred zone, message by message.
fn transferred(answerer: &Answerer) -> Vec<Vec<(String, u16)>> {
    let query = question("clusterset.local", AXFR);
    let mut transfer = Transfer::new(answerer, 0, &query, query.len()).unwrap();
    let pages = std::iter::from_fn(|| transfer.next()).map(|page| {
        assert!(page.len() <= TCP_LIMIT, "{} octets", page.len());
        let message = Message::from_octets(&page[..]).unwrap();
        let records = message.answer().unwrap().map(Result::unwrap);
        records.map(|record| (record.owner().to_string(), record.rtype().to_int())).collect()
    });
    pages.collect()
}

#[test]
fn a_service_that_is_longer_than_a_message_is_transferred_in_several() {
    let pages = transferred(&answerer(500));
    assert!(pages.len() > 4 && pages.iter().all(|page| !page.is_empty()), "{} messages", pages.len());
    let records = pages.concat();
    let count = |kind| records.iter().filter(|(_, other)| *other == kind).count();
    // Each endpoint has its address twice and its port twice, and `web` has one of each and its port twice.
    assert_eq!([count(A), count(SRV), count(SOA), count(NS), count(TXT)], [1001, 1002, 2, 1, 1]);
    assert!([records.first(), records.last()].into_iter().flatten().all(|(_, kind)| *kind == SOA));
}

#[test]
fn a_zone_is_transferred_only_when_it_is_complete() {
    let known = answerer(1);
    let settings = Settings { transfer: vec![FROM], ..Settings::clone(&known.settings) };
    let answerer = Answerer { zones: Zones::new(), settings: settings.into() };
    let verdict = |transport| {
        let message = with_opt(question("clusterset.local", AXFR), 1232, 0);
        answerer.answer(&mut Scratch::new(7), &message, FROM, transport, &mut vec![0; TCP_LIMIT])
    };
    let code = |verdict| if let Verdict::Reply(facts) = verdict { Some(facts.rcode) } else { None };
    assert_eq!(code(verdict(Transport::Tcp)), Some(Rcode::ServFail));
    answerer.zones.complete(Realm::Mcs);
    assert_eq!(verdict(Transport::Tcp), Verdict::Transfer(0));
    assert_eq!(code(verdict(Transport::Udp)), Some(Rcode::Refused));
}

#[test]
fn many_records_come_in_another_order_each_time_unless_told_otherwise() {
    let mut answerer = answerer(20);
    let mut scratch = Scratch::new(1);
    let mut orders = |answerer: &Answerer| {
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..10 {
            let mut out = [0; 1232];
            let verdict = answerer.answer(
                &mut scratch,
                &with_opt(question(DB, A), 1232, 0),
                FROM,
                Transport::Udp,
                &mut out,
            );
            assert!(matches!(verdict, Verdict::Reply(_)));
            let message = Message::from_octets(&out[..]).unwrap();
            let all: Vec<String> =
                message.answer().unwrap().map(|record| format!("{:?}", record.unwrap().rdlen())).collect();
            assert_eq!(all.len(), 20);
            orders.insert(out);
        }
        orders.len()
    };
    assert!(orders(&answerer) > 5);
    Arc::make_mut(&mut answerer.settings).shuffle = false;
    assert_eq!(orders(&answerer), 1);
}

#[test]
fn before_everything_is_known_a_miss_is_a_failure_and_not_a_denial() {
    let zones = Zones::new();
    let answerer = Answerer { zones: zones.clone(), ..answerer(0) };
    let code = |name: &str| summary(&ask(&answerer, &question(name, A), Transport::Udp).unwrap()).0;
    for name in [WEB, "shop.svc.clusterset.local", "x.y.web.shop.svc.clusterset.local"] {
        assert_eq!(code(name), 2, "{name}");
    }
    assert_eq!((code("clusterset.local"), code("nothing.clusterset.local")), (0, 3));
    zones.complete(Realm::Mcs);
    assert_eq!((code(WEB), code("shop.svc.clusterset.local")), (3, 3));
}

/// Whatever the octets are: no panic, and if there is a reply, it is one.
#[test]
fn clients_that_speak_edns_are_told_why() {
    use domain::base::opt::ExtendedError;
    let why = |answerer: &Answerer, message: Vec<u8>| -> Option<u16> {
        let reply = ask(answerer, &message, Transport::Udp)?;
        let message = Message::from_octets(&reply[..]).unwrap();
        let opt = message.opt()?;
        let told = opt.opt().iter::<ExtendedError<_>>().next()?.unwrap();
        Some(told.code().to_int())
    };
    let ready = answerer(1);
    let starting = Answerer { zones: Zones::new(), settings: ready.settings.clone() };
    let miss = || question("none.ns.svc.clusterset.local", A);
    assert_eq!(why(&starting, with_opt(miss(), 1232, 0)), Some(14), "not ready");
    assert_eq!(why(&ready, with_opt(miss(), 1232, 0)), None, "an ordinary denial");
    assert_eq!(why(&ready, with_opt(question("example.com", A), 1232, 0)), Some(20), "not ours");
    assert_eq!(why(&ready, with_opt(question("clusterset.local", AXFR), 1232, 0)), Some(18), "prohibited");
    assert_eq!(why(&starting, miss()), None, "without EDNS there is no place for it");
}

fn check(answerer: &Answerer, message: &[u8], transport: Transport) {
    let Some(reply) = ask(answerer, message, transport) else { return };
    assert!(message.len() >= 12 && message[2] & 0x80 == 0, "{message:?}");
    assert_eq!(reply[..2], message[..2]);
    assert!(reply[2] & 0x80 != 0);
    let parsed = Message::from_octets(&reply[..]).unwrap();
    let (_, answer, authority, additional) = parsed.sections().unwrap();
    for record in answer.chain(authority).chain(additional) {
        record.unwrap();
    }
    let limit = if transport == Transport::Tcp { 65_535 } else { 1232 };
    assert!(reply.len() <= limit);
    if parsed.header().rcode().to_int() == 1 {
        assert!(reply.len() <= message.len());
    }
}

fn any_query() -> impl Strategy<Value = Vec<u8>> {
    let names = prop_oneof![
        Just(WEB.to_owned()),
        Just(DB.to_owned()),
        Just("h00001.east.db.shop.svc.clusterset.local".to_owned()),
        Just("_http._tcp.web.shop.svc.clusterset.local".to_owned()),
        Just("1.0.0.10.in-addr.arpa".to_owned()),
        "([a-z_]{1,5}\\.){0,9}clusterset\\.local",
    ];
    let kinds =
        prop_oneof![Just(A), Just(SRV), Just(AAAA), Just(PTR), Just(ANY), Just(SOA), Just(NS), 0_u16..256];
    (names, kinds, any::<bool>(), 0_u16..5000).prop_map(|(name, kind, edns, size)| {
        let message = question(&name, kind);
        if edns { with_opt(message, size, 0) } else { message }
    })
}

proptest! {
    #[test]
    fn any_octets_are_answered_or_ignored(message in proptest::collection::vec(any::<u8>(), 0..600)) {
        let answerer = answerer(5);
        check(&answerer, &message, Transport::Udp);
        check(&answerer, &message, Transport::Tcp);
    }

    #[test]
    fn queries_with_changed_octets_are_answered_or_ignored(
        message in any_query(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut message = message;
        for (place, value) in changes {
            let place = place.index(message.len());
            message[place] = value;
        }
        if !whole {
            message.truncate(cut.index(message.len() + 1));
        }
        let answerer = answerer(5);
        check(&answerer, &message, Transport::Udp);
        check(&answerer, &message, Transport::Tcp);
    }

    #[test]
    fn our_reader_and_the_library_read_the_same(message in any_query()) {
        let mut query = Query::default();
        prop_assert_eq!(query.read(&message), Readable::Yes);
        let parsed = Message::from_octets(&message[..]).unwrap();
        let asked = parsed.sole_question().unwrap();
        let name: domain::base::Name<Vec<u8>> = asked.qname().to_name();
        prop_assert_eq!(name.as_slice().to_ascii_lowercase(), query.name.bytes());
        prop_assert_eq!((asked.qtype().to_int(), asked.qclass().to_int()), (query.qtype, query.qclass));
        prop_assert_eq!(parsed.opt().map(|opt| opt.udp_payload_size()), query.edns.map(|edns| edns.size));
    }

    /// NXDOMAIN exactly if neither the name nor any name below it has records.
    #[test]
    fn a_name_exists_if_it_or_anything_below_it_has_data(drop in 0_usize..7, host in 0_u32..8, port in any::<bool>()) {
        let answerer = answerer(5);
        let full = match port {
            true => format!("_http._tcp.{DB}"),
            false => format!("h{host:05}.east.{DB}"),
        };
        let labels: Vec<&str> = full.split('.').collect();
        let name = labels[drop.min(labels.len() - 1)..].join(".");
        let exists = host < 5 || port || drop > 0;
        let inside = name.ends_with("clusterset.local");
        let code = summary(&ask(&answerer, &question(&name, TXT), Transport::Udp).unwrap()).0;
        // Any other host's ancestors exist because of its siblings.
        prop_assert_eq!(code, if !inside { 5 } else if exists { 0 } else { 3 }, "{}", name);
    }
}
