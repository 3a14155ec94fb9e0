//! How long a reply takes when queries come at a steady rate, whether or not earlier ones were answered.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::workload::{name, scattered};

/// A query for A with EDNS.
pub(super) fn query(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    message
}

/// The delay that 99 of 100 replies stay below. A query without a reply counts as a second.
pub(super) fn at(port: u16, names: u32, rate: u32, duration: Duration) -> io::Result<Duration> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(("127.0.0.1", port))?;
    socket.set_nonblocking(true)?;
    let total = (duration.as_secs_f64() * f64::from(rate)) as u32;
    let queries: Vec<Vec<u8>> = (0..1024).map(|step| query(0, &name(scattered(step, names)))).collect();
    let mut sent = vec![None; 1 << 16];
    let mut delays = Vec::with_capacity(total as usize);
    let (begin, mut next, mut reply) = (Instant::now(), 0_u32, [0; 2048]);
    while next < total || begin.elapsed() < duration + Duration::from_millis(200) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u32;
        while next < due.min(total) {
            let mut message = queries[next as usize % queries.len()].clone();
            message[..2].copy_from_slice(&(next as u16).to_be_bytes());
            sent[next as usize & 0xffff] = Some(Instant::now());
            let _ = socket.send(&message);
            next += 1;
        }
        while let Ok(length) = socket.recv(&mut reply) {
            let id = usize::from(u16::from_be_bytes([reply[0], reply[1]]));
            delays.extend(sent[id].take().filter(|_| length > 12).map(|sent: Instant| sent.elapsed()));
        }
    }
    delays.resize(total as usize, Duration::from_secs(1));
    delays.sort_unstable();
    Ok(delays[delays.len() * 99 / 100])
}
