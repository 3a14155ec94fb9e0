//! CoreDNS' Corefile: the zones of the supercluster passed on to our DNS server.
//!
//! What we write stands between two marks, so it can be replaced and removed without a trace; nothing else is touched. Pure.

use std::net::IpAddr;

use tombolo_api::{kep, mcs};

const BEGIN: &str = "# BEGIN tombolo";
/// The same after a text that did not end with a line.
const BEGIN_ON_NEW_LINE: &str = "# BEGIN tombolo (the line before had no end)";
const END: &str = "# END tombolo";
const ZONES: [&str; 2] = [kep::ZONE, mcs::ZONE];

/// Why a Corefile is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it has a block for {0} already, which is somebody else's")]
    Served(&'static str),
    #[error("the marks of a former change are damaged: remove what stands between {BEGIN:?} and {END:?}")]
    Damaged,
}

/// The blocks that pass the zones on to `address`. A cache that keeps answers longer than they are good would keep what is
/// gone.
pub fn blocks(address: IpAddr) -> String {
    ZONES.map(|zone| block(zone, address, "")).concat()
}

fn block(zone: &str, address: IpAddr, more: &str) -> String {
    format!(
        "{zone}:53 {{\n    errors\n    cache {{\n        success 9984 5\n        denial 9984 5\n    }}\n{more}    \
         forward . {address}\n}}\n"
    )
}

/// What the Corefile of NodeLocal DNSCache lacks: it asks the node's DNS, not the cluster's, for names outside of the
/// cluster's zone. It listens on addresses of its own, and so must its blocks.
pub fn blocks_of_cache(corefile: &str, address: IpAddr) -> String {
    let bind = corefile.lines().map(str::trim).find(|line| line.starts_with("bind "));
    let bind = bind.map(|line| format!("    {line}\n")).unwrap_or_default();
    let missing = ZONES.into_iter().filter(|zone| !serves(corefile, zone));
    missing.map(|zone| block(zone, address, &bind)).collect()
}

/// The Corefile with the zones passed on, whatever it did with them before.
pub fn pass_zones_on(corefile: &str, address: IpAddr) -> Result<String, Unfit> {
    let own = stop_passing_on(corefile)?;
    if let Some(zone) = ZONES.into_iter().find(|zone| serves(&own, zone)) {
        return Err(Unfit::Served(zone));
    }
    let begin = match own.is_empty() || own.ends_with('\n') {
        true => BEGIN.to_owned(),
        false => format!("\n{BEGIN_ON_NEW_LINE}"),
    };
    Ok(format!("{own}{begin}\n{}{END}\n", blocks(address)))
}

/// The Corefile as it was before.
pub fn stop_passing_on(corefile: &str) -> Result<String, Unfit> {
    let Some(from) = corefile.find(BEGIN) else {
        return if corefile.contains(END) { Err(Unfit::Damaged) } else { Ok(corefile.to_owned()) };
    };
    let (before, rest) = corefile.split_at(from);
    let (ours, after) = rest.split_once(END).ok_or(Unfit::Damaged)?;
    let before = match ours.starts_with(BEGIN_ON_NEW_LINE) {
        true => before.strip_suffix('\n').unwrap_or(before),
        false => before,
    };
    let after = after.strip_prefix('\n').unwrap_or(after);
    if after.contains(BEGIN) || after.contains(END) {
        return Err(Unfit::Damaged);
    }
    Ok(format!("{before}{after}"))
}

/// Whether CoreDNS notices a change by itself.
pub fn reloads(corefile: &str) -> bool {
    corefile.lines().any(|line| line.split_whitespace().next() == Some("reload"))
}

/// Whether a block is for this very zone: its name stands before a brace, with or without a port.
fn serves(corefile: &str, zone: &str) -> bool {
    let heads = corefile.lines().filter(|line| !line.starts_with([' ', '\t', '#']));
    let names = heads.flat_map(|line| line.split([' ', '\t', ',', '{']));
    names.map(|name| name.trim_start_matches("dns://")).any(|name| {
        let name = name.split(':').next().unwrap_or_default();
        name.trim_end_matches('.') == zone
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubeadm writes it.
    const KUBEADM: &str = ".:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";
    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 53));

    #[test]
    fn zones_are_passed_on_once_and_then_not_any_more() {
        for original in [KUBEADM, KUBEADM.trim_end(), "", "# nothing\n"] {
            let once = pass_zones_on(original, ADDRESS).unwrap();
            assert!(once.starts_with(original));
            assert_eq!(once.matches("forward . 10.96.0.53\n").count(), 2, "{once}");
            assert_eq!(once.matches("supercluster.local:53 {\n").count(), 1, "{once}");
            assert_eq!(once.matches("clusterset.local:53 {\n").count(), 1, "{once}");
            assert_eq!(pass_zones_on(&once, ADDRESS).unwrap(), once, "again changes nothing");
            let moved = pass_zones_on(&once, "fd00::53".parse().unwrap()).unwrap();
            assert!(!moved.contains("10.96.0.53") && moved.contains("forward . fd00::53\n"), "{moved}");
            assert_eq!(stop_passing_on(&moved).unwrap(), original);
            assert_eq!(stop_passing_on(original).unwrap(), original);
        }
    }

    #[test]
    fn what_others_wrote_behind_stays() {
        let once =
            pass_zones_on(KUBEADM, ADDRESS).unwrap() + "corp.example:53 {\n    forward . 192.0.2.1\n}\n";
        let again = pass_zones_on(&once, ADDRESS).unwrap();
        assert!(again.contains("corp.example"), "{again}");
        assert!(stop_passing_on(&again).unwrap().contains("corp.example"));
    }

    #[test]
    fn blocks_of_others_for_the_zones_and_damaged_marks_are_left_alone() {
        for head in [
            "clusterset.local:53 {",
            "clusterset.local {",
            "a.example, clusterset.local. {",
            "dns://clusterset.local{",
        ] {
            let taken = format!("{KUBEADM}{head}\n    whoami\n}}\n");
            assert_eq!(pass_zones_on(&taken, ADDRESS), Err(Unfit::Served("clusterset.local")), "{head}");
        }
        let fine = format!("{KUBEADM}my-clusterset.local:53 {{\n    forward . clusterset.local\n}}\n");
        assert!(pass_zones_on(&fine, ADDRESS).is_ok());
        for damaged in [
            format!("{BEGIN}\n{KUBEADM}"),
            format!("{KUBEADM}{END}\n"),
            format!("{BEGIN}\n{END}\n{BEGIN}\n{END}\n"),
        ] {
            assert_eq!(pass_zones_on(&damaged, ADDRESS), Err(Unfit::Damaged), "{damaged}");
        }
    }

    #[test]
    fn a_cache_on_the_nodes_needs_the_blocks_where_it_listens_unless_it_has_them() {
        let cache = "cluster.local:53 {\n    bind 169.254.20.10 10.96.0.10\n    forward . __PILLAR__CLUSTER__DNS__\n}\n\
                     .:53 {\n    bind 169.254.20.10 10.96.0.10\n    forward . __PILLAR__UPSTREAM__SERVERS__\n}\n";
        let missing = blocks_of_cache(cache, ADDRESS);
        assert_eq!(
            missing.matches("    bind 169.254.20.10 10.96.0.10\n    forward . 10.96.0.53\n").count(),
            2
        );
        assert_eq!(blocks_of_cache(&format!("{cache}{missing}"), ADDRESS), "");
    }

    #[test]
    fn whether_a_restart_is_needed_is_known() {
        assert!(reloads(KUBEADM));
        assert!(!reloads(&KUBEADM.replace("    reload\n", "")));
    }
}
