//! Places of requests that wait: each keeps a connection, so they are never all of one token.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::peer;
use crate::shares::{Bounds, Evicted, Owner, Share, Shares};

/// The names that polls wait for; a bus has room for some more queues than these.
const NAMES: Bounds = Bounds {
    of_all: 40_000,
    of_namespace: 30_000,
    of_each: 20_000,
    idle_min: Duration::ZERO,
};
/// What too many of either are called.
const WHAT: [&str; 2] = ["requests that wait", "names that polls wait for"];
/// How long a client has to read the last message of a request that had to go.
const READ_MAX: Duration = Duration::from_secs(1);

/// The places.
#[derive(Debug)]
pub(crate) struct Waits {
    requests: Arc<Shares>,
    names: Arc<Shares>,
}

/// The place of a request, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitPlace {
    request: Share,
    /// The names that it waits for.
    names: Option<Share>,
}

impl Waits {
    /// Of so many connections the tokens of a namespace have three quarters at most, and all tokens
    /// leave an eighth.
    pub(crate) fn new(connections: usize) -> Self {
        let requests = Bounds {
            of_all: connections - connections / 8,
            of_namespace: connections - connections / 4,
            of_each: connections - connections / 4,
            idle_min: Duration::ZERO,
        };
        Self {
            requests: Shares::new(requests),
            names: Shares::new(NAMES),
        }
    }

    /// Takes a place for a request that waits for `names` names.
    pub(crate) async fn take(&self, owner: &Owner, names: usize) -> WaitPlace {
        WaitPlace {
            request: self.requests.take(owner, 1).await,
            names: match names {
                0 => None,
                _ => Some(self.names.take(owner, names).await),
            },
        }
    }
}

impl WaitPlace {
    /// Waits until it has to go; returns why, and what is too much.
    pub(crate) async fn evicted(&self) -> (Evicted, &'static str) {
        let of_names = async {
            match &self.names {
                Some(names) => names.evicted().await,
                None => pending().await,
            }
        };
        tokio::select! {
            why = self.request.evicted() => (why, WHAT[0]),
            why = of_names => (why, WHAT[1]),
        }
    }

    /// Notes that it is not idle.
    pub(crate) fn used(&self) {
        self.shares().for_each(Share::used);
    }

    /// Ends the connection when the place had to go, and the request has not ended soon after.
    pub(crate) fn hang_up(&self) {
        let Some(connection) = peer::connection() else {
            return;
        };
        for share in self.shares() {
            hang_up(share, READ_MAX, &connection);
        }
    }

    fn shares(&self) -> impl Iterator<Item = &Share> {
        std::iter::once(&self.request).chain(&self.names)
    }
}

/// Ends the connection of a share that had to go, unless it is dropped by `after`: a response is not
/// asked for its end while its client reads nothing.
pub(crate) fn hang_up(share: &Share, after: Duration, connection: &CancellationToken) {
    let (ending, done, connection) = (share.ending(), share.done(), connection.clone());
    tokio::spawn(async move {
        let late = async {
            ending.cancelled().await;
            tokio::time::sleep(after).await;
        };
        tokio::select! {
            () = done.cancelled() => {}
            () = late => connection.cancel(),
        }
    });
}
