//! Explanations: why an event does not run.
//!
//! [`collect`] collects facts from the store and this process, [`diagnose`] derives reasons, [`history`]
//! reads the records, and [`format`] formats the result.

mod collect;
mod command;
mod diagnose;
mod facts;
mod format;
mod history;
mod reason;
#[cfg(test)]
mod tests;

use crate::bus::handle::Bus;
use crate::error::Result;
use crate::event::{EventId, Occurrence, QueueName, State};
use crate::time::Timestamp;

pub use self::history::Attempts;
pub use self::reason::{HolderStatus, Reason, Spread};

/// Where an event is, since when, what it waits for, the history of its attempts, and advice;
/// [`Display`](std::fmt::Display) formats it in a few lines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The event.
    pub id: EventId,
    /// The time of this explanation, by the store's clock.
    pub at: Timestamp,
    /// Its queue, if the event is known.
    pub queue: Option<QueueName>,
    /// Its state; `None` where that is unknown.
    pub state: Option<State>,
    /// When it entered its state, where that is known.
    pub since: Option<Timestamp>,
    /// When it is, or was, due.
    pub due: Option<Timestamp>,
    /// The counted attempts that have ended.
    pub tries: u16,
    /// The most attempts, while it is not over.
    pub tries_max: Option<u16>,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The occurrence of a schedule that it stands for, while it is not over.
    pub occurrence: Option<Occurrence>,
    /// Why it is where it is, the most important reason first; never empty.
    pub reasons: Vec<Reason>,
    /// Its history so far.
    pub attempts: Attempts,
}

impl Explanation {
    /// Returns advice for each reason that can be acted upon.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        self.advice_by(Reason::advice)
    }

    /// Returns the advice with commands of the program `duly`, for whoever types in a shell.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        self.advice_by(Reason::command)
    }

    fn advice_by(&self, advice: fn(&Reason, EventId, &str) -> Option<String>) -> Vec<String> {
        let queue = self.queue.as_ref().map_or("..", QueueName::as_str);
        let is_leased = self.state == Some(State::Leased);
        // A leased event can be neither rescheduled nor cancelled.
        let is_of_use = |it: &&Reason| !(is_leased && matches!(it, Reason::NotDue { .. }));
        let reasons = self.reasons.iter().filter(is_of_use);
        let advice = reasons.map(|it| advice(it, self.id, queue));
        advice.flatten().collect()
    }
}

impl Bus {
    /// Explains an event: where it is, since when, what it waits for, the history of its attempts,
    /// and what can be done.
    ///
    /// The id is enough to find it. Other nodes are not assumed to be alive but observed: where
    /// that matters, the call takes 0.6 s, in which a live node polls twice. An unresponsive store
    /// or journal is part of the explanation and no error; each query times out after two seconds.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) when the bus was shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duly::prelude::*;
    /// use duly::explain::Reason;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let queue = bus.queue_named::<u64>("order-close")?;
    /// let id = queue.push(7, Duration::from_secs(1800)).await?.id();
    ///
    /// let explained = bus.explain(id).await?;
    /// assert!(matches!(explained.reasons[0], Reason::NotDue { .. }));
    /// println!("{explained}");
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn explain(&self, id: EventId) -> Result<Explanation> {
        self.inner.open()?;
        Ok(collect::explain(self, None, id).await)
    }

    /// Explains an event of a queue, as [`explain`](Self::explain) does. It asks no other queue, so
    /// it costs the same however many there are.
    ///
    /// # Errors
    ///
    /// As [`explain`](Self::explain), and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an
    /// invalid name.
    pub async fn explain_in(&self, queue: &str, id: EventId) -> Result<Explanation> {
        self.inner.open()?;
        Ok(collect::explain(self, Some(QueueName::new(queue)?), id).await)
    }
}
