//! Which node answers for an address: the same answer on every node, without asking each other.
//!
//! Each node ranks all eligible nodes by a hash of node and address, so that addresses spread over nodes and only those of
//! a node that dies move. A node that has an address keeps it while it is eligible, unless pre-emption is asked for: every
//! move costs connections.

use std::net::IpAddr;

use ring::digest;

/// A node that may answer for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runner<'a> {
    pub node: &'a str,
    /// Whether it says that it answers for the address already.
    pub holds: bool,
}

/// The node that answers for the address; `None` if there is none that may.
pub fn elect<'a>(
    address: IpAddr,
    runners: impl IntoIterator<Item = Runner<'a>>,
    preemptive: bool,
) -> Option<&'a str> {
    let rank = |runner: &Runner<'a>| (!runner.holds || preemptive, score(address, runner.node), runner.node);
    runners.into_iter().min_by_key(rank).map(|runner| runner.node)
}

fn score(address: IpAddr, node: &str) -> [u8; 8] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(address.to_string().as_bytes());
    context.update(b"\n");
    context.update(node.as_bytes());
    let mut score = [0; 8];
    score.copy_from_slice(&context.finish().as_ref()[..8]);
    score
}
