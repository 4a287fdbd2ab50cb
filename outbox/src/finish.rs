//! Finishing in a transaction: an effect in a database and the end of its event commit together.

use duly::{Context, Error, ErrorKind, Event, QueueName, Result};

use crate::transaction::{Done, Transaction};

/// Whether an attempt is the one whose effect counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the effect must not happen again if an earlier attempt has finished"]
pub enum Finish {
    /// No attempt of the event has committed its effect: have the effect in this transaction, and
    /// commit.
    First,
    /// An earlier attempt has committed its effect: roll back, and return `Ok`.
    Again,
}

impl Finish {
    /// Returns whether an earlier attempt has committed its effect.
    #[must_use]
    pub fn is_again(self) -> bool {
        self == Self::Again
    }
}

/// Finishing an event in a transaction of its handler.
pub trait FinishIn {
    /// Notes in `tx` that the event is finished, and returns whether it was already: call it first,
    /// have the effect in the same transaction, and commit. Then the effect happens once in that
    /// database, however often the event is attempted.
    ///
    /// Where the id is that of a [name](duly::EventId::for_name), the time of the push counts as well:
    /// the next event of that name, once the store has forgotten this one, has its effect again.
    ///
    /// An attempt that runs beside this one, as its lease was lost, waits here for the end of this
    /// transaction. How long an end is known is
    /// [`RelayOptions::done_kept`](crate::RelayOptions::done_kept).
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for an event that is in no store, since it has no id;
    /// [`Unavailable`](ErrorKind::Unavailable) when the database fails: return it, so that the event
    /// is attempted again.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[cfg(feature = "sqlx")] mod example {
    /// use duly::prelude::*;
    /// use duly_outbox::FinishIn;
    ///
    /// #[delay_event(queue = "order-close", state(sqlx::PgPool), register = false)]
    /// async fn close(event: Event<i64>, cx: &Context) -> Result<(), Failure> {
    ///     let mut tx = cx.state::<sqlx::PgPool>().begin().await?;
    ///     if cx.finish_in(&mut tx, &event).await?.is_again() {
    ///         return Ok(()); // this order was closed by an attempt before
    ///     }
    ///     let close = sqlx::query("update orders set stock = stock + 1 where id = $1");
    ///     close.bind(event.payload).execute(&mut *tx).await?;
    ///     tx.commit().await?;
    ///     Ok(())
    /// }
    /// # }
    /// ```
    fn finish_in<T, C: Transaction>(
        &self,
        tx: &mut C,
        event: &Event<T>,
    ) -> impl Future<Output = Result<Finish>>;
}

impl FinishIn for Context {
    fn finish_in<T, C: Transaction>(
        &self,
        tx: &mut C,
        event: &Event<T>,
    ) -> impl Future<Output = Result<Finish>> {
        let name = name(self.queue_name(), event);
        let done = self.lease().map(|lease| {
            let lease = format!("{}:{}", lease.node, lease.request);
            Done::new(name, event.attempt(), lease)
        });
        async move {
            let done = done.ok_or_else(|| {
                let wrong = "the event was published and is in no store, so it has no id by which \
                             its end could be known; push it";
                Error::new(ErrorKind::Invalid, wrong)
            })?;
            Ok(if tx.insert_done(done).await? {
                Finish::First
            } else {
                Finish::Again
            })
        }
    }
}

/// Returns the name of an event that no other has.
fn name<T>(queue: &QueueName, event: &Event<T>) -> String {
    // An id is that of one event in its queue only, as callers may choose it.
    let name = format!("{queue}/{}", event.id());
    match event.pushed() {
        // An id of a name is that of several events, one after the other. Those of schedules are not:
        // an occurrence that comes again is the same.
        Some(pushed) if !event.id().tells_time() && event.occurrence().is_none() => {
            format!("{name}/{}", pushed.as_millis())
        }
        _ => name,
    }
}
