//! The embedded API server as the real kubectl sees it: what is printed, and with which exit code it ends.
//!
//! Every test has clusters of its own, over TLS, and a kubectl that has never seen another. What kubectl prints in its own
//! words is checked where it does not depend on kubectl's version.

mod access;
mod applying;
mod changing;
mod creating;
mod custom;
mod deleting;
mod describing;
mod discovery;
mod playground;
mod reading;
mod rollout;
mod waiting;
mod watching;
