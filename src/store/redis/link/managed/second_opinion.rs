//! Detects at the first call that an idle connection was forgotten on the way.
//!
//! A call on an idle connection that has no reply soon is sent nowhere else. A second connection is
//! opened beside it: if the server replies there and still not here, it is the way that is gone, and the
//! calls in flight end as if the connection had been cut.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until, timeout};

use super::{ManagedConnection, Shared, State};
use crate::panics;
use crate::store::redis::link::health::{DOUBT_AFTER, SILENT_FOR};
use crate::store::redis::link::live_connection::LiveConnection;

impl ManagedConnection {
    /// Waits for a reply on `live` and meanwhile sees to it that it is replaced if it was
    /// forgotten.
    pub(super) async fn watched<T>(
        &self,
        live: &Arc<LiveConnection>,
        mut asking: Pin<&mut impl Future<Output = T>>, // pinned there, or it would be copied
    ) -> T {
        let Some(heard_us) = live.health().and_then(|health| health.idle_since()) else {
            return asking.await;
        };
        if let Ok(reply) = timeout(DOUBT_AFTER, asking.as_mut()).await {
            return reply;
        }
        // A task of its own, as the caller may give up.
        let (shared, live) = (Arc::clone(&self.shared), Arc::clone(live));
        let until = Instant::now() + (SILENT_FOR - DOUBT_AFTER);
        self.shared
            .options
            .spawn(async move { shared.replace_forgotten(&live, heard_us, until).await });
        asking.await
    }
}

impl Shared {
    /// Replaces `live` if the server replies on another connection and not on this one.
    async fn replace_forgotten(
        self: &Arc<Self>,
        live: &Arc<LiveConnection>,
        heard_us: u64,
        until: Instant,
    ) {
        let Some(health) = live.health().filter(|health| health.takes_doubt()) else {
            return;
        };
        let opened = LiveConnection::open(&self.target, &self.options, &self.made, 0).await;
        sleep_until(until).await;
        let Some(new) = opened.ok().filter(|_| health.is_silent_since(heard_us)) else {
            return health.trusted();
        };
        let mut state = self.state();
        if matches!(&*state, State::Up(current) if Arc::ptr_eq(current, live)) {
            let new = Arc::new(new);
            *state = State::Up(Arc::clone(&new));
            drop(state);
            self.is_up(&new);
            panics::reported(
                || tracing::debug!(target = %self.target, "replaced a connection that was forgotten"),
            );
        } else {
            drop(state);
        }
        health.end();
    }
}
