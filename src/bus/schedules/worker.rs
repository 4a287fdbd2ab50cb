//! The worker of the schedules of a namespace: a task of a bus that leases the links that are due, and
//! looks at their schedules, so that none waits for those of another namespace.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::backoff::Backoff;
use crate::bus::fan_out::as_they_come_past_slow;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::lease::{LeaseStatus, Leased};
use crate::bus::schedules::advance::advance;
use crate::bus::schedules::link::{Link, VERSION};
use crate::bus::schedules::links::count;
use crate::bus::schedules::written::{Look, LookWrites};
use crate::core::op::Unique;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, Occurrence, QueueName, SkipReason};
use crate::metrics::ScheduleMeters;
use crate::outage::Outage;
use crate::panics;
use crate::store::KEEP_FOR;

/// How many schedules are looked at with one lease.
const BATCH: usize = 256;
/// How long a bus that dies holds up the schedules that it works on; each is looked at long before
/// its next occurrence is due.
const TTR: Duration = Duration::from_secs(20);
/// A worker that has had nothing to do for so long ends, if its namespace has no schedule.
const IDLE_AFTER: Duration = Duration::from_secs(600);
/// The pauses after a failed list or lease.
pub(super) const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// The delays of a schedule that could not be looked at.
const RETRIES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The delays of one that this process cannot read, as it lacks the key, is of an older version or does
/// not know the time zone: another process may have it soon, many times before an occurrence would be late.
const UNREADABLE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));
/// So few attempts are kept, so that no schedule becomes a dead letter.
const ATTEMPTS_LEFT: u16 = 100;

/// The queues of the namespaces that have a worker.
pub(super) type Served = Mutex<BTreeSet<QueueName>>;

pub(super) struct Worker {
    inner: Weak<Inner>,
    queue: QueueName,
    served: Arc<Served>,
    outage: Outage<String>,
    meters: ScheduleMeters,
}

impl Worker {
    /// Starts the worker of a namespace, if it has none.
    pub(super) fn start(
        inner: &Arc<Inner>,
        queue: QueueName,
        (served, meters): (&Arc<Served>, &ScheduleMeters),
    ) {
        if !served.lock().insert(queue.clone()) {
            return;
        }
        let (served, meters) = (Arc::clone(served), meters.clone());
        let worker = Self {
            inner: Arc::downgrade(inner),
            queue,
            served,
            outage: Outage::of("schedules"),
            meters,
        };
        let worker = Arc::new(worker);
        let run = move || Arc::clone(&worker).run();
        inner
            .runtime
            .spawn(panics::lasting("looking at schedules panicked", run));
    }

    async fn run(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            let Some(inner) = self.inner.upgrade().filter(|inner| inner.open().is_ok()) else {
                return;
            };
            match self.lease(&inner).await {
                Ok(leased) if leased.is_empty() => {
                    if self.ends(&inner).await {
                        return;
                    }
                }
                Ok(leased) => {
                    failures = 0;
                    let looks = leased.into_iter().map(|one| self.look(&inner, one));
                    as_they_come_past_slow(looks).collect::<()>().await;
                }
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    failures += 1;
                    self.outage.failed(String::new(), &error);
                    drop(inner);
                    tokio::time::sleep(PAUSES.jittered(failures)).await;
                }
            }
        }
    }

    /// Returns whether its namespace has no schedule, so that it ends. Another one is started when
    /// there is a schedule again, also if that was made meanwhile.
    async fn ends(&self, inner: &Arc<Inner>) -> bool {
        self.served.lock().remove(&self.queue); // before it is looked whether there is one
        let Ok(store) = inner.open() else {
            return true;
        };
        let count = match store.buckets_of(&self.queue).await {
            Ok(known) if known.away.is_none() => count(inner, &known.buckets).await,
            Ok(_) => return self.is_replaced(),
            Err(error) => Err(error),
        };
        matches!(count, Ok(0)) || self.is_replaced()
    }

    /// Serves the namespace again; returns whether another worker does so by now.
    fn is_replaced(&self) -> bool {
        !self.served.lock().insert(self.queue.clone())
    }

    /// Leases links that are due, or waits for them.
    async fn lease(&self, inner: &Arc<Inner>) -> Result<Vec<Leased<Result<Link>>>> {
        let bus = Bus::from_inside(Arc::clone(inner));
        // What cannot be read is leased as well, since a request makes dead letters of the rest.
        let read = |inner: &Inner, stored: &Envelope, _| Ok(read(inner, stored));
        let request = bus.lease_read(std::slice::from_ref(&self.queue), (BATCH, TTR), read);
        request.wait(inner.real_pause(IDLE_AFTER)).send().await
    }

    /// Looks at one schedule, and settles its link.
    async fn look(&self, inner: &Arc<Inner>, leased: Leased<Result<Link>>) {
        let name = leased.event().key().unwrap_or_default().to_owned();
        let due = leased.event().due().unwrap_or_default();
        let is_repeated = leased.attempt() > 1;
        let look = Look {
            due,
            is_repeated,
            is_old: is_repeated || inner.now().since(due) > KEEP_FOR,
        };
        let mut connections = inner.store.connections();
        let settled = match &leased.event().payload {
            Ok(link) => match advance(inner, link, look).await {
                Ok(written) => {
                    self.outage.succeeded(&name);
                    self.tell(link, written.occurrences());
                    let what = (name.as_str(), &written, look);
                    self.restore(inner, what, (&mut connections, Unique::Replace))
                        .await;
                    let settled = match written.again {
                        Some(delay) => leased.snooze(delay).await,
                        None => leased.ack().await,
                    };
                    self.restore(inner, what, (&mut connections, Unique::Keep))
                        .await;
                    settled
                }
                Err(error) => self.hand_back(&name, &leased, &error).await,
            },
            Err(error) => self.hand_back(&name, &leased, error).await,
        };
        // A lost lease, or a store that is away: the link is looked at again, which changes nothing.
        if let Err(error) = settled {
            self.outage.failed(name, &error);
        }
    }

    /// Hands back the link of a schedule that could not be looked at.
    async fn hand_back(
        &self,
        name: &str,
        leased: &Leased<Result<Link>>,
        error: &Error,
    ) -> Result<LeaseStatus> {
        let delays = match error.kind() {
            ErrorKind::Corrupt => UNREADABLE,
            _ => RETRIES,
        };
        self.outage.failed(name.to_owned(), error);
        let delay = delays.jittered(leased.attempt().into());
        if leased.attempts_left() > ATTEMPTS_LEFT {
            leased.retry_after(delay, error.to_string()).await
        } else {
            leased.snooze(delay).await
        }
    }

    /// Writes once more what the store may have lost since there were so many connections.
    async fn restore(
        &self,
        inner: &Arc<Inner>,
        (name, written, look): (&str, &LookWrites, Look),
        (connections, keeps): (&mut u64, Unique),
    ) {
        let now = inner.store.connections();
        if std::mem::replace(connections, now) != now
            && let Err(error) = written.restore(inner, look, keeps).await
        {
            self.outage.failed(name.to_owned(), &error);
        }
    }

    /// Tells what a look has done.
    fn tell(&self, link: &Link, occurrences: &[Occurrence]) {
        let (schedule, queue) = (&link.name, link.options.queue());
        let skipped = |reason| {
            let skipped = occurrences.iter().filter(|one| one.skipped == Some(reason));
            skipped.map(|one| one.missed + 1).sum::<u64>()
        };
        let made_up = occurrences.iter().filter(|one| one.skipped.is_none());
        let coalesced: u64 = made_up.clone().map(|one| one.missed).sum();
        let (missed, overlapped) = (skipped(SkipReason::Missed), skipped(SkipReason::Overlap));
        self.meters.pushed(made_up.count() as u64);
        self.meters.missed(missed);
        self.meters.overlapped(overlapped);
        if missed > 0 {
            let policy = link.options.missed_policy();
            panics::reported(|| {
                tracing::warn!(
                    %schedule, %queue, missed, coalesced, %policy,
                    "occurrences were missed"
                );
            });
        }
        if overlapped > 0 {
            panics::reported(|| {
                tracing::info!(
                    %schedule, %queue, overlapped,
                    "occurrences were passed over: the one before had not ended"
                );
            });
        }
    }
}

/// Reads a link.
pub(super) fn read(inner: &Inner, stored: &Envelope) -> Result<Link> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let damaged = "the stored form of the schedule is damaged";
    let wrong = |error| Error::new(ErrorKind::Corrupt, damaged).because(error);
    let opened = inner.keys.open(stored.id, &stored.queue, &stored.payload);
    let opened = opened.map_err(|why| {
        let text = format!("the schedule cannot be read in this process: {why}");
        Error::new(ErrorKind::Corrupt, text).because(why)
    })?;
    let Version { version } = serde_json::from_slice(&opened.value).map_err(wrong)?;
    if version > VERSION {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("the schedule was written by a newer version of duly, in form {version}"),
        ));
    }
    serde_json::from_slice(&opened.value).map_err(wrong)
}
