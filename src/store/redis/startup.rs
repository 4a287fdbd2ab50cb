//! How long a start waits for servers that cannot be used yet.

use std::time::Duration;

use super::fault;
use super::topology;
use super::url::Target;
use crate::error::{Error, ErrorKind};

/// How long opening waits for sentinels to agree on a master: a failover takes some seconds, and a
/// program that is started meanwhile need not fail.
const FAILOVER_MAX: Duration = Duration::from_secs(10);

/// How long opening waits for a server that loads its data, which takes some seconds for each GiB.
const LOADING_MAX: Duration = Duration::from_secs(300);

/// The pause between attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Returns for how long after its beginning a start that failed with `error` is repeated, and why.
pub(super) async fn patience(target: &Target, error: &Error) -> (Duration, &'static str) {
    if fault::is_of_loading(error) {
        return (LOADING_MAX, "the server is still loading its data");
    }
    let may_pass = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
    if may_pass && topology::sentinels_name_a_master(target).await {
        let why =
            "the master that the sentinels name cannot be used, and a failover may be under way";
        return (FAILOVER_MAX, why);
    }
    (Duration::ZERO, "it cannot be used")
}
