//! `alpine/socat`, as far as tests of services use it: listen on a port, run a command for whoever comes, send back what it
//! prints.

use std::io;
use std::process::Stdio;

use tokio::process::Command;

use super::server;

/// What is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listen {
    Tcp(u16),
    Udp(u16),
}

pub(super) async fn run(arguments: &[String]) -> io::Result<()> {
    let (listen, command) = parse(arguments)?;
    match listen {
        Listen::Tcp(port) => {
            server::accept(port, move |stream, _| {
                let command = command.clone();
                async move {
                    let said = output(&command).await;
                    let mut stream = stream;
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &said).await;
                }
            })
            .await
        }
        Listen::Udp(port) => serve_udp(port, &command).await,
    }
}

async fn serve_udp(port: u16, command: &str) -> io::Result<()> {
    let socket = tokio::net::UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, port)).await?;
    let mut buffer = [0; 2048];
    loop {
        if let Ok((_, peer)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&output(command).await, peer).await;
        }
    }
}

async fn output(command: &str) -> Vec<u8> {
    let run = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).output().await;
    run.map(|output| output.stdout).unwrap_or_default()
}

fn parse(arguments: &[String]) -> io::Result<(Listen, String)> {
    let mut addresses = arguments.iter().filter(|word| !word.starts_with('-'));
    let (Some(from), Some(to), None) = (addresses.next(), addresses.next(), addresses.next()) else {
        return Err(io::Error::other("socat: two addresses are needed"));
    };
    let unknown = |what: &str| io::Error::other(format!("socat: {what:?} is not supported here"));
    let first = from.split(',').next().unwrap_or_default();
    let (kind, port) = first.split_once(':').ok_or_else(|| unknown(from))?;
    let port: u16 = port.parse().map_err(|_| unknown(from))?;
    let kind = kind.to_ascii_uppercase();
    let listen = match kind.as_str() {
        "TCP-LISTEN" | "TCP4-LISTEN" | "TCP6-LISTEN" | "TCP-L" => Listen::Tcp(port),
        "UDP-LISTEN" | "UDP4-LISTEN" | "UDP6-LISTEN" | "UDP-L" | "UDP4-RECVFROM" | "UDP6-RECVFROM"
        | "UDP-RECVFROM" => Listen::Udp(port),
        _ => return Err(unknown(from)),
    };
    let (what, command) = to.split_once(':').ok_or_else(|| unknown(to))?;
    match what.to_ascii_uppercase().as_str() {
        "SYSTEM" | "EXEC" => Ok((listen, command.to_owned())),
        _ => Err(unknown(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_test_pods_ask_for_is_understood_and_the_rest_is_refused() {
        let words = |text: &[&str]| text.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let tcp = words(&["-v", "-v", "TCP-LISTEN:42,crlf,reuseaddr,fork", "SYSTEM:echo pod ip 10.1.1.2"]);
        assert_eq!(parse(&tcp).unwrap(), (Listen::Tcp(42), "echo pod ip 10.1.1.2".to_owned()));
        let udp = words(&["UDP-LISTEN:42,fork", "SYSTEM:date"]);
        assert_eq!(parse(&udp).unwrap().0, Listen::Udp(42));
        for bad in
            [&["-v"][..], &["TCP-LISTEN:42"], &["TCP-LISTEN:x", "SYSTEM:a"], &["TCP-LISTEN:1", "STDOUT"]]
        {
            assert!(parse(&words(bad)).is_err(), "{bad:?}");
        }
    }
}
