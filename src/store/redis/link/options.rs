//! Connection options.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::functions::FunctionUse;
use super::url::Target;
use crate::background::Background;
use crate::backoff::Backoff;
use crate::outage::Outage;

/// The delay before a connection is tried again.
pub(in crate::store::redis) const RECONNECT: Backoff =
    Backoff::new(Duration::from_millis(20), Duration::from_secs(2));

/// The options of a connection.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct ConnectionOptions {
    /// The timeout of a call, including all waits. Default: 5 s, longer than a server pauses for a
    /// snapshot or its disk.
    pub(in crate::store::redis) timeout: Duration,
    /// The timeout of one attempt to connect, with greeting and login. Default: 2 s, so that a call
    /// can outlive a first attempt without a response.
    pub(in crate::store::redis) connect_timeout: Duration,
    /// The interval of pings on a connection that only receives, or that nothing uses, and of
    /// questions for the slots where the subscription is to nodes of a cluster. Default: 15 s,
    /// far below the time after which NATs and balancers forget a connection (some minutes), so that
    /// none does, and rare enough that an idle node costs nothing.
    pub(in crate::store::redis) probe_every: Duration,
    /// The connection name in the server's `CLIENT LIST`. Default: `duly`.
    pub(in crate::store::redis) name: String,
    /// The outage log of failed attempts; the clones of options share it.
    pub(in crate::store::redis) outage: Arc<Outage>,
    /// Whether calls are of functions; the clones of options share it.
    pub(in crate::store::redis) functions: Arc<FunctionUse>,
    /// Where the connection lives, so that it goes on whatever its callers do; `None`: on the
    /// runtime of the call that opens it.
    pub(in crate::store::redis) background: Option<Arc<Background>>,
}

impl ConnectionOptions {
    /// Returns the defaults, changed by the options of the URL.
    pub(in crate::store::redis) fn of(target: &Target) -> Self {
        let defaults = Self::default();
        Self {
            timeout: target.choices.timeout.unwrap_or(defaults.timeout),
            connect_timeout: target
                .choices
                .connect_timeout
                .unwrap_or(defaults.connect_timeout),
            ..defaults
        }
    }

    /// Returns the timeout of one attempt where a cluster's client may make a second one.
    pub(in crate::store::redis) fn attempt_timeout(&self) -> Duration {
        self.timeout / 2
    }

    /// Returns the options of a connection on the runtime of its callers: what only they wait for
    /// comes without a change of threads, which costs some 10 µs.
    pub(in crate::store::redis) fn beside_callers(mut self) -> Self {
        self.background = None;
        self
    }

    /// Spawns a task of the connection where it lives.
    pub(in crate::store::redis) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match &self.background {
            Some(background) => background.spawn(task),
            None => tokio::spawn(task),
        }
    }

    /// Returns the options with another connection name.
    pub(in crate::store::redis) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            probe_every: Duration::from_secs(15),
            name: "duly".to_owned(),
            outage: Arc::new(Outage::of("connections")),
            functions: Arc::default(),
            background: Some(Background::shared()),
        }
    }
}
