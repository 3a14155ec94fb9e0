//! How the containers of a pod find names: files that they see in place of this computer's.
//!
//! `nsswitch.conf` is one of them, because a computer may ask a daemon of its own for the names of hosts (`resolve` of systemd),
//! over a socket that no network namespace hides; and that one knows nothing of clusters.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where this computer says what is asked for what.
const SWITCH: &str = "/etc/nsswitch.conf";

/// The files.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Names {
    resolv_conf: PathBuf,
    /// None where this computer has none: its library then asks servers by itself.
    nsswitch_conf: Option<PathBuf>,
}

impl Names {
    /// Those of the pods of a namespace that ask this server. They are written into `scratch`.
    pub(super) fn provide(
        scratch: &Path,
        cluster: &str,
        namespace: &str,
        dns: SocketAddr,
    ) -> io::Result<Self> {
        let text = format!(
            "nameserver {}\nsearch {namespace}.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
            dns.ip()
        );
        let resolv_conf = keep(scratch.join(format!("{cluster}-{namespace}.resolv.conf")), &text)?;
        let switch = std::fs::read_to_string(SWITCH).ok();
        let switch =
            switch.map(|text| keep(scratch.join(format!("{cluster}.nsswitch.conf")), &by_dns(&text)));
        Ok(Self { resolv_conf, nsswitch_conf: switch.transpose()? })
    }

    /// The files, each with the place where a container expects it.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Path, &'static str)> {
        let switch = self.nsswitch_conf.iter().map(|file| (file.as_path(), SWITCH));
        std::iter::once((self.resolv_conf.as_path(), "/etc/resolv.conf")).chain(switch)
    }
}

/// Others may have it mounted, so it is never replaced; and it always says the same.
fn keep(path: PathBuf, text: &str) -> io::Result<PathBuf> {
    if std::fs::read_to_string(&path).ok().as_deref() != Some(text) {
        std::fs::write(&path, text)?;
    }
    Ok(path)
}

/// The same, but for names of hosts files and servers only.
fn by_dns(switch: &str) -> String {
    let is_of_hosts =
        |line: &&str| line.split_once(':').is_some_and(|(database, _)| database.trim() == "hosts");
    let others = switch.lines().filter(|line| !is_of_hosts(line));
    others.chain(["hosts: files dns"]).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_come_from_files_and_servers_and_all_else_from_where_it_did() {
        let cases = [
            (
                "passwd: files systemd\nhosts:  files resolve [!UNAVAIL=return] dns\n# hosts: old\nnetworks: files",
                "passwd: files systemd\n# hosts: old\nnetworks: files\nhosts: files dns\n",
            ),
            ("", "hosts: files dns\n"),
        ];
        for (switch, expected) in cases {
            assert_eq!(by_dns(switch), expected);
            assert_eq!(by_dns(expected), expected);
        }
    }
}
