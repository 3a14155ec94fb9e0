//! A forwarder and an upstream that says what it should not.

use std::sync::Arc;

use tokio::net::UdpSocket;

use super::*;

/// A socket for an upstream, and a forwarder that asks it.
async fn pair() -> (UdpSocket, Arc<Forwarder>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, Arc::new(Forwarder::new(&[address], &Network::own(), Metrics::default())))
}

/// A question for an address, with an OPT record that has this data.
fn question(name: &[u8], options: &[u8]) -> Vec<u8> {
    let opt = [&[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, options.len() as u8][..], options].concat();
    [&[7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], name, &[0, 1, 0, 1], &opt].concat()
}

const NAME: &[u8] = b"\x03www\x07example\x00";
/// Code 10, and a client's half of it.
const COOKIE: &[u8] = b"\x00\x0a\x00\x08delicate";

#[tokio::test]
async fn nobody_gets_the_cookie_of_another() {
    let (socket, forwarder) = pair().await;
    let upstream = tokio::spawn(async move {
        let mut buffer = [0; 2000];
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        let asked = buffer[..length].to_vec();
        // The question, an address that may be kept for a minute, and a cookie.
        let end = HEADER + NAME.len() + 4;
        let address = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];
        let opt = [&[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, COOKIE.len() as u8][..], COOKIE].concat();
        let mut reply = [&asked[..end], &address, &opt].concat();
        (reply[2], reply[7], reply[11]) = (0x81, 1, 1);
        socket.send_to(&reply, from).await.unwrap();
        asked
    });
    let has_cookie = |message: &[u8]| message.windows(COOKIE.len()).any(|part| part == COOKIE);
    for from in ["upstream", "cache"] {
        let asked = question(NAME, COOKIE);
        let reply = forwarder.ask(&asked, None, Transport::Udp).await.unwrap();
        assert!(!has_cookie(&reply), "from the {from}: {reply:?}");
        assert_eq!(reply[reply.len() - 11..], [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0], "from the {from}");
    }
    let asked = upstream.await.unwrap();
    assert!(!has_cookie(&asked), "{asked:?}");
    assert_eq!(asked.len(), question(NAME, &[]).len());
}

#[tokio::test]
async fn a_cut_reply_is_better_than_none_where_the_upstream_takes_no_connections() {
    let (socket, forwarder) = pair().await;
    let upstream = tokio::spawn(async move {
        let mut buffer = [0; 2000];
        for _ in 0..4 {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            buffer[2] |= 0x82;
            socket.send_to(&buffer[..length], from).await.unwrap();
        }
    });
    for _ in 0..4 {
        let reply = forwarder.ask(&question(NAME, &[]), None, Transport::Tcp).await.unwrap();
        assert_eq!(reply[2] & 0x02, 0x02);
    }
    upstream.await.unwrap();
    assert!(forwarder.upstreams[0].is_healthy());
}

#[tokio::test]
async fn an_upstream_is_asked_again_when_queries_do_not_come_back_any_more() {
    let (socket, forwarder) = pair().await;
    let answering = forwarder.clone();
    let upstream = tokio::spawn(async move {
        let (mut buffer, mut names) = ([0; 2000], Vec::new());
        for turn in 0..3 {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            // In the first turn it asks us, from whom it has the question.
            if turn == 0 {
                assert_eq!(answering.ask(&buffer[..length], None, Transport::Udp).await, None);
            }
            names.push(buffer[HEADER..length].to_vec());
            buffer[2] |= 0x80;
            socket.send_to(&buffer[..length], from).await.unwrap();
        }
        names
    });
    forwarder.look_for_loops().await;
    assert!(forwarder.upstreams[0].is_looping());
    assert_eq!(forwarder.ask(&question(NAME, &[]), None, Transport::Udp).await, None);
    forwarder.look_for_loops().await;
    assert!(!forwarder.upstreams[0].is_looping());
    assert!(forwarder.ask(&question(NAME, &[]), None, Transport::Udp).await.is_some());
    let names = upstream.await.unwrap();
    assert_ne!(names[0], names[1]);
}
