//! `agnhost netexec`, as far as tests of services use it: `/hostname`, `/clientip`, `/echo`, `/healthz`, and the same words
//! in datagrams.

use std::io;
use std::net::SocketAddr;

use http::{Response, StatusCode};
use http_body_util::Full;

use super::{port, server};
use crate::kubelet::Identity;

pub(super) async fn run(identity: Identity, arguments: &[String]) -> io::Result<()> {
    let (http, udp) = (port(arguments, "http-port", 8080)?, port(arguments, "udp-port", 8081)?);
    let (web, datagrams) = (identity.clone(), identity);
    let web = server::serve_http(http, move |request, peer| {
        let found = answer(&web, request.uri().path(), request.uri().query().unwrap_or_default(), peer);
        let code = if found.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let mut response = Response::new(Full::from(found.unwrap_or_default()));
        *response.status_mut() = code;
        response
    });
    let datagram = server::serve_udp(udp, move |asked, peer| {
        let text = String::from_utf8_lossy(asked);
        let (word, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        match word.to_ascii_lowercase().as_str() {
            "echo" => rest.to_owned(),
            "clientip" => peer.to_string(),
            _ => datagrams.pod.clone(),
        }
    });
    tokio::try_join!(web, datagram).map(drop)
}

fn answer(identity: &Identity, path: &str, query: &str, peer: SocketAddr) -> Option<String> {
    match path {
        "/hostname" | "/hostName" => Some(identity.pod.clone()),
        "/clientip" => Some(peer.to_string()),
        "/echo" => {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            Some(
                pairs
                    .find(|(name, _)| name == "msg")
                    .map(|(_, value)| value.into_owned())
                    .unwrap_or_default(),
            )
        }
        "/healthz" | "/readyz" => Some(String::new()),
        "/" => Some(format!("NOW: {}", jiff::Timestamp::now())),
        _ => None,
    }
}
