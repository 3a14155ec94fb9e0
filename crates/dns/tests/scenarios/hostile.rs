//! Those who mean no good: floods, slow readers, rubbish. Others go on being answered.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use tombolo_dns::Config;

use crate::live::{ask, connect, receive, send};
use crate::wire;
use crate::world::{World, config};

const WEB: &str = "web.shop.svc.clusterset.local";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_from_one_address_is_limited_and_another_is_answered() {
    let world = World::with(Config { rate_limit: 50, ..config() }).await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        let flood = UdpSocket::bind("127.0.0.66:0").unwrap();
        let message = wire::query(WEB, "A");
        for _ in 0..2000 {
            flood.send_to(&message, address).unwrap();
        }
        assert_eq!(ask(address, WEB, "A").unwrap().status, "NOERROR");
        flood.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let (mut answered, mut cut, mut reply) = (0, 0, [0; 2000]);
        while flood.recv(&mut reply).is_ok() {
            if reply[2] & 0x02 == 0 { answered += 1 } else { cut += 1 }
        }
        assert!((50..=1000).contains(&answered), "{answered} of 2000 were answered");
        assert!(cut > 0, "nobody was told to come over TCP");
    });
    asking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_over_udp_disturbs_nobody() {
    let world = World::new().await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let valid = wire::query(WEB, "SRV");
        for round in 0..5000 {
            let mut message = valid.clone();
            for _ in 0..random.usize(1..6) {
                let place = random.usize(0..message.len());
                message[place] = random.u8(..);
            }
            message.truncate(random.usize(0..=message.len()));
            if round % 50 == 0 {
                message = vec![random.u8(..); random.usize(0..60_000)];
            }
            socket.send_to(&message, address).unwrap();
        }
        assert_eq!(ask(address, WEB, "A").unwrap().status, "NOERROR");
    });
    asking.await.unwrap();
}

fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_only_wait_make_room_for_those_that_ask() {
    let few =
        Config { connections: 4, connections_per_address: 3, idle: Duration::from_secs(600), ..config() };
    let world = World::with(few).await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        // The slow ones have begun a message and never end it.
        let mut slow: Vec<TcpStream> = (0..3).map(|_| connect(address)).collect();
        for stream in &mut slow {
            stream.write_all(&[0]).unwrap();
        }
        // One address may have three connections: the fourth is closed.
        assert!(is_closed(&mut connect(address)));
        let from = |last: u8| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from(([127, 0, 1, last], 0)).into()).unwrap();
            socket.connect(&address.into()).unwrap();
            TcpStream::from(socket)
        };
        // Others come: the silent ones have to go.
        let mut others: Vec<TcpStream> = (1..=4).map(from).collect();
        for stream in &mut others {
            send(stream, &wire::query(WEB, "A"));
            assert_eq!(wire::outcome(&receive(stream)).status, "NOERROR");
        }
        assert!(slow.iter_mut().all(is_closed));
    });
    asking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_closed_and_rubbish_gets_an_error() {
    let world = World::with(Config { idle: Duration::from_millis(300), ..config() }).await;
    let address = world.address;
    let asking = tokio::task::spawn_blocking(move || {
        let mut stream = connect(address);
        send(&mut stream, &[1; 40]);
        assert_eq!(receive(&mut stream)[3] & 0x0f, 1);
        assert!(is_closed(&mut stream));
    });
    asking.await.unwrap();
}
