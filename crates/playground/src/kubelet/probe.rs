//! Probes: whether a container has started, lives, is ready.

use std::io;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::container::Door;

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    Http { port: u16, path: String, host: String, headers: Vec<(String, String)> },
    Tcp { port: u16 },
    Exec(Vec<String>),
}

/// A probe of a container, resolved.
#[derive(Clone, Debug)]
pub(super) struct Prober {
    question: Question,
    address: Ipv4Addr,
    pub(super) delay: Duration,
    pub(super) period: Duration,
    patience: Duration,
    pub(super) successes: u32,
    pub(super) failures: u32,
}

impl Prober {
    /// A probe that can be asked; none for what is not supported, which is said in the log.
    pub(super) fn new(probe: Option<&Probe>, container: &Container, address: Ipv4Addr) -> Option<Self> {
        let probe = probe?;
        let question = question(probe, container, address);
        if question.is_none() {
            tracing::warn!(
                container = container.name,
                "a probe is of a kind that is not supported, and not asked"
            );
        }
        let seconds = |given: Option<i32>, usual: u64| {
            Duration::from_secs(given.and_then(|given| u64::try_from(given).ok()).unwrap_or(usual))
        };
        let count = |given: Option<i32>, usual: u32| {
            given.and_then(|given| u32::try_from(given).ok()).unwrap_or(usual)
        };
        Some(Self {
            question: question?,
            address,
            delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
            patience: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
            successes: count(probe.success_threshold, 1).max(1),
            failures: count(probe.failure_threshold, 3).max(1),
        })
    }

    /// Asks once.
    pub(super) async fn ask(&self, door: &Door) -> bool {
        let asked = async {
            match &self.question {
                Question::Http { port, path, host, headers } => {
                    ask_http(self.address, *port, path, host, headers).await
                }
                Question::Tcp { port } => TcpStream::connect((self.address, *port)).await.map(|_| true),
                Question::Exec(command) => {
                    let quiet = |command: &mut std::process::Command| {
                        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                    };
                    door.run(command.clone(), quiet).await.map(|ended| ended.code == 0)
                }
            }
        };
        matches!(tokio::time::timeout(self.patience, asked).await, Ok(Ok(true)))
    }
}

fn question(probe: &Probe, container: &Container, address: Ipv4Addr) -> Option<Question> {
    if let Some(exec) = &probe.exec {
        return Some(Question::Exec(exec.command.clone().unwrap_or_default()));
    }
    if let Some(tcp) = &probe.tcp_socket {
        return Some(Question::Tcp { port: port(&tcp.port, container)? });
    }
    let get = probe.http_get.as_ref()?;
    if get.scheme.as_deref().is_some_and(|scheme| scheme != "HTTP") {
        return None;
    }
    let headers = get.http_headers.iter().flatten();
    Some(Question::Http {
        port: port(&get.port, container)?,
        path: get.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned()),
        host: get.host.clone().unwrap_or_else(|| address.to_string()),
        headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
    })
}

/// A port by number, or by its name in the container.
fn port(given: &IntOrString, container: &Container) -> Option<u16> {
    let number = match given {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            named?.container_port
        }
    };
    u16::try_from(number).ok()
}

async fn ask_http(
    address: Ipv4Addr,
    port: u16,
    path: &str,
    host: &str,
    headers: &[(String, String)],
) -> io::Result<bool> {
    let mut stream = TcpStream::connect((address, port)).await?;
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let agent = "user-agent: kube-probe/tombolo\r\nconnection: close\r\n";
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{agent}{extra}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(64).read_to_end(&mut answer).await?;
    Ok(is_good(&answer))
}

/// Any code from 200 to 399.
fn is_good(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let code = text.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).map(str::parse::<u16>);
    matches!(code, Some(Ok(200..=399)))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn codes_from_200_to_399_are_good() {
        let cases = [
            ("HTTP/1.1 200 OK\r\n", true),
            ("HTTP/1.0 302 F", true),
            ("HTTP/1.1 404 N", false),
            ("SSH-2.0", false),
            ("", false),
        ];
        for (answer, good) in cases {
            assert_eq!(is_good(answer.as_bytes()), good, "{answer}");
        }
    }

    #[test]
    fn a_port_may_be_named_and_defaults_are_those_of_kubernetes() {
        let container: Container = from_value(json!({
            "name": "c", "ports": [{"name": "web", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"port": "web"}},
            "livenessProbe": {"tcpSocket": {"port": 99}, "periodSeconds": 0},
            "startupProbe": {"grpc": {"port": 1}},
        }))
        .unwrap();
        let address = Ipv4Addr::new(10, 1, 1, 2);
        let ready = Prober::new(container.readiness_probe.as_ref(), &container, address).unwrap();
        assert!(matches!(&ready.question, Question::Http { port: 8080, path, .. } if path == "/"));
        assert_eq!((ready.period.as_secs(), ready.failures, ready.successes), (10, 3, 1));
        let live = Prober::new(container.liveness_probe.as_ref(), &container, address).unwrap();
        assert_eq!((live.question, live.period.as_secs()), (Question::Tcp { port: 99 }, 1));
        assert!(Prober::new(container.startup_probe.as_ref(), &container, address).is_none());
    }
}
