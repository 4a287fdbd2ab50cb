//! Why does this event not run? One answer for a person who asks.
//!
//! [`look`] asks the store and this process, [`judge`] makes reasons of the facts, [`past`] reads
//! the records, and [`words`] says it all in a few lines.

mod judge;
mod look;
mod past;
mod reason;
#[cfg(test)]
mod tests;
mod words;

use crate::bus::Bus;
use crate::error::Result;
use crate::event::{EventId, QueueName, State};
use crate::time::Timestamp;

pub use self::past::Attempts;
pub use self::reason::{Reason, Spread, Standing};

/// Where an event is, since when, what it waits for, what happened in each attempt, and what can be
/// done about it; [`Display`](std::fmt::Display) says it in a few lines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The event.
    pub id: EventId,
    /// When this was so, by the store's clock.
    pub at: Timestamp,
    /// Its queue, where anything is known of the event.
    pub queue: Option<QueueName>,
    /// Where it stands, or stood at its end; `None` where that is not known.
    pub state: Option<State>,
    /// Since when it stands there, where that is known.
    pub since: Option<Timestamp>,
    /// When it is, or was, due.
    pub due: Option<Timestamp>,
    /// Attempts that have ended and count.
    pub tries: u16,
    /// How often it is tried at most, while it is not over.
    pub tries_max: Option<u16>,
    /// What it belongs to, if it said so.
    pub key: Option<String>,
    /// Why it is where it is, the weightiest reason first; never empty.
    pub reasons: Vec<Reason>,
    /// What happened to it so far.
    pub attempts: Attempts,
}

impl Explanation {
    /// What an operator could do, for each reason that there is something to do about.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let queue = self.queue.as_ref().map_or("..", QueueName::as_str);
        let is_leased = self.state == Some(State::Leased);
        // What a node holds can be neither moved nor taken back.
        let is_of_use = |it: &&Reason| !(is_leased && matches!(it, Reason::NotDue { .. }));
        let reasons = self.reasons.iter().filter(is_of_use);
        let advice = reasons.map(|it| it.advice(self.id, queue));
        advice.flatten().collect()
    }
}

impl Bus {
    /// Explains an event: where it is, since when, what it waits for, what happened in each attempt,
    /// and what can be done about it.
    ///
    /// It is found by its id alone. Whether other nodes are alive is heard and not believed: where
    /// that matters, the answer takes 0.6 s, in which a node that lives is heard of twice. A store
    /// or a journal that does not answer is a part of the explanation and no error; each question is
    /// given up after two seconds.
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
        Ok(look::explain(self, id).await)
    }
}
