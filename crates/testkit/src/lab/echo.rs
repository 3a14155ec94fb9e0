//! Servers that say who they are and who asked, and the clients that ask them.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::network::Namespace;

/// Longer than any answer takes here; what is dropped takes as long.
const PATIENCE: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A server in a namespace, for both protocols and families; ends with this value.
#[derive(Debug)]
pub struct Echo {
    ended: Arc<AtomicBool>,
}

impl Echo {
    /// Answers on a port of every address of the namespace with its name.
    pub fn start(namespace: &Namespace, port: u16) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let everywhere: SocketAddr = (IpAddr::from([0_u16; 8]), port).into();
        let (tcp, udp) = namespace.within(|| {
            let tcp = TcpListener::bind(everywhere).expect("a free port for TCP");
            (tcp, UdpSocket::bind(everywhere).expect("a free port for UDP"))
        });
        udp.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let (name, done) = (namespace.name().to_owned(), ended.clone());
        std::thread::spawn(move || serve_tcp(&tcp, &name, &done));
        let (name, done) = (namespace.name().to_owned(), ended.clone());
        std::thread::spawn(move || serve_udp(&udp, &name, &done));
        Self { ended }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn serve_tcp(listener: &TcpListener, name: &str, ended: &AtomicBool) {
    for stream in listener.incoming() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut stream) = stream
            && let Ok(peer) = stream.peer_addr()
        {
            let _ = stream.write_all(line(name, peer).as_bytes());
        }
    }
}

fn serve_udp(socket: &UdpSocket, name: &str, ended: &AtomicBool) {
    let mut buffer = [0; 64];
    while !ended.load(Ordering::Relaxed) {
        if let Ok((_, peer)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(line(name, peer).as_bytes(), peer);
        }
    }
}

fn line(name: &str, peer: SocketAddr) -> String {
    format!("{name} {}", peer.ip().to_canonical())
}

/// Who answered, and whom it saw asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub server: String,
    pub peer: IpAddr,
}

impl Answer {
    fn read(line: &str) -> io::Result<Self> {
        let (server, peer) = line.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
        let peer = peer.parse().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self { server: server.to_owned(), peer })
    }
}

/// Asks from a namespace, each time with a new connection, until all have answered. Panics if one does not.
pub fn ask(from: &Namespace, to: SocketAddr, protocol: Protocol, times: usize) -> Vec<Answer> {
    let ask = || (0..times).map(|_| ask_once(to, protocol)).collect::<io::Result<Vec<_>>>();
    from.within(ask).unwrap_or_else(|error| panic!("{} asks {to}: {error}", from.name()))
}

/// Asks once and tells what came of it: an error of kind `ConnectionRefused` or `TimedOut`, usually.
pub fn try_ask(from: &Namespace, to: SocketAddr, protocol: Protocol) -> io::Result<Answer> {
    from.within(|| ask_once(to, protocol)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })
}

fn ask_once(to: SocketAddr, protocol: Protocol) -> io::Result<Answer> {
    let mut line = String::new();
    match protocol {
        Protocol::Tcp => {
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_to_string(&mut line)?;
        }
        Protocol::Udp => {
            let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.send(b"?")?;
            let mut buffer = [0; 256];
            let length = socket.recv(&mut buffer)?;
            line.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }
    Answer::read(&line)
}
