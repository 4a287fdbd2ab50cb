//! Runtime settings of a queue, stored once for every node until they are changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bus::completed::Completed;
use crate::bus::handle::Bus;
use crate::bus::names::MatchLevel;
use crate::bus::program_audit::is_done;
use crate::bus::state::program_actions::ProgramAction;
use crate::core::op::{Stats, StoreOp};
use crate::error::{Error, Result};
use crate::event::{BUCKETS_MAX, QueueName};
use crate::panics;
use crate::store::{Control, RATES, Setting};

impl Bus {
    /// Pauses a queue on every node until [`resume`](Self::resume): no handler of it starts.
    ///
    /// Running handlers finish, and pushes are accepted as before. Every node follows within a
    /// quarter of a second, and a node that starts later from its beginning. The store keeps the
    /// setting as long as it keeps anything. If this future is dropped half-way, the setting is
    /// stored and applied all the same.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid name, or a store that keeps
    /// no settings; [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for a queue that neither
    /// this program nor the store knows and whose name is almost a known one;
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) where 10,000 other queues have runtime settings and
    /// this one has none; or the store's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.pause("order-close").await?;
    /// assert!(bus.controls().await?["order-close"].paused);
    /// bus.resume("order-close").await?;
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn pause(&self, queue: &str) -> Result<()> {
        self.set(queue, Setting::Paused(true)).await
    }

    /// Reverts [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, queue: &str) -> Result<()> {
        self.set(queue, Setting::Paused(false)).await
    }

    /// Sets how many handlers of a queue may run at once on *each* node, overriding the nodes' own
    /// numbers; `None` removes the override. Reaches every node as [`pause`](Self::pause) does.
    ///
    /// [`set_workers`](Self::set_workers) concerns this process alone, and has no effect while a
    /// number is set here.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub async fn set_workers_everywhere(&self, queue: &str, workers: Option<u16>) -> Result<()> {
        self.set(queue, Setting::Workers(workers)).await
    }

    /// Limits how many handlers of a queue start per second, over all nodes, whatever the
    /// [`rate`](crate::config::QueueOptions::rate) that they declare; `None` removes this limit, and what is
    /// declared holds again. Reaches every node as [`pause`](Self::pause) does.
    ///
    /// Each node that consumes the queue has an equal share and paces its starts evenly; an unused
    /// share is not made up for later. Events over the limit wait in the store. Retries count as
    /// any other start; values that are [published](crate::Queue::publish) straight into a
    /// ring do not. Each process that [pulls](crate::Queue::lease) has the whole rate.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause); and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a rate
    /// below 0.001 or above 1,000,000. To let nothing start, pause the queue.
    pub async fn set_rate(&self, queue: &str, per_second: Option<f64>) -> Result<()> {
        let (setting, (least, most)) = (Setting::Rate(per_second), RATES);
        if let Some(rate) = per_second.filter(|_| !setting.is_possible()) {
            return Err(Error::invalid(format!(
                "the rate is {rate} per second; it must be {least} to {most}; to start nothing, \
                 pause the queue"
            )));
        }
        self.set(queue, setting).await
    }

    /// Sets the number of buckets for new events of a queue; `None` leaves it to each pusher's own
    /// options again. Reaches every node as [`pause`](Self::pause) does.
    ///
    /// Existing events stay in their buckets, which are served until they are empty. An event with
    /// a key goes to the bucket of its key under the current number, so a
    /// [unique](crate::EventBuilder::unique) event from before a change may not be seen.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause); and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for 0, or
    /// more than 1,024.
    pub async fn set_buckets(&self, queue: &str, buckets: Option<u16>) -> Result<()> {
        let setting = Setting::Buckets(buckets);
        if let Some(buckets) = buckets.filter(|_| !setting.is_possible()) {
            return Err(Error::invalid(format!(
                "buckets is {buckets}; it must be 1 to {BUCKETS_MAX}"
            )));
        }
        self.set(queue, setting).await
    }

    /// Returns the runtime settings of each queue that has any.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn controls(&self) -> Result<BTreeMap<QueueName, Control>> {
        self.inner.open()?.controls().await
    }

    /// Returns the counts and the runtime settings of a queue; `None` of one that the store does not
    /// know and that has no setting. However many others there are, it costs the same.
    pub(crate) async fn counts_and_control(
        &self,
        queue: &QueueName,
    ) -> Result<Option<(Stats, Control)>> {
        let control = self.inner.open()?.control_of(queue).await?;
        let buckets = self.inner.buckets_of(queue).await?;
        if control.is_none() && buckets.is_empty() {
            return Ok(None);
        }
        let mut sum = Stats::default();
        for bucket in buckets {
            sum += self.inner.apply(&bucket, StoreOp::stats()).await?;
        }
        Ok(Some((sum, control.unwrap_or_default())))
    }

    async fn set(&self, queue: &str, setting: Setting) -> Result<()> {
        let queue = QueueName::new(queue)?;
        self.inner.check_known(&queue, MatchLevel::Slips).await?;
        let (inner, audited_by) = (Arc::clone(&self.inner), self.audited_by);
        let done = ProgramAction::new(action_of(setting), queue.as_str());
        // Both steps, though the caller may be gone after the first: what is stored is applied.
        let both = async move {
            let mut changes_nothing = false;
            if let Setting::Paused(paused) = setting
                && audited_by.has_noted(&inner, &done)
            {
                // Somebody else may have done the opposite since.
                let control = inner.open()?.control_of(&queue).await;
                changes_nothing = control.is_ok_and(|it| it.unwrap_or_default().paused == paused);
            }
            let set = inner.open()?.set(&queue, setting).await;
            match setting {
                _ if changes_nothing || !is_done(&set, |()| true) => {}
                Setting::Paused(_) => audited_by.note_each(&inner, done),
                _ => audited_by.note(&inner, done),
            }
            set?;
            let orders = inner.flow().as_ref().map(|flow| flow.orders());
            // This node need not wait for its next membership poll, and may have none.
            if let Some(orders) = orders
                && let Err(error) = orders.read_controls().await
            {
                panics::reported(|| {
                    tracing::warn!(%queue, %error, "failed to read back a runtime setting");
                });
            }
            Ok(())
        };
        Completed::new(&self.inner.runtime, both).await
    }
}

/// Returns what the audit says of a setting.
const fn action_of(setting: Setting) -> &'static str {
    match setting {
        Setting::Paused(true) => "queue paused",
        Setting::Paused(false) => "queue resumed",
        Setting::Rate(_) => "rate of queue set",
        Setting::Workers(_) => "workers of queue set",
        Setting::Buckets(_) => "buckets of queue set",
    }
}
