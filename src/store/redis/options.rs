//! How the servers are talked to.

use std::sync::Arc;
use std::time::Duration;

use super::url::Target;
use crate::outage::Outage;

/// How the servers are talked to.
#[derive(Clone, Debug)]
pub(super) struct LinkOptions {
    /// The longest that a call may take, with everything that it waits for. Default: 5 s, which a
    /// server that writes a snapshot or waits for its disk does not use up.
    pub(super) timeout: Duration,
    /// The longest that one attempt to connect may take, greeting and login included. Default:
    /// 2 s, so that a call can outlive a first attempt that runs into nothing.
    pub(super) connect_timeout: Duration,
    /// How often a connection that only listens is asked whether it still lives. Default: 15 s, so
    /// that a server that hangs is noticed and an idle node costs nothing.
    pub(super) probe_every: Duration,
    /// What the connections are called in the server's `CLIENT LIST`. Default: `duly`.
    pub(super) name: String,
    /// Connections that cannot be made; the clones of options share it.
    pub(super) outage: Arc<Outage>,
}

impl LinkOptions {
    /// The defaults, changed by what the URL asks for.
    pub(super) fn of(target: &Target) -> Self {
        let defaults = Self::default();
        Self {
            timeout: target.asked.timeout.unwrap_or(defaults.timeout),
            connect_timeout: target
                .asked
                .connect_timeout
                .unwrap_or(defaults.connect_timeout),
            ..defaults
        }
    }

    /// How long one attempt may take where a cluster's client may make a second one.
    pub(super) fn attempt_timeout(&self) -> Duration {
        self.timeout / 2
    }

    /// The same, for a connection that is called so.
    pub(super) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            probe_every: Duration::from_secs(15),
            name: "duly".to_owned(),
            outage: Arc::new(Outage::of("connections")),
        }
    }
}
