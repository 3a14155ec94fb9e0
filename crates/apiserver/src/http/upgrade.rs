//! From HTTP to what comes after it on the same connection: a WebSocket, or SPDY.

use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::OnUpgrade;

use super::{Body, Conversation, websocket};
use crate::status::Status;

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const WEBSOCKET_PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
const SPDY_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const SPDY: &str = "SPDY/3.1";

/// What is spoken from here on, with the protocol inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    WebSocket,
    Spdy,
}

/// What is offered to clients, the best first.
pub(super) struct Offered {
    pub(super) websocket: &'static [&'static str],
    pub(super) spdy: &'static [&'static str],
}

/// Agrees to what a client asks for, if it is spoken here.
pub(super) fn switch(
    asked: &Conversation<'_>,
    offered: &Offered,
) -> Result<(Spoken, Response<Body>, OnUpgrade), Status> {
    let unspoken = || {
        let (websocket, spdy) = (offered.websocket.join(" or "), offered.spdy.join(" or "));
        Status::bad_request(format!("this needs a WebSocket with {websocket}, or {SPDY} with {spdy}"))
    };
    let upgrade = || asked.upgrade.lock().ok().and_then(|mut upgrade| upgrade.take());
    let mut response = Response::new(Body::whole(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if wants_spdy(asked.headers) {
        let protocol = choose(asked.headers, &SPDY_PROTOCOL, offered.spdy).ok_or_else(unspoken)?;
        headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
        headers.insert(SPDY_PROTOCOL, HeaderValue::from_static(protocol));
        return Ok((Spoken::Spdy, response, upgrade().ok_or_else(unspoken)?));
    }
    let key = asked.headers.get(KEY).and_then(|key| key.to_str().ok()).ok_or_else(unspoken)?;
    let protocol = choose(asked.headers, &WEBSOCKET_PROTOCOL, offered.websocket).ok_or_else(unspoken)?;
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    headers.insert(ACCEPT, HeaderValue::from_str(&websocket::accept(key)).map_err(|_| unspoken())?);
    Ok((Spoken::WebSocket, response, upgrade().ok_or_else(unspoken)?))
}

fn wants_spdy(headers: &HeaderMap) -> bool {
    let wanted = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(SPDY))
}

/// The best protocol that both sides know. Clients name several in one header, or send it several times.
fn choose(headers: &HeaderMap, header: &HeaderName, known: &[&'static str]) -> Option<&'static str> {
    let offered = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    known.iter().copied().find(|protocol| offered.contains(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_protocol_that_both_know_is_chosen() {
        let mut headers = HeaderMap::new();
        headers.append(SPDY_PROTOCOL, HeaderValue::from_static("v5.channel.k8s.io, v4.channel.k8s.io"));
        headers.append(SPDY_PROTOCOL, HeaderValue::from_static("channel.k8s.io"));
        let choose = |known: &[&'static str]| choose(&headers, &SPDY_PROTOCOL, known);
        assert_eq!(choose(&["v4.channel.k8s.io", "channel.k8s.io"]), Some("v4.channel.k8s.io"));
        assert_eq!(choose(&["channel.k8s.io"]), Some("channel.k8s.io"));
        assert_eq!(choose(&["v9"]), None);
        headers.insert(UPGRADE, HeaderValue::from_static("spdy/3.1"));
        assert!(wants_spdy(&headers));
    }
}
