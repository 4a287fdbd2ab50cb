//! The workers of schedules: for each namespace a task of a bus that leases the links that are due,
//! and looks at their schedules, so that none waits for those of another namespace.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use serde::Deserialize;

use crate::backoff::Backoff;
use crate::bus::fan_out::as_they_come;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::lease::{LEASE_WAIT_MAX, LeaseStatus, Leased};
use crate::bus::schedules::advance::advance;
use crate::bus::schedules::link::{Link, VERSION};
use crate::bus::schedules::written::{Look, LookWrites};
use crate::core::op::Unique;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Envelope, Occurrence, QueueName, SkipReason, has_schedules};
use crate::metrics::ScheduleMeters;
use crate::outage::Outage;
use crate::panics;
use crate::store::KEEP_FOR;

/// How many schedules are looked at with one lease.
const BATCH: usize = 256;
/// How long a bus that dies holds up the schedules that it works on; each is looked at long before
/// its next occurrence is due.
const TTR: Duration = Duration::from_secs(20);
/// How often a store is asked whether it has schedules of another namespace by now.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// The pauses after a failed list or lease.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// The delays of a schedule that could not be looked at.
const RETRIES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The delays of one that this process cannot read, as it lacks the key, is of an older version or does
/// not know the time zone: another process may have it soon, many times before an occurrence would be late.
const UNREADABLE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));
/// So few attempts are kept, so that no schedule becomes a dead letter.
const ATTEMPTS_LEFT: u16 = 100;

/// Starts the workers, also those of namespaces that have schedules later; they end with the bus.
pub(super) fn start(inner: &Arc<Inner>) {
    let meters = ScheduleMeters::new(); // they are told before there is a schedule
    inner.runtime.spawn(watch(Arc::downgrade(inner), meters));
}

/// Starts a worker for each queue of schedules of the store.
async fn watch(inner: Weak<Inner>, meters: ScheduleMeters) {
    let outage = Outage::of("the list of schedules");
    let (mut served, mut failures) = (BTreeSet::new(), 0);
    loop {
        let Some(inner) = inner.upgrade().filter(|inner| inner.open().is_ok()) else {
            return;
        };
        let woken = Arc::clone(&inner.schedules_woken);
        let woken = woken.notified(); // before the list: what is made after it wakes this
        let pause = match queues(&inner).await {
            Ok(queues) => {
                failures = 0;
                outage.succeeded(&());
                for queue in queues {
                    if served.insert(queue.clone()) {
                        Worker::start(&inner, queue, meters.clone());
                    }
                }
                inner.real_pause(LIST_EVERY)
            }
            Err(error) if error.kind() == ErrorKind::Closed => return,
            Err(error) => {
                failures += 1;
                outage.failed((), &error);
                PAUSES.jittered(failures)
            }
        };
        drop(inner); // the bus may end meanwhile
        let _ = tokio::time::timeout(pause, woken).await;
    }
}

/// The queues of schedules that the store knows.
async fn queues(inner: &Arc<Inner>) -> Result<BTreeSet<QueueName>> {
    let known = inner.open()?.known_buckets().await?;
    let queues = known.buckets.into_iter().map(|bucket| bucket.queue);
    Ok(queues.filter(has_schedules).collect())
}

struct Worker {
    inner: Weak<Inner>,
    queue: QueueName,
    outage: Outage<String>,
    meters: ScheduleMeters,
}

impl Worker {
    fn start(inner: &Arc<Inner>, queue: QueueName, meters: ScheduleMeters) {
        let worker = Self {
            inner: Arc::downgrade(inner),
            queue,
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
                Ok(leased) => {
                    failures = 0;
                    let looks = leased.into_iter().map(|one| self.look(&inner, one));
                    as_they_come(looks).collect::<()>().await;
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

    /// Leases links that are due, or waits for them.
    async fn lease(&self, inner: &Arc<Inner>) -> Result<Vec<Leased<Result<Link>>>> {
        let bus = Bus::from_inside(Arc::clone(inner));
        // What cannot be read is leased as well, since a request makes dead letters of the rest.
        let read = |inner: &Inner, stored: &Envelope, _| Ok(read(inner, stored));
        let request = bus.lease_read(std::slice::from_ref(&self.queue), (BATCH, TTR), read);
        request.wait(LEASE_WAIT_MAX).send().await
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
                    let settled = leased.ack().await;
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
            tracing::warn!(%schedule, %queue, missed, coalesced, %policy, "occurrences were missed");
        }
        if overlapped > 0 {
            tracing::info!(
                %schedule, %queue, overlapped,
                "occurrences were passed over: the one before had not ended"
            );
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
