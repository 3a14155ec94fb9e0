//! A small `curl` for pods on computers that have none: it gets things over HTTP, and no more.
//!
//! It is this very program under another name, last on the containers' path. Exit codes are curl's own.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The name under which it is called.
pub(crate) const NAME: &str = "curl";

/// More than any page that is looked at here.
const MOST_BYTES: u64 = 16 << 20;

/// Why there is nothing to show, with curl's exit code.
#[derive(Debug, PartialEq, Eq)]
struct Problem(u8, String);

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    host: String,
    port: u16,
    path: String,
    /// A bad answer is a failure.
    fail: bool,
    silent: bool,
    patience: Duration,
}

pub(super) fn run(words: &[String]) -> ExitCode {
    let asked = match read(words) {
        Ok(asked) => asked,
        Err(problem) => return complain(&problem, false),
    };
    let written = get(&asked)
        .and_then(|body| io::stdout().write_all(&body).map_err(|error| Problem(23, error.to_string())));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => complain(&problem, asked.silent),
    }
}

fn complain(Problem(code, why): &Problem, silent: bool) -> ExitCode {
    if !silent {
        let _ = writeln!(io::stderr(), "curl: ({code}) {why}");
    }
    ExitCode::from(*code)
}

fn read(words: &[String]) -> Result<Asked, Problem> {
    let wrong = |what: &str| {
        Problem(2, format!("this small curl takes -s, -S, -f, -m SECONDS and one URL, not {what:?}"))
    };
    let (mut fail, mut silent, mut patience, mut url) = (false, false, Duration::from_secs(120), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            None if url.is_none() => url = Some(word.as_str()),
            Some("m" | "-max-time") => {
                let seconds = words.next().and_then(|text| text.parse().ok()).ok_or_else(|| wrong(word))?;
                patience = Duration::try_from_secs_f32(seconds).map_err(|_| wrong(word))?;
            }
            Some(flags) if !flags.is_empty() && flags.chars().all(|flag| "sSf".contains(flag)) => {
                fail |= flags.contains('f');
                silent |= flags.contains('s');
            }
            _ => return Err(wrong(word)),
        }
    }
    let url = url.ok_or_else(|| wrong(""))?;
    let rest = url.strip_prefix("http://").ok_or_else(|| Problem(1, format!("{url} is not over http")))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| Problem(3, format!("{port:?} is no port")))?),
        None => (authority, 80),
    };
    let path = if path.is_empty() { "/" } else { path };
    Ok(Asked { host: host.to_owned(), port, path: path.to_owned(), fail, silent, patience })
}

fn get(asked: &Asked) -> Result<Vec<u8>, Problem> {
    let deadline = Instant::now() + asked.patience;
    let unknown = |_| Problem(6, format!("Could not resolve host: {}", asked.host));
    let addresses = (asked.host.as_str(), asked.port).to_socket_addrs().map_err(unknown)?;
    let mut stream = connect(addresses, deadline)?;
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Problem(28, "Operation timed out".to_owned()),
        _ => Problem(56, error.to_string()),
    };
    stream.set_read_timeout(Some(left)).map_err(lost)?;
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: tombolo\r\nAccept: */*\r\n\r\n",
        asked.path, asked.host
    );
    stream.write_all(request.as_bytes()).map_err(lost)?;
    let mut answer = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut answer).map_err(lost)?;
    let (code, body) = split(&answer).ok_or_else(|| Problem(52, "Empty reply from server".to_owned()))?;
    if asked.fail && code >= 400 {
        return Err(Problem(22, format!("The requested URL returned error: {code}")));
    }
    Ok(body.to_vec())
}

fn connect(
    addresses: impl Iterator<Item = std::net::SocketAddr>,
    deadline: Instant,
) -> Result<TcpStream, Problem> {
    let mut last = Problem(7, "there is no address to connect to".to_owned());
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Problem(28, "Connection timed out".to_owned()));
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                last = Problem(28, "Connection timed out".to_owned());
            }
            Err(error) => last = Problem(7, format!("Failed to connect to {address}: {error}")),
        }
    }
    Err(last)
}

/// The code and the body of an answer.
fn split(answer: &[u8]) -> Option<(u16, &[u8])> {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let line = std::str::from_utf8(&answer[..head]).ok()?.lines().next()?;
    Some((line.split_whitespace().nth(1)?.parse().ok()?, &answer[head + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_typed_is_understood_or_refused() {
        let asked = read(&words("-sf -m 1.5 http://echo.demo:8080/path?x=1")).unwrap();
        assert_eq!((asked.host.as_str(), asked.port, asked.path.as_str()), ("echo.demo", 8080, "/path?x=1"));
        assert!(asked.fail && asked.silent);
        assert_eq!(asked.patience, Duration::from_millis(1500));
        assert_eq!(read(&words("http://echo")).unwrap().path, "/");
        for (text, code) in [
            ("", 2),
            ("-X POST http://echo", 2),
            ("-m soon http://echo", 2),
            ("-m -1 http://echo", 2),
            ("http://a http://b", 2),
            ("https://echo", 1),
            ("http://echo:many", 3),
        ] {
            assert_eq!(read(&words(text)).unwrap_err().0, code, "{text}");
        }
    }

    #[test]
    fn answers_are_taken_apart_and_what_is_none_is_refused() {
        assert_eq!(split(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nbody\r\n\r\n"), Some((200, &b"body\r\n\r\n"[..])));
        for bytes in [&b""[..], b"HTTP/1.1", b"HTTP/1.1 xx OK\r\n\r\n", b"\r\n\r\n", b"\xff \xfe\r\n\r\n"] {
            assert_eq!(split(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_page_is_fetched_and_its_code_counts_when_asked_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            for code in ["200 OK", "404 Not Found", "404 Not Found"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(format!("HTTP/1.0 {code}\r\n\r\nhere").as_bytes()).unwrap();
            }
        });
        let asked = |fail| Asked {
            host: "127.0.0.1".into(),
            port,
            path: "/".into(),
            fail,
            silent: true,
            patience: Duration::from_secs(60),
        };
        assert_eq!(get(&asked(true)), Ok(b"here".to_vec()));
        assert_eq!(get(&asked(false)), Ok(b"here".to_vec()));
        assert_eq!(get(&asked(true)).unwrap_err().0, 22);
        server.join().unwrap();
        assert_eq!(get(&asked(true)).unwrap_err().0, 7, "nobody listens any more");
    }
}
