//! What the parts of a playground say about themselves at their admin addresses.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tombolo_playground::PartAt;

/// Far more than a page of metrics.
const MOST_BYTES: u64 = 16 << 20;
/// It is on this computer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a part says about its work; nothing if it does not answer.
pub(crate) async fn metrics(part: &PartAt) -> Option<String> {
    fetch(&part.admin, "/metrics").await.ok().map(|(_, page)| page)
}

/// What a part waits for; nothing if it is ready.
pub(crate) async fn waits_for(part: &PartAt) -> Option<String> {
    match fetch(&part.admin, "/readyz").await {
        Ok((200, _)) => None,
        Ok((_, page)) => Some(page.split_whitespace().collect::<Vec<_>>().join(" ")),
        Err(error) => Some(format!("it does not answer: {error}")),
    }
}

async fn fetch(address: &str, path: &str) -> io::Result<(u16, String)> {
    tokio::time::timeout(PATIENCE, get(address, path)).await.map_err(io::Error::from)?
}

/// The code and the body of an answer.
async fn get(address: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    let mut page = String::new();
    stream.take(MOST_BYTES).read_to_string(&mut page).await?;
    let (head, body) = page.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let code = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    Ok((code.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}
