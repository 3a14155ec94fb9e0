//! Mutated packets against a running server, for as long as wanted: `cargo xtask fuzz dns`.
//!
//! Debug assertions and overflow checks are on. Every reply must be one: parseable, of the right number, within limits. After
//! every round a good query must be answered, as patiently asked as a resolver does, and the server must not have grown.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use domain::base::Message;
use tombolo_dns::{Answerer, Scratch, Transport, Verdict};

use crate::script::cases;
use crate::wire;
use crate::world::World;

const ROUND: usize = 2000;
/// How often a good query is sent before the server counts as dead, and how long each is waited for: what dig does.
const TRIES: usize = 3;
const TRY: Duration = Duration::from_secs(5);
/// A try counts only if the process did not wait for a processor for half of it, but so many are too many in any case.
const MOST_TRIES: usize = 300;

struct Fuzz {
    random: fastrand::Rng,
    seeds: Vec<Vec<u8>>,
    address: SocketAddr,
    replies: usize,
}

impl Fuzz {
    fn new(address: SocketAddr, seed: u64) -> Self {
        let seeds = cases().iter().map(|case| wire::query(&case.name, &case.kind)).collect();
        Self { random: fastrand::Rng::with_seed(seed), seeds, address, replies: 0 }
    }

    /// A query with some of its octets changed, removed, repeated or replaced by another's.
    fn packet(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let mut packet = self.seeds[random.usize(0..self.seeds.len())].clone();
        for _ in 0..random.usize(0..5) {
            if packet.is_empty() {
                break;
            }
            let place = random.usize(0..packet.len());
            match random.u8(0..7) {
                0 => packet[place] = random.u8(..),
                1 => packet[place] ^= 1 << random.u8(0..8),
                2 => packet.truncate(place),
                3 => packet.insert(place, random.u8(..)),
                4 => drop(packet.remove(place)),
                5 => packet.splice(place..place, [0xc0, random.u8(..)]).for_each(drop),
                _ => {
                    let other = &self.seeds[random.usize(0..self.seeds.len())];
                    let from = random.usize(0..other.len());
                    packet.truncate(place);
                    packet.extend_from_slice(&other[from..]);
                }
            }
        }
        packet
    }

    fn check(&mut self, reply: &[u8]) {
        self.replies += 1;
        let message = Message::from_octets(reply).expect("a reply has a header");
        assert!(message.header().qr());
        let (_, answer, authority, additional) = message.sections().expect("sections");
        assert!(answer.chain(authority).chain(additional).all(|record| record.is_ok()));
    }

    fn over_udp(&mut self) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut reply = [0; 70_000];
        for _ in 0..ROUND {
            let packet = self.packet();
            let _ = socket.send_to(&packet, self.address);
            while let Ok(length) = socket.recv(&mut reply) {
                assert!(length <= 1232, "{length} octets");
                self.check(&reply[..length]);
            }
        }
    }

    /// Fails if the server ends the connection before it has answered everything, or is silent for long.
    fn over_tcp(&mut self) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut expected = 0;
        for _ in 0..20 {
            let packet = self.packet();
            let is_query = packet.len() >= 12 && packet[2] & 0x80 == 0;
            expected += usize::from(is_query);
            let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
            stream.write_all(&[&length[..], &packet].concat())?;
        }
        for _ in 0..expected {
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut reply)?;
            self.check(&reply);
        }
        // And the stream itself broken off.
        let rubbish: Vec<u8> = (0..self.random.usize(0..300)).map(|_| self.random.u8(..)).collect();
        let _ = stream.write_all(&rubbish);
        Ok(())
    }
}

/// How a good query was answered.
#[derive(Debug, Default)]
struct Tries {
    /// Without an answer: a datagram may be lost behind the flood before it.
    lost: usize,
    /// Without an answer, but nobody here had a processor to answer with: the machine was busy with something else.
    starved: usize,
}

/// `None` if the server does not answer.
fn try_until_answered(address: SocketAddr) -> Option<Tries> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TRY)).unwrap();
    let (mut reply, mut tries) = ([0; 2000], Tries::default());
    while tries.lost < TRIES && tries.starved < MOST_TRIES {
        let before = starved();
        socket.send_to(&wire::query("web.shop.svc.clusterset.local", "A"), address).unwrap();
        let received = socket.recv(&mut reply);
        if received.is_ok_and(|length| wire::outcome(&reply[..length]).status == "NOERROR") {
            return Some(tries);
        }
        if starved() - before > TRY / 2 { tries.starved += 1 } else { tries.lost += 1 }
    }
    None
}

/// How long the threads of this process could have run but had no processor, all together.
fn starved() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let waited = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(waited.sum())
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// What came of a run.
#[derive(Debug, Default)]
struct Report {
    packets: usize,
    replies: usize,
    rounds: usize,
    /// Good queries that had to be sent again: lost, or not answered because the machine was busy with something else.
    lost: usize,
    starved: usize,
    /// Kilobytes of the process, after the first rounds and at most.
    settled: usize,
    largest: usize,
}

impl Report {
    fn weigh(&mut self) {
        let now = resident();
        self.largest = self.largest.max(now);
        if self.rounds == 50 {
            self.settled = now;
        }
        let grown = self.settled != 0 && now > self.settled + 64 * 1024;
        assert!(!grown, "the server grows: {} to {now} kB", self.settled);
    }
}

fn run(address: SocketAddr, duration: Duration, seed: u64) -> Report {
    let (begin, mut fuzz, mut report) = (Instant::now(), Fuzz::new(address, seed), Report::default());
    while report.rounds == 0 || begin.elapsed() < duration {
        fuzz.over_udp();
        let before = starved();
        if let Err(error) = fuzz.over_tcp() {
            assert!(starved() - before > TRY / 2, "over TCP: {error}, seed {seed}, {report:?}");
            report.starved += 1;
        }
        let tries = try_until_answered(address);
        let tries = tries.unwrap_or_else(|| panic!("a good query is not answered: seed {seed}, {report:?}"));
        report.rounds += 1;
        report.packets += ROUND + 20;
        report.replies = fuzz.replies;
        report.lost += tries.lost;
        report.starved += tries.starved;
        report.weigh();
    }
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_of_mutated_packets_breaks_nothing() {
    let world = World::new().await;
    let address = world.address;
    let report =
        tokio::task::spawn_blocking(move || run(address, Duration::ZERO, 1)).await.expect("no panic");
    // Those over TCP at least: nobody waits for the others.
    assert!(report.replies > 0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "as long as wanted: cargo xtask fuzz dns --minutes N"]
#[allow(clippy::print_stdout, reason = "the figures are for the person who asked")]
async fn many() {
    let world = World::new().await;
    let address = world.address;
    let duration = Duration::from_secs(number("MINUTES", 1) * 60);
    let seed = number("SEED", 1);
    println!("seed {seed}");
    let report = tokio::task::spawn_blocking(move || run(address, duration, seed)).await.expect("no panic");
    println!("the server still answers: {report:?}");
}

/// The packets of the same seed without a network in between: much more of them in the same time.
fn replay(answerer: &Answerer, rounds: usize, seed: u64) -> usize {
    let mut fuzz = Fuzz::new("127.0.0.1:1".parse().unwrap(), seed);
    let (mut scratch, mut out) = (Scratch::new(seed), vec![0; 65_535]);
    let from = IpAddr::from([127, 0, 0, 1]);
    for _ in 0..rounds {
        for number in 0..ROUND + 20 {
            let packet = fuzz.packet();
            let transport = if number < ROUND { Transport::Udp } else { Transport::Tcp };
            let verdict = answerer.answer(&mut scratch, &packet, from, transport, &mut out);
            if let Verdict::Reply(facts) | Verdict::Follow(facts) = verdict {
                let reply = std::mem::take(&mut out);
                fuzz.check(&reply[..facts.size]);
                out = reply;
            }
        }
        let rubbish = fuzz.random.usize(0..300);
        for _ in 0..rubbish {
            fuzz.random.u8(..);
        }
    }
    fuzz.replies
}

#[tokio::test]
async fn mutated_packets_are_answered_in_process() {
    let world = World::new().await;
    let rounds = usize::try_from(number("ROUNDS", 10)).unwrap();
    let replies = replay(&world.answerer, rounds, number("SEED", 1));
    assert!(replies > rounds * ROUND / 2, "{replies} replies in {rounds} rounds");
}
