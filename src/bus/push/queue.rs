//! The pushes of a queue: one value, one event with options, many.

use serde::Serialize;

use crate::bus::push::event::EventBuilder;
use crate::bus::push::many::{PushItem, PushMany};
use crate::bus::push::receipt::Receipt;
use crate::bus::queue::Queue;
use crate::error::Result;
use crate::time::When;

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Pushes `payload`, due after a [`Duration`](std::time::Duration), at a
    /// [`SystemTime`](std::time::SystemTime) or [`Timestamp`](crate::time::Timestamp), or
    /// [now](When::Now).
    ///
    /// A delay counts from the moment the store accepts the event; fractions of a millisecond round
    /// up, so it is never early. A time in the past means now. An event that is due now is ready at
    /// once: it skips the delay set.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the payload cannot be encoded or is
    /// too large, or the delay is longer than [`DELAY_MAX`](crate::time::DELAY_MAX);
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when the store has no room: nothing happened;
    /// [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) when the result was lost. To repeat a push
    /// safely then, choose the id first: [`event`](Self::event) and [`id`](EventBuilder::id).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// queue.push(7, Duration::from_secs(1800)).await?;
    /// queue.push(8, SystemTime::now() + Duration::from_secs(1800)).await?;
    /// queue.push(9, When::Now).await?;
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn push(&self, payload: T, when: impl Into<When>) -> Result<Receipt> {
        self.event(payload).when(when).push().await
    }

    /// Builds an event with more options than a payload and a due time.
    pub fn event(&self, payload: T) -> EventBuilder<T> {
        EventBuilder::new(self.clone(), payload)
    }

    /// Pushes many payloads, each due at `when`; or many [events](Self::event) with options of their
    /// own, of which those without a due time are due at `when`.
    ///
    /// Nothing is pushed before the result is awaited. That pushes each item for itself, in batches,
    /// and returns the receipts in the order of the items, or the first error. Two other calls decide
    /// what an error of one means for the others:
    ///
    /// | | when one is refused |
    /// |---|---|
    /// | `.await` | returns its error; the others may have been accepted |
    /// | [`.each()`](PushMany::each)`.await` | returns a result for each |
    /// | [`.all_or_none()`](PushMany::all_or_none)`.await` | returns its error, and none was pushed |
    ///
    /// # Errors
    ///
    /// As [`EventBuilder::push`]; and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for more than
    /// [`PUSH_MANY_MAX`](crate::PUSH_MANY_MAX) items, and for an event of another queue: nothing was
    /// pushed then. An error of the store may come after some were accepted; with preset
    /// [ids](EventBuilder::id), repeating the push is safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let close_after = Duration::from_secs(1800);
    /// queue.push_many([1, 2, 3], close_after).await?;
    ///
    /// let close = |order: u64| {
    ///     let event = queue.event(order).key(format!("order:{order}"));
    ///     event.id(queue.id_for_name(&format!("close:{order}")))
    /// };
    /// let sent = queue.push_many([7, 8, 9].map(close), close_after).await?;
    /// assert!(sent.iter().all(Receipt::is_accepted));
    /// let again = queue.push_many([7, 8, 9].map(close), close_after).await?;
    /// assert!(again.iter().all(Receipt::is_duplicate));
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn push_many<I>(&self, items: I, when: impl Into<When>) -> PushMany<'_, T, I>
    where
        I: IntoIterator,
        I::Item: Into<PushItem<T>>,
    {
        PushMany::new(self, items, when.into())
    }
}
