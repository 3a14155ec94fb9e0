//! `tombolo/echo`: says who answered and whom it saw, over HTTP, TCP and UDP.

use std::io;
use std::net::SocketAddr;

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{port, server};
use crate::kubelet::Identity;

/// `--http PORT`, `--tcp PORT`, `--udp PORT`; `--drain SECONDS` is for whoever runs it.
pub(super) async fn run(identity: Identity, arguments: &[String]) -> io::Result<()> {
    let (http, tcp, udp) =
        (port(arguments, "http", 8080)?, port(arguments, "tcp", 8081)?, port(arguments, "udp", 8081)?);
    let (web, datagrams) = (identity.clone(), identity.clone());
    let web = server::serve_http(http, move |request, peer| {
        let mut told = about(&web, peer);
        told["path"] = json!(request.uri().path_and_query().map_or("/", |path| path.as_str()));
        let mut response = Response::new(Full::from(format!("{told}\n")));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    });
    let stream = server::serve_tcp(tcp, move |peer| format!("{}\n", about(&identity, peer)));
    let datagram = server::serve_udp(udp, move |_, peer| format!("{}\n", about(&datagrams, peer)));
    tokio::try_join!(web, stream, datagram).map(drop)
}

fn about(identity: &Identity, peer: SocketAddr) -> Value {
    let mut told = serde_json::to_value(identity).unwrap_or_default();
    told["client"] = json!(peer.ip().to_string());
    told
}
