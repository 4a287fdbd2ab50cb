//! Pushing in a transaction.

use duly::__outbox::{StagedEvent, stage, stage_many};
use duly::time::When;
use duly::{EventBuilder, EventId, PushItem, Queue, Result};
use serde::Serialize;

use crate::hint;
use crate::transaction::Transaction;

/// Pushing to a queue in a transaction of the user's: the event exists if and only if that commits,
/// and not before.
///
/// The event is checked, encoded and encrypted, and its id and due time are fixed, as in a push; a
/// [relay](crate::Relay) hands it to the store after the commit. A delay counts from this call.
/// Until it is relayed nothing finds the event: a [cancel](Queue::cancel) by its id returns
/// [`NotFound`](duly::CancelOutcome::NotFound), and it runs nevertheless.
///
/// # Examples
///
/// ```no_run
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// use duly_outbox::PushIn;
///
/// # #[cfg(feature = "sqlx")]
/// async fn order(pool: &sqlx::PgPool, closes: &Queue<u64>) -> Result<(), Box<dyn std::error::Error>> {
///     let mut tx = pool.begin().await?;
///     sqlx::query("insert into orders (id) values (7)").execute(&mut *tx).await?;
///     closes.push_in(&mut tx, 7, Duration::from_secs(1800)).await?;
///     tx.commit().await?; // the order and its time-out, or neither
///     Ok(())
/// }
/// ```
pub trait PushIn<T> {
    /// Inserts an event that is due at `when`, and returns its id.
    ///
    /// # Errors
    ///
    /// [`Invalid`](duly::ErrorKind::Invalid) for an event that a push would refuse;
    /// [`Unavailable`](duly::ErrorKind::Unavailable) when the database fails: roll back.
    fn push_in<C: Transaction>(
        &self,
        tx: &mut C,
        payload: T,
        when: impl Into<When>,
    ) -> impl Future<Output = Result<EventId>>;

    /// Inserts many payloads or [events](Queue::event) by one statement, of which those without a due
    /// time are due at `when`; returns their ids in their order.
    ///
    /// # Errors
    ///
    /// As [`push_in`](Self::push_in), and as [`Queue::push_many`] for too many: nothing was inserted.
    fn push_many_in<C: Transaction, I>(
        &self,
        tx: &mut C,
        items: I,
        when: impl Into<When>,
    ) -> impl Future<Output = Result<Vec<EventId>>>
    where
        I: IntoIterator,
        I::Item: Into<PushItem<T>>;
}

impl<T: Serialize + Send + Sync + 'static> PushIn<T> for Queue<T> {
    fn push_in<C: Transaction>(
        &self,
        tx: &mut C,
        payload: T,
        when: impl Into<When>,
    ) -> impl Future<Output = Result<EventId>> {
        self.event(payload).when(when).push_in(tx)
    }

    fn push_many_in<C: Transaction, I>(
        &self,
        tx: &mut C,
        items: I,
        when: impl Into<When>,
    ) -> impl Future<Output = Result<Vec<EventId>>>
    where
        I: IntoIterator,
        I::Item: Into<PushItem<T>>,
    {
        let staged = stage_many(self.push_many(items, when));
        async move {
            let staged = staged?;
            let ids = staged.iter().map(StagedEvent::id).collect();
            insert(tx, &staged).await?;
            Ok(ids)
        }
    }
}

/// Pushing an event with options of its own in a transaction.
///
/// # Examples
///
/// ```no_run
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// use duly_outbox::PushEventIn;
///
/// # #[cfg(feature = "tokio-postgres")]
/// async fn remind(
///     tx: &mut tokio_postgres::Transaction<'_>,
///     mails: &Queue<String>,
/// ) -> duly::Result<EventId> {
///     let mail = mails.event("Ada".to_owned()).after(Duration::from_secs(60));
///     mail.key("customer:7").unique("welcome:7", Unique::Keep).push_in(tx).await
/// }
/// ```
pub trait PushEventIn {
    /// Inserts the event, and returns its id.
    ///
    /// # Errors
    ///
    /// As [`PushIn::push_in`].
    fn push_in<C: Transaction>(self, tx: &mut C) -> impl Future<Output = Result<EventId>>;
}

impl<T: Serialize + Send + Sync + 'static> PushEventIn for EventBuilder<T> {
    fn push_in<C: Transaction>(self, tx: &mut C) -> impl Future<Output = Result<EventId>> {
        let staged = stage(self);
        async move {
            let staged = staged?;
            let id = staged.id();
            insert(tx, &[staged]).await?;
            Ok(id)
        }
    }
}

async fn insert<C: Transaction>(tx: &mut C, staged: &[StagedEvent]) -> Result<()> {
    if !staged.is_empty() {
        let events = staged.iter().map(StagedEvent::encode).collect();
        tx.insert_events(events).await?;
        hint::pushed();
    }
    Ok(())
}
