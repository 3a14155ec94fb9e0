//! Moments as objects carry them: whole seconds.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Cut to the second, so that what was written compares equal to what is read back.
pub(super) fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
