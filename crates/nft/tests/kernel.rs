//! What the kernel makes of the messages, and how `nft` prints it. Each test has a network namespace of its own.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use tombolo_nft::{
    Batch, ChainKind, CommitError, Comparison, CtKey, DESTINATION_TRANSLATED, Element, Expression, Family,
    Fields, Flow, Forgotten, Header, Hook, MetaKey, NEW, Place, Register, Rejection, Rule, Set, Socket,
    Table, Type, Value, Verdict,
};
use tombolo_testkit::lab::{isolated, run};

const R: fn(u8) -> Register = Register;

fn table() -> Table {
    Table::new(Family::Ip, "t")
}

fn goto(chain: &str) -> Verdict {
    Verdict::Goto(chain.to_owned())
}

/// `ip daddr . meta l4proto . th dport` into registers 0 to 2.
fn destination() -> Vec<Expression> {
    vec![
        Expression::Payload { header: Header::Network, offset: 16, length: 4, to: R(0) },
        Expression::Meta { key: MetaKey::Protocol, to: R(1) },
        Expression::Payload { header: Header::Transport, offset: 2, length: 2, to: R(2) },
    ]
}

fn balanced() -> Batch {
    let table = table();
    let service = [Type::Ipv4, Type::Protocol, Type::Port];
    let slot = [Type::Ipv4, Type::Protocol, Type::Port, Type::Mark];
    let mut batch = Batch::new();
    batch.add_table(&table, Some("made by a test"));
    batch.add_chain(&table, "lb-2", None);
    batch.add_set(&table, &Set::verdicts("services", &service));
    batch.add_set(&table, &Set::map("endpoints", &slot, &[Type::Ipv4, Type::Port]));
    let hook = Hook { kind: ChainKind::Nat, place: Place::Prerouting, priority: -100 };
    batch.add_chain(&table, "in", Some(hook));
    let mut dispatch = destination();
    dispatch.push(Expression::Dispatch { map: "services".to_owned(), from: R(0) });
    batch.add_rule(&table, "in", &Rule { expressions: dispatch, comment: Some("to services".to_owned()) });
    let mut balance = destination();
    balance.push(Expression::Random { to: R(3), modulus: 2, offset: 0 });
    balance.push(Expression::Lookup { map: "endpoints".to_owned(), from: R(0), to: R(0) });
    balance.push(Expression::DestinationNat { family: Family::Ip, address: R(0), port: R(1) });
    batch.add_rule(&table, "lb-2", &Rule::new(balance));
    let vip = || Fields::new().with_address([10, 96, 0, 1].into()).with(&[6]).with_port(80);
    let service = Element::new(vip().bytes()).with(Value::Verdict(goto("lb-2")));
    batch.add_elements(&table, "services", &[service]);
    let endpoint = |slot: u32| {
        let target = Fields::new().with_address([10, 1, 0, slot as u8].into()).with_port(8080);
        Element::new(vip().with_mark(slot).bytes()).with(Value::Data(target.bytes()))
    };
    batch.add_elements(&table, "endpoints", &[endpoint(0), endpoint(1)]);
    batch
}

fn list() -> String {
    run("nft", &["list", "ruleset"])
}

#[test]
fn nft_prints_what_was_loaded() {
    isolated(|| {
        let mut socket = Socket::open().unwrap();
        socket.commit(&balanced()).unwrap();
        let printed = list();
        for line in [
            "table ip t {",
            "type ipv4_addr . inet_proto . inet_service : verdict",
            "10.96.0.1 . tcp . 80 : goto lb-2",
            "type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service",
            "10.96.0.1 . tcp . 80 . 0x00000001 : 10.1.0.1 . 8080",
            "type nat hook prerouting priority dstnat; policy accept;",
            "ip daddr . meta l4proto . th dport vmap @services comment \"to services\"",
            "dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @endpoints",
        ] {
            assert!(printed.contains(line), "{line}\n{printed}");
        }
    });
}

#[test]
fn what_is_loaded_can_be_asked_for() {
    isolated(|| {
        let mut socket = Socket::open().unwrap();
        let before = socket.generation().unwrap();
        socket.commit(&balanced()).unwrap();
        assert_eq!(socket.generation().unwrap(), before + 1);
        assert_eq!(socket.tables().unwrap(), [(table(), Some("made by a test".to_owned()))]);
        let chains = socket.chains(&table()).unwrap();
        assert_eq!(chains, [("in".to_owned(), 1), ("lb-2".to_owned(), 1)].into());
        assert_eq!(socket.sets(&table()).unwrap(), ["services", "endpoints"]);
        let services = socket.elements(&table(), "services").unwrap();
        assert_eq!(services[0].element.value, Value::Verdict(goto("lb-2")));
        let mut slots = socket.elements(&table(), "endpoints").unwrap();
        slots.sort_by(|one, other| one.element.key.cmp(&other.element.key));
        assert_eq!(slots.len(), 2);
        assert_eq!(slots[1].element.value, Value::Data(vec![10, 1, 0, 1, 0x1f, 0x90, 0, 0]));
    });
}

#[test]
fn a_refused_operation_is_named_and_nothing_of_its_batch_happens() {
    isolated(|| {
        let mut socket = Socket::open().unwrap();
        let mut batch = balanced();
        batch.add_rule(&table(), "nowhere", &Rule::default());
        let error = socket.commit(&batch).unwrap_err();
        let CommitError::Operation { operation, cause } = error else { panic!("{error}") };
        assert_eq!(operation.to_string(), "add rule ip t nowhere");
        assert_eq!(cause.kind(), std::io::ErrorKind::NotFound);
        assert_eq!(list(), "");
        let mut missing = Batch::new();
        missing.delete_table(&table());
        assert!(socket.commit(&missing).is_err());
    });
}

#[test]
fn elements_can_be_replaced_destroyed_and_counted_by_the_thousand() {
    isolated(|| {
        let mut socket = Socket::open().unwrap();
        let table = table();
        let element = |number: u32, value: u16| {
            let key = Fields::new().with(&number.to_be_bytes()).with_port(1);
            Element::new(key.bytes()).with(Value::Data(value.to_be_bytes().to_vec()))
        };
        let all: Vec<Element> = (0..3_000).map(|number| element(number, 7)).collect();
        let mut batch = Batch::new();
        batch.add_table(&table, None);
        batch.add_set(&table, &Set::map("m", &[Type::Ipv4, Type::Port], &[Type::Port]));
        batch.add_elements(&table, "m", &all);
        socket.commit(&batch).unwrap();
        assert_eq!(socket.elements(&table, "m").unwrap().len(), 3_000);
        let mut batch = Batch::new();
        batch.delete_elements(&table, "m", &[element(5, 7)]);
        batch.add_elements(&table, "m", &[element(5, 9)]);
        batch.destroy_elements(&table, "m", &[element(6, 7), element(99_999, 1)]);
        socket.commit(&batch).unwrap();
        let loaded = socket.elements(&table, "m").unwrap();
        assert_eq!(loaded.len(), 2_999);
        let changed = loaded.iter().find(|loaded| loaded.element.key == element(5, 0).key).unwrap();
        assert_eq!(changed.element.value, Value::Data(vec![0, 9]));
        let mut other = Batch::new();
        other.add_elements(&table, "m", &[element(7, 8)]);
        assert!(socket.commit(&other).is_err(), "an element has one value");
    });
}

#[test]
fn a_set_that_the_kernel_is_still_making_room_for_is_read_whole() {
    isolated(|| {
        let mut socket = Socket::open().unwrap();
        let table = table();
        let all: Vec<Element> =
            (0..3_000_u32).map(|number| Element::new(number.to_be_bytes().to_vec())).collect();
        let mut batch = Batch::new();
        batch.add_table(&table, None);
        socket.commit(&batch).unwrap();
        for set in (0..40).map(|number| format!("s{number}")) {
            let mut batch = Batch::new();
            batch.add_set(&table, &Set::new(&set, &[Type::Ipv4]));
            batch.add_elements(&table, &set, &all);
            socket.commit(&batch).unwrap();
            let mut keys: Vec<_> =
                socket.elements(&table, &set).unwrap().into_iter().map(|loaded| loaded.element.key).collect();
            keys.sort_unstable();
            assert!(keys.iter().eq(all.iter().map(|element| &element.key)), "{set}: {} keys", keys.len());
        }
    });
}

#[test]
fn every_expression_is_taken_and_printed_in_both_families() {
    isolated(|| {
        let mut socket = Socket::open().unwrap();
        let mut batch = Batch::new();
        for family in [Family::Ip, Family::Ip6] {
            expressions(&mut batch, family);
        }
        socket.commit(&batch).unwrap();
        let printed = list();
        for line in [
            "ct state new",
            "ct status dnat",
            "ct original ip daddr . meta l4proto . ct original proto-dst @members masquerade fully-random",
            "ct original ip6 daddr . meta l4proto . ct original proto-dst @members masquerade fully-random",
            "fib daddr type local",
            "ip saddr 10.1.0.0/16 counter packets 0 bytes 0 return",
            "reject with tcp reset",
            "timeout 10s : ip daddr . th dport",
            "size 1000",
            "ip saddr . meta l4proto . th dport != @ranges drop",
            "10.0.0.0/24 . tcp . 80",
        ] {
            assert!(printed.contains(line), "{line}\n{printed}");
        }
    });
}

/// One rule for each way of using an expression.
fn expressions(batch: &mut Batch, family: Family) {
    let table = Table::new(family, "every");
    let v6 = family == Family::Ip6;
    let (address, width) = if v6 { (Type::Ipv6, 4_u8) } else { (Type::Ipv4, 1) };
    let (source, target, length) = if v6 { (8, 24, 16) } else { (12, 16, 4) };
    let key = [address, Type::Protocol, Type::Port];
    batch.add_table(&table, None);
    batch.add_set(&table, &Set { counted: true, ..Set::new("members", &key) });
    batch.add_set(&table, &Set { interval: true, ..Set::new("ranges", &key) });
    let stays = Set { dynamic: Some(1000), ..Set::map("stays", &key, &[address, Type::Port]) };
    batch.add_set(&table, &stays);
    let nat = Hook { kind: ChainKind::Nat, place: Place::Postrouting, priority: 100 };
    let filter = Hook { kind: ChainKind::Filter, place: Place::Input, priority: 0 };
    batch.add_chain(&table, "nat", Some(nat));
    batch.add_chain(&table, "filter", Some(filter));
    let payload = |offset, to| Expression::Payload { header: Header::Network, offset, length, to };
    let port = |to| Expression::Payload { header: Header::Transport, offset: 2, length: 2, to };
    let protocol = |to| Expression::Meta { key: MetaKey::Protocol, to };
    let bit = |key, bit: u32| {
        let mask = bit.to_ne_bytes().to_vec();
        [
            Expression::Ct { key, original: false, to: R(0) },
            Expression::Bitwise { from: R(0), to: R(0), mask, xor: vec![0; 4] },
            Expression::Compare { from: R(0), comparison: Comparison::NotEqual, value: vec![0; 4] },
        ]
    };
    let rule = |batch: &mut Batch, chain: &str, expressions: Vec<Expression>| {
        batch.add_rule(&table, chain, &Rule::new(expressions));
    };
    rule(batch, "nat", bit(CtKey::State, NEW).to_vec());
    rule(batch, "nat", bit(CtKey::Status, DESTINATION_TRANSLATED).to_vec());
    let original = if v6 { CtKey::DestinationV6 } else { CtKey::DestinationV4 };
    let vip = [
        Expression::Ct { key: original, original: true, to: R(0) },
        protocol(R(width)),
        Expression::Ct { key: CtKey::DestinationPort, original: true, to: R(width + 1) },
    ];
    let member = Expression::Contains { set: "members".to_owned(), from: R(0), inverted: false };
    rule(batch, "nat", [&vip[..], &[member, Expression::Masquerade]].concat());
    let data = R(width + 2);
    let update = Expression::Update {
        set: "stays".to_owned(),
        key: R(0),
        data: Some(data),
        timeout: Duration::from_secs(10),
    };
    let tuple = [payload(source, R(0)), protocol(R(width)), port(R(width + 1))];
    let backend = [payload(target, data), port(R(width + 2 + width))];
    rule(batch, "nat", [&tuple[..], &backend, &[update]].concat());
    let local = Expression::AddressType { source: false, to: R(0) };
    let is_local = Expression::Compare {
        from: R(0),
        comparison: Comparison::Equal,
        value: 2_u32.to_ne_bytes().to_vec(),
    };
    rule(batch, "filter", vec![local, is_local]);
    if !v6 {
        let mask = Expression::Bitwise { from: R(0), to: R(0), mask: vec![255, 255, 0, 0], xor: vec![0; 4] };
        let equal =
            Expression::Compare { from: R(0), comparison: Comparison::Equal, value: vec![10, 1, 0, 0] };
        let back = Expression::Verdict(Verdict::Return);
        rule(batch, "filter", vec![payload(source, R(0)), mask, equal, Expression::Counter, back]);
    }
    let outside = Expression::Contains { set: "ranges".to_owned(), from: R(0), inverted: true };
    rule(batch, "filter", [&tuple[..], &[outside, Expression::Verdict(Verdict::Drop)]].concat());
    let tcp = Expression::Compare { from: R(0), comparison: Comparison::Equal, value: vec![6] };
    rule(batch, "filter", vec![protocol(R(0)), tcp, Expression::Reject(Rejection::TcpReset)]);
    rule(batch, "filter", vec![Expression::Reject(Rejection::PortUnreachable(family))]);
    if !v6 {
        let key = |last| Fields::new().with_address([10, 0, 0, last].into()).with(&[6]).with_port(80).bytes();
        let range = Element { end: Some(key(255)), ..Element::new(key(0)) };
        batch.add_elements(&table, "ranges", &[range]);
    }
}

#[test]
fn connections_of_a_flow_are_forgotten_and_others_stay() {
    isolated(|| {
        run("ip", &["link", "set", "lo", "up"]);
        let mut socket = Socket::open().unwrap();
        track(&mut socket);
        for address in ["127.0.0.1", "::1"] {
            let address: IpAddr = address.parse().unwrap();
            let flow = |port| Flow { protocol: 17, address: Some(address), port, server: (address, port) };
            let client = UdpSocket::bind((address, 0)).unwrap();
            let servers: Vec<UdpSocket> = (0..2).map(|_| UdpSocket::bind((address, 0)).unwrap()).collect();
            let ports: Vec<u16> = servers.iter().map(|server| server.local_addr().unwrap().port()).collect();
            for port in &ports {
                client.send_to(b"?", (address, *port)).unwrap();
            }
            assert_eq!(socket.count_connections(&flow(ports[0])).unwrap(), 1);
            let one = |count: usize| match address.is_ipv4() {
                true => Forgotten { v4: count, v6: 0 },
                false => Forgotten { v4: 0, v6: count },
            };
            assert_eq!(socket.forget(&[flow(ports[0])]).unwrap(), one(1));
            assert_eq!(socket.count_connections(&flow(ports[0])).unwrap(), 0);
            assert_eq!(socket.count_connections(&flow(ports[1])).unwrap(), 1);
            let other = IpAddr::from([10, 0, 0, 1]);
            let elsewhere = Flow { server: (other, ports[1]), address: Some(other), ..flow(ports[1]) };
            assert_eq!(socket.forget(&[elsewhere]).unwrap(), Forgotten::default());
            assert_eq!(socket.count_connections(&flow(ports[1])).unwrap(), 1);
            let anywhere = Flow { address: None, ..flow(ports[1]) };
            assert_eq!(socket.forget(&[anywhere]).unwrap(), one(1));
            assert_eq!(socket.count_connections(&anywhere).unwrap(), 0);
            // So many that all connections are read at once.
            client.send_to(b"?", (address, ports[0])).unwrap();
            let many: Vec<Flow> = (1..100).map(flow).chain([flow(ports[0])]).collect();
            assert_eq!(socket.forget(&many).unwrap(), one(1));
        }
    });
}

/// Tracking begins with the first rule that asks for it.
fn track(socket: &mut Socket) {
    let mut batch = Batch::new();
    for family in [Family::Ip, Family::Ip6] {
        let table = Table::new(family, "t");
        batch.add_table(&table, None);
        let hook = Hook { kind: ChainKind::Nat, place: Place::Output, priority: -100 };
        batch.add_chain(&table, "out", Some(hook));
        let asks = vec![Expression::Ct { key: CtKey::State, original: false, to: R(0) }];
        batch.add_rule(&table, "out", &Rule::new(asks));
    }
    socket.commit(&batch).unwrap();
}

#[test]
fn flows_tell_who_answers_where_that_is_not_who_was_asked() {
    isolated(|| {
        run("ip", &["link", "set", "lo", "up"]);
        let mut socket = Socket::open().unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let mut batch = Batch::new();
        batch.add_table(&table(), None);
        let hook = Hook { kind: ChainKind::Nat, place: Place::Output, priority: -100 };
        batch.add_chain(&table(), "out", Some(hook));
        let rule = vec![
            Expression::Payload { header: Header::Transport, offset: 2, length: 2, to: R(0) },
            Expression::Compare { from: R(0), comparison: Comparison::Equal, value: vec![0, 9] },
            Expression::Immediate { to: R(0), value: vec![127, 0, 0, 1] },
            Expression::Immediate { to: R(1), value: port.to_be_bytes().to_vec() },
            Expression::DestinationNat { family: Family::Ip, address: R(0), port: R(1) },
        ];
        batch.add_rule(&table(), "out", &Rule::new(rule));
        socket.commit(&batch).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"?", "127.0.0.2:9").unwrap();
        let address = |last| IpAddr::from([127, 0, 0, last]);
        let flow = Flow { protocol: 17, address: Some(address(2)), port: 9, server: (address(1), port) };
        assert_eq!(socket.flows(17).unwrap(), [flow].into());
        assert!(socket.flows(6).unwrap().is_empty());
    });
}
