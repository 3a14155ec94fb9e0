//! The process under test.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// A server; dropped, it is killed.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts one, under a shell that first does `before`.
    pub(crate) fn start(home: &Path, port: u16, before: &str) -> Self {
        let command =
            format!("{before} exec \"$0\" apiserver --clusters 1 --port {port} --dir . --data data");
        let mut child = Command::new("sh")
            .args(["-c", &command, env!("CARGO_BIN_EXE_tombolo")])
            .current_dir(home)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let mut server = Self { child };
        assert!(line.ends_with("ready:\n"), "{line:?} {}", server.last_words());
        // Whoever closes the pipe kills who writes to it.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        server
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end and gives what was said.
    pub(crate) fn last_words(&mut self) -> String {
        let mut said = String::new();
        let _ = self.child.stderr.take().unwrap().read_to_string(&mut said);
        let _ = self.child.wait();
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) async fn client(home: &Path) -> Client {
    let config = Kubeconfig::read_from(home.join("kubeconfig")).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    config.default_namespace = "default".into();
    Client::try_from(config).unwrap()
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
