//! The parts that `duly-outbox` of the same version uses: not public, and outside of semver.

use std::time::Duration;

use serde::Serialize;

use crate::backoff::Backoff;
use crate::bus::{Bus, EventBuilder, OutboxBacklog, PushItem, PushMany};
pub use crate::bus::{PlainEvent, StagedEvent, StagedPush};
use crate::error::{Error, Result};
use crate::event::{EventId, QueueName};
use crate::outage::Outage;
use crate::time::Timestamp;

/// The metrics of relays.
pub mod relay_metrics {
    pub use crate::metrics::relay::{
        AWAY, DEFERRED, ERRORS, OLDEST, PUSHED, PUT_ASIDE, REFUSED_EVENTS, RELAY_CATALOGUE,
        REPEATED, RelayGauges, WAITING,
    };
}

/// Connections to PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use crate::journal::postgres::connector::{Connector, PgConnection};
}

/// Decodes percent-encoding; `None` if that is wrong, or the bytes are no UTF-8.
#[cfg(feature = "postgres")]
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    crate::journal::postgres::url::percent_decoded(text)
}

/// Prepares an event as a push does, and returns it instead of pushing it.
///
/// # Errors
///
/// As [`EventBuilder::push`], as far as the store is not asked.
pub fn stage<T: Serialize + Send + Sync + 'static>(event: EventBuilder<T>) -> Result<StagedEvent> {
    event.stage()
}

/// Prepares many events as a push does, and returns them in their order instead of pushing them.
///
/// # Errors
///
/// As [`PushMany::each`], as far as the store is not asked.
pub fn stage_many<T, I>(push: PushMany<'_, T, I>) -> Result<Vec<StagedEvent>>
where
    T: Serialize + Send + Sync + 'static,
    I: IntoIterator,
    I::Item: Into<PushItem<T>>,
{
    push.stage()
}

/// Prepares an event that was written by plain SQL, by the options of its queue.
///
/// # Errors
///
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming what is wrong.
pub fn stage_plain(bus: &Bus, plain: &PlainEvent) -> Result<StagedEvent> {
    bus.stage_plain(plain)
}

/// Returns the id of an event of plain SQL that has none: always the same for its row, of which this is
/// the number and the time of its insert. The salt tells databases apart.
#[must_use]
pub fn plain_id(salt: &str, (number, at): (i64, Timestamp), texts: [&str; 2]) -> EventId {
    let [queue, payload] = texts.map(str::as_bytes);
    let number = number.to_be_bytes();
    EventId::derived(at, &[salt.as_bytes(), &number, queue, payload])
}

/// Gives a staged event that was surely not accepted an id of the store's time now.
///
/// # Errors
///
/// When its payload is encrypted under a key that the bus does not have.
pub fn renew(bus: &Bus, staged: &StagedEvent) -> Result<StagedEvent> {
    bus.renew_staged(staged)
}

/// Pushes staged events, and returns a result for each in their order.
pub async fn push(bus: &Bus, events: &[StagedEvent]) -> Vec<StagedPush> {
    bus.push_staged(events).await
}

/// Notes what a relay of this process sees in its outbox; `None` once it has ended.
pub fn report_backlog(bus: &Bus, relay: u64, backlog: Option<OutboxBacklog>) {
    bus.report_outbox(relay, backlog);
}

/// Returns, of the queues that a bus knows, the one whose attempts of an event may last longest, and how
/// long that is.
#[must_use]
pub fn longest_attempts(bus: &Bus) -> Option<(QueueName, Duration)> {
    bus.longest_attempts()
}

/// Returns whether a bus was shut down or dropped, so that it pushes nothing any more.
#[must_use]
pub fn is_closed(bus: &Bus) -> bool {
    bus.is_closed()
}

/// Returns the store's time.
#[must_use]
pub fn now(bus: &Bus) -> Timestamp {
    bus.store_time()
}

/// Waits for a database. On virtual time, which would jump to the next timer, time stands still
/// meanwhile.
pub async fn outside<F: Future>(bus: &Bus, future: F) -> F::Output {
    bus.hold_time(future).await
}

/// Returns how long a relay waits that nothing wakes: on virtual time, which jumps from pause to pause,
/// a day.
#[must_use]
pub fn idle_pause(bus: &Bus, pause: Duration) -> Duration {
    bus.relay_pause(pause)
}

/// A log of outages with a bounded number of lines.
#[derive(Debug)]
pub struct OutageLog(Outage);

impl OutageLog {
    /// Creates the log of `what`, which every line names.
    #[must_use]
    pub const fn of(what: &'static str) -> Self {
        Self(Outage::of(what))
    }

    /// Notes a failure.
    pub fn failed(&self, error: &Error) {
        self.0.failed((), error);
    }

    /// Notes a success.
    pub fn succeeded(&self) {
        self.0.succeeded(&());
    }
}

/// Returns how long a relay waits after so many failures in a row: up to five seconds.
#[must_use]
pub fn delay_after(failures: u32) -> Duration {
    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    BACKOFF.jittered(failures)
}
