//! The wait of a start for servers that cannot be used yet.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fault;
use super::topology;
use super::url::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::panics;

/// How long opening waits for sentinels to agree on a master: a failover takes some seconds, and a
/// program that is started meanwhile need not fail.
const FAILOVER_MAX: Duration = Duration::from_secs(10);

/// How long it waits for a cluster that is down: a replica takes over only after the master was away
/// for `cluster-node-timeout`, 15 seconds unless it is set.
const CLUSTER_MAX: Duration = Duration::from_secs(30);

/// How long opening waits for a server that loads its data, which takes some seconds for each GiB.
const LOADING_MAX: Duration = Duration::from_secs(300);

/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// Opens something on the servers of `target`, and again while they may soon be usable.
///
/// # Errors
///
/// That of the last attempt.
pub(in crate::store::redis) async fn repeat<T, F>(
    target: &Target,
    open: impl Fn() -> F + Send,
) -> Result<T>
where
    F: Future<Output = Result<T>> + Send,
{
    let began = Instant::now();
    let mut is_said = false;
    loop {
        let error = match open().await {
            Ok(opened) if is_said => {
                panics::reported(|| tracing::info!(server = %target, "the server can be used now"));
                return Ok(opened);
            }
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let (patience, why) = patience(target, &error).await;
        if began.elapsed() >= patience {
            return Err(error);
        }
        if !std::mem::replace(&mut is_said, true) {
            panics::reported(|| tracing::warn!(%error, ?patience, "{why}; the start waits for it"));
        }
        sleep(PAUSE).await;
    }
}

/// Returns for how long after its beginning a start that failed with `error` is repeated, and why.
async fn patience(target: &Target, error: &Error) -> (Duration, &'static str) {
    if fault::is_of_loading(error) {
        return (LOADING_MAX, "the server is still loading its data");
    }
    if fault::is_of_a_cluster_down(error) {
        let why = "the cluster does not serve every slot, and a failover may be under way";
        return (CLUSTER_MAX, why);
    }
    let may_pass = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
    if may_pass && topology::sentinels_name_a_master(target).await {
        let why =
            "the master that the sentinels name cannot be used, and a failover may be under way";
        return (FAILOVER_MAX, why);
    }
    (Duration::ZERO, "it cannot be used")
}
