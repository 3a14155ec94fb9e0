//! The servers that are compared, each on core 0 with one worker.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// A running server; ends with this value.
pub(super) struct Peer {
    name: &'static str,
    port: u16,
    child: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // NSD's children end when their parent is asked to.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn pinned(program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0", program]).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::null());
    command
}

impl Peer {
    pub(super) fn ours(
        name: &'static str,
        program: &Path,
        port: u16,
        names: u32,
        changes: u32,
    ) -> Result<Self, Failure> {
        let mut child = pinned(&program.display().to_string())
            .args([port.to_string(), names.to_string(), changes.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let said = child.stdout.take().ok_or("no output")?;
        BufReader::new(said).read_line(&mut line)?;
        Self { name, port, child }.ready()
    }

    pub(super) fn nsd(dir: &Path, port: u16) -> Result<Self, Failure> {
        let dir_text = dir.display();
        let config = format!(
            "server:\n  ip-address: 127.0.0.1\n  port: {port}\n  server-count: 1\n  username: \"\"\n  zonesdir: \"{dir_text}\"\n  \
             database: \"\"\n  pidfile: \"\"\n  zonelistfile: \"{dir_text}/nsd.list\"\n  xfrdfile: \"{dir_text}/nsd.xfrd\"\n  \
             logfile: \"{dir_text}/nsd.log\"\n  rrl-ratelimit: 0\n  hide-version: yes\nremote-control:\n  control-enable: no\n\
             zone:\n  name: clusterset.local\n  zonefile: zone\n"
        );
        let file = dir.join("nsd.conf");
        std::fs::write(&file, config)?;
        let child = pinned("nsd").arg("-d").arg("-c").arg(&file).spawn()?;
        Self { name: "NSD", port, child }.ready()
    }

    pub(super) fn knot(dir: &Path, port: u16) -> Result<Self, Failure> {
        let dir_text = dir.display();
        let config = format!(
            "server:\n  listen: 127.0.0.1@{port}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n  rundir: \
             {dir_text}\nlog:\n  - target: {dir_text}/knot.log\n    any: warning\ndatabase:\n  storage: {dir_text}\nzone:\n  - \
             domain: clusterset.local\n    storage: {dir_text}\n    file: zone\n    zonefile-sync: -1\n"
        );
        let file = dir.join("knot.conf");
        std::fs::write(&file, config)?;
        let child = pinned("knotd").arg("-c").arg(&file).spawn()?;
        Self { name: "Knot", port, child }.ready()
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Waits until it has an answer.
    fn ready(self) -> Result<Self, Failure> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        let begin = Instant::now();
        let query = super::latency::query(1, &super::workload::name(0));
        while begin.elapsed() < Duration::from_secs(60) {
            let _ = socket.send_to(&query, ("127.0.0.1", self.port));
            let mut reply = [0; 512];
            if socket.recv(&mut reply).is_ok_and(|length| length > 12 && reply[7] > 0) {
                return Ok(self);
            }
        }
        Err(format!("{} did not become ready", self.name).into())
    }

    /// The server's own process and all that it started.
    fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.child.id()];
        let mut place = 0;
        while let Some(id) = all.get(place) {
            let children =
                std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            place += 1;
        }
        all
    }

    /// CPU time it has had so far.
    pub(super) fn cpu(&self) -> Result<Duration, Failure> {
        let mut ticks = 0;
        for id in self.processes() {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
            let after = stat.rsplit_once(')').ok_or("no stat")?.1;
            let fields: Vec<&str> = after.split_whitespace().collect();
            // utime and stime are the fields 14 and 15 of all, of which two came before.
            for place in [11, 12] {
                ticks += fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
            }
        }
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Resident memory in megabytes, of all processes.
    pub(super) fn memory(&self) -> Result<f64, Failure> {
        let mut kilobytes = 0.0;
        for id in self.processes() {
            let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
            let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
            kilobytes += line.split_whitespace().nth(1).ok_or("no VmRSS")?.parse::<f64>()?;
        }
        Ok(kilobytes / 1024.0)
    }
}
