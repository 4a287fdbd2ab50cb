//! Pushing a few events all or none.

use serde::Serialize;
use tracing::Instrument;

use crate::bus::prepared::PreparedEvent;
use crate::bus::push::{count, id_in};
use crate::bus::{EventBuilder, Queue, Receipt};
use crate::core::op::{BATCH_BYTES, BATCH_MAX};
use crate::error::{Error, Result};
use crate::trace;

/// The most events of one [`send_all`](Queue::send_all).
pub const SEND_ALL_MAX: usize = BATCH_MAX;

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Pushes events all or none: into one bucket, in one atomic step.
    ///
    /// The receipts are in the order of the events, and all of them are accepted. They are pushed
    /// under ids of this call, so an event here has no [id](EventBuilder::id) of its own, no
    /// [key](EventBuilder::key) and no [unique key](EventBuilder::unique), each of which names a
    /// bucket.
    ///
    /// # Errors
    ///
    /// As [`EventBuilder::send`], and none of the events was pushed; only after
    /// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) all of them may have been.
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) also for more than [`SEND_ALL_MAX`] events,
    /// for more than 4 MiB of payloads, for different [durabilities](EventBuilder::durable), and for
    /// an event of another queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let orders = [7, 8, 9].map(|order| queue.event(order).after(Duration::from_secs(60)));
    /// assert_eq!(queue.send_all(orders).await?.len(), 3);
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn send_all(
        &self,
        events: impl IntoIterator<Item = EventBuilder<T>>,
    ) -> Result<Vec<Receipt>> {
        let refused = |error: &Error| self.pushes.rejected(error.kind(), 1);
        let mut prepared = self.prepared_for_one_bucket(events).inspect_err(refused)?;
        let Some(first) = prepared.first() else {
            return Ok(Vec::new());
        };
        let (bucket, durability) = (first.event.envelope.bucket(), first.durability);
        let many = prepared.len();
        let span = trace::push_many(&self.name, many);
        span.in_scope(|| prepared.iter_mut().for_each(PreparedEvent::stamp));
        let events = prepared.into_iter().map(|it| it.event).collect();
        let pushed = self.push_made(bucket, events, durability);
        let pushed = pushed.instrument(span.clone()).await;
        let pushed = match pushed {
            Ok(receipts) => {
                count(&self.pushes, &receipts);
                receipts.into_iter().collect()
            }
            Err(error) => {
                self.pushes.rejected(error.kind(), many as u64);
                Err(error)
            }
        };
        trace::pushed_many(&span, pushed.as_ref().err());
        pushed
    }

    /// Builds the events, with ids of one bucket and one time.
    fn prepared_for_one_bucket(
        &self,
        events: impl IntoIterator<Item = EventBuilder<T>>,
    ) -> Result<Vec<PreparedEvent>> {
        let now = self.inner.now();
        let buckets = self.inner.buckets(&self.name, &self.options);
        let bucket = self.inner.ids.bucket(buckets);
        let (mut prepared, mut bytes) = (Vec::new(), 0);
        for event in events {
            self.check_is_ours(&event)?;
            if event.id.is_some() || event.key.is_some() || event.unique.is_some() {
                return Err(Error::invalid(
                    "an event with an id, a key or a unique key was passed to `send_all`; each \
                     names a bucket, and all of its events lie in one: use `send_many`",
                ));
            }
            if prepared.len() == SEND_ALL_MAX {
                return Err(Error::invalid(format!(
                    "more than {SEND_ALL_MAX} events in one `send_all`; use `send_many`"
                )));
            }
            let mut ready = event.id(id_in(bucket, now)).prepare()?;
            ready.given = None; // the caller does not know it
            bytes += ready.event.envelope.payload.len();
            prepared.push(ready);
        }
        let durability = prepared.first().and_then(|first| first.durability);
        if prepared.iter().any(|it| it.durability != durability) {
            return Err(Error::invalid(
                "the events of one `send_all` have different durabilities; give them the same",
            ));
        }
        if prepared.len() > 1 && bytes > BATCH_BYTES {
            return Err(Error::invalid(format!(
                "the payloads of one `send_all` have {bytes} bytes, at most {BATCH_BYTES} are \
                 allowed; use `send_many`"
            )));
        }
        Ok(prepared)
    }
}
