//! What the built-in servers are made of: HTTP by hyper, lines over TCP, datagrams.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

/// More connections than this wait.
const MOST_CONNECTIONS: usize = 1024;

/// Every address of both families.
fn everywhere(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

/// The address as the network knows it, whatever family the socket is of.
fn plain(peer: SocketAddr) -> SocketAddr {
    (peer.ip().to_canonical(), peer.port()).into()
}

/// Answers HTTP requests.
pub(super) async fn serve_http<A>(port: u16, answer: A) -> io::Result<()>
where
    A: Fn(&Request<Incoming>, SocketAddr) -> Response<Full<Bytes>> + Clone + Send + 'static,
{
    accept(port, move |stream, peer| {
        let answer = answer.clone();
        async move {
            let service = service_fn(move |request| {
                let response = answer(&request, peer);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await
}

/// Says something to whoever connects, and hangs up.
pub(super) async fn serve_tcp<A>(port: u16, answer: A) -> io::Result<()>
where
    A: Fn(SocketAddr) -> String + Clone + Send + 'static,
{
    accept(port, move |mut stream, peer| {
        let text = answer(peer);
        async move {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

/// Hands each connection to a task of its own.
pub(super) async fn accept<H, F>(port: u16, handle: H) -> io::Result<()>
where
    H: Fn(TcpStream, SocketAddr) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(everywhere(port)).await?;
    let room = std::sync::Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
        match listener.accept().await {
            Ok((stream, peer)) => {
                let work = handle(stream, plain(peer));
                tokio::spawn(async move {
                    work.await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Answers each datagram with one.
pub(super) async fn serve_udp(port: u16, answer: impl Fn(&[u8], SocketAddr) -> String) -> io::Result<()> {
    let socket = UdpSocket::bind(everywhere(port)).await?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if let Ok((count, peer)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(answer(&buffer[..count], plain(peer)).as_bytes(), peer).await;
        }
    }
}
