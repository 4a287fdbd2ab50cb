//! What an operator sets of a queue while it runs: once, for every node, until it is set again.

use std::collections::BTreeMap;

use crate::bus::Bus;
use crate::bus::names::Doubt;
use crate::error::{Error, Result};
use crate::event::{BUCKETS_MAX, QueueName};
use crate::store::{Control, RATES, Setting};

impl Bus {
    /// Lets no handler of a queue start any more, on any node, until [`resume`](Self::resume).
    ///
    /// What runs goes on to its end, and pushes are accepted as before. Every node hears of it
    /// within a quarter of a second, and one that is started later knows it from the beginning.
    /// What is set is kept by the store, for as long as the store keeps anything.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that is not legal, or a store
    /// that keeps no settings; [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) for a queue that
    /// neither this program nor the store knows and whose name is almost that of one they do; or
    /// what the store answers.
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

    /// Takes a [`pause`](Self::pause) back.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, queue: &str) -> Result<()> {
        self.set(queue, Setting::Paused(false)).await
    }

    /// Lets so many handlers of a queue run at once on *each* node, whatever the nodes have chosen
    /// themselves; `None` leaves it to them again. Reaches every node as [`pause`](Self::pause)
    /// does.
    ///
    /// [`set_workers`](Self::set_workers) is the choice of this process alone, and has no effect
    /// while a number is set here.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub async fn set_workers_everywhere(&self, queue: &str, workers: Option<u16>) -> Result<()> {
        self.set(queue, Setting::Workers(workers)).await
    }

    /// Lets so many handlers of a queue start in a second, on all nodes together; `None` takes the
    /// limit away. Reaches every node as [`pause`](Self::pause) does.
    ///
    /// Each node that consumes the queue has the same part of it and paces its starts evenly; what
    /// a node does not use is not made up for later. Events that wait for their turn wait in the
    /// store. Retries count as any other start; values that are
    /// [published](crate::Queue::publish) straight into a ring do not.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause); and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a rate
    /// below 0.001 or above 1,000,000. To let nothing start, pause the queue.
    pub async fn set_rate(&self, queue: &str, per_second: Option<f64>) -> Result<()> {
        let (setting, (least, most)) = (Setting::Rate(per_second), RATES);
        if let Some(rate) = per_second.filter(|_| !setting.is_possible()) {
            return Err(Error::invalid(format!(
                "a rate of {rate} a second is not possible, it is {least} to {most}; to let \
                 nothing start, pause the queue"
            )));
        }
        self.set(queue, setting).await
    }

    /// Spreads new events of a queue over so many buckets; `None` leaves the number to each
    /// pusher's own choices again. Reaches every node as [`pause`](Self::pause) does.
    ///
    /// Events that are there stay in their buckets, and these are served until they are empty. An
    /// event with a key goes to the bucket of its key under the number of now: of
    /// [unique](crate::EventBuilder::unique) events one from before may not be seen.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause); and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for none,
    /// or more than 1,024.
    pub async fn set_buckets(&self, queue: &str, buckets: Option<u16>) -> Result<()> {
        let setting = Setting::Buckets(buckets);
        if let Some(buckets) = buckets.filter(|_| !setting.is_possible()) {
            return Err(Error::invalid(format!(
                "buckets is {buckets}, it is 1 to {BUCKETS_MAX}"
            )));
        }
        self.set(queue, setting).await
    }

    /// What is set of each queue; one of which nothing is set is left out.
    ///
    /// # Errors
    ///
    /// What the store answers.
    pub async fn controls(&self) -> Result<BTreeMap<QueueName, Control>> {
        self.inner.open()?.controls().await
    }

    async fn set(&self, queue: &str, setting: Setting) -> Result<()> {
        let queue = QueueName::new(queue)?;
        self.inner.check_known(&queue, Doubt::Slips).await?;
        self.inner.open()?.set(&queue, setting).await?;
        let orders = self.inner.flow().as_ref().map(|flow| flow.orders());
        // This node need not wait for its next roll call, and may have none.
        if let Some(orders) = orders
            && let Err(error) = orders.read_controls().await
        {
            tracing::warn!(%queue, %error, "failed to read back a runtime setting");
        }
        Ok(())
    }
}
