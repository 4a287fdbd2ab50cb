//! Sweeps: dead letters that are revived or dropped, events that are cancelled or rescheduled, and
//! records that are replayed, in the background, at a rate, a few at a time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use duly::admin::{EventAction, EventCursor, Events};
use duly::dead_letters::{DeadLetterCursor, DeadLetters};
use duly::records::{Cursor, Replay};
use duly::time::When;
use duly::{Bus, QueueName};
use duly_options::pace::BulkPace;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::access::User;
use crate::grant::{Extent, Grant, GrantEnd};
use crate::places::{Bounds, Owner};
use crate::record_query::RecordQuery;

/// The sweeps that run at the same time.
const RUNNING: Bounds = Bounds {
    of_all: 32,
    reserved: 8,
    of_namespace: 8,
    of_user: 4,
    of_operator: 4,
};
/// The most sweeps of a user that are listed, those that ended included, of a namespace and of all.
const LISTED_OF_USER_MAX: usize = 10;
const LISTED_OF_NAMESPACE_MAX: usize = 40;
const LISTED_MAX: usize = 200;
/// The dead letters, or events, of a page, and the most of a batch.
const STEP: usize = 50;

/// A sweep.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) id: u64,
    /// What it does, in words.
    pub(crate) what: String,
    /// What it is done to, as the audit says it.
    pub(crate) targets: Vec<String>,
    pub(crate) owner: Owner,
    /// The queues that it is confined to.
    pub(crate) extent: Extent,
    done: AtomicU64,
    stopped: AtomicBool,
    woken: Notify,
    ended: Mutex<Option<String>>,
}

impl Sweep {
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.woken.notify_one();
    }

    /// Begins the next batch when its pace allows it, while the sweep is not stopped and its user may
    /// do it.
    async fn begins(&self, pace: &mut BulkPace, grant: &Grant) -> Result<(), End> {
        self.waits_until(pace.next().into(), grant).await?;
        pace.begin(Instant::now().into_std());
        Ok(())
    }

    /// Waits while the sweep is not stopped and its user may do it.
    async fn waits_until(&self, at: Instant, grant: &Grant) -> Result<(), End> {
        tokio::select! {
            () = tokio::time::sleep_until(at) => {}
            () = self.woken.notified() => return Err(End::Stopped),
            ended = grant.ended() => return Err(ended.into()),
        }
        if self.stopped.load(Ordering::Relaxed) {
            return Err(End::Stopped);
        }
        Ok(grant.check().await?)
    }

    /// How it ended; `None` while it runs.
    pub(crate) fn ended(&self) -> Option<String> {
        self.ended.lock().clone()
    }

    /// Whether it runs, in words.
    pub(crate) fn status(&self) -> String {
        let running = if self.stopped.load(Ordering::Relaxed) {
            "stopping"
        } else {
            "running"
        };
        self.ended().unwrap_or_else(|| running.to_owned())
    }
}

/// All sweeps of this dashboard.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    list: Mutex<Vec<Arc<Sweep>>>,
    next: AtomicU64,
}

/// Why a sweep has ended before its last dead letter.
enum End {
    Stopped,
    Refused(GrantEnd),
    Failed(duly::Error),
}

impl From<GrantEnd> for End {
    fn from(ended: GrantEnd) -> Self {
        Self::Refused(ended)
    }
}

impl From<duly::Error> for End {
    fn from(error: duly::Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Refused(ended) => write!(f, "ended: {ended}"),
            Self::Failed(error) => write!(f, "failed: {error}"),
        }
    }
}

/// What a sweep does, and the query of what it does it to.
pub(crate) enum Work {
    /// Of these queues; without any it is every queue.
    Revive(Query<DeadLetters>, Vec<QueueName>),
    Drop(Query<DeadLetters>, Vec<QueueName>),
    Cancel(Query<Events>),
    /// A delay counts from its begin, so that all are due at one time.
    Reschedule(Query<Events>, When),
    /// The events of these records are pushed once more.
    Replay(Box<RecordQuery>, Replay),
}

/// Makes a query with filters and actor.
pub(crate) type Query<Q> = Box<dyn Fn(&Bus) -> Q + Send + Sync>;

impl Sweeps {
    /// Returns the sweeps, the newest first.
    pub(crate) fn list(&self) -> Vec<Arc<Sweep>> {
        let list = self.list.lock();
        list.iter().rev().cloned().collect()
    }

    /// Starts one, unless too many run. It ends with its grant.
    pub(crate) fn start(
        &self,
        (work, grant): (Work, Grant),
        (what, targets, user, extent): (String, Vec<String>, &User, Extent),
        (bus, rate): (Bus, f64),
    ) -> Option<Arc<Sweep>> {
        let mut list = self.list.lock();
        let owner = Owner::of(user);
        let running = list.iter().filter(|sweep| sweep.ended().is_none());
        if !RUNNING.admit(&owner, running.map(|sweep| &sweep.owner)) {
            return None;
        }
        // Its own go first, so that nobody hides those of others.
        let is_own = |it: &Sweep| it.owner.user == owner.user;
        let is_sibling = |it: &Sweep| it.owner.is_sibling(&owner);
        let of_user = list.iter().filter(|it| is_own(it)).count();
        let siblings = list.iter().filter(|it| is_sibling(it)).count();
        let is_full = of_user >= LISTED_OF_USER_MAX
            || siblings >= LISTED_OF_NAMESPACE_MAX
            || list.len() >= LISTED_MAX;
        let goes = |it: &Arc<Sweep>| {
            let is_near = if of_user >= LISTED_OF_USER_MAX {
                is_own(it)
            } else {
                siblings < LISTED_OF_NAMESPACE_MAX || is_sibling(it)
            };
            is_near && it.ended().is_some()
        };
        if is_full && let Some(at) = list.iter().position(goes) {
            list.remove(at);
        }
        let sweep = Arc::new(Sweep {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            what,
            targets,
            owner,
            extent,
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            woken: Notify::new(),
            ended: Mutex::new(None),
        });
        list.push(Arc::clone(&sweep));
        let running = Arc::clone(&sweep);
        tokio::spawn(async move {
            let end = match run(&running, (&work, &grant), (&bus, rate)).await {
                Ok(done) => done,
                Err(end) => end.to_string(),
            };
            *running.ended.lock() = Some(end);
        });
        Some(sweep)
    }
}

/// Works through what was there when it began; returns in words that it is done.
async fn run(
    sweep: &Sweep,
    (work, grant): (&Work, &Grant),
    (bus, rate): (&Bus, f64),
) -> Result<String, End> {
    // One pace for the whole sweep: each call of the store would begin one of its own.
    let pace = BulkPace::new(Some(rate), Instant::now().into_std());
    match work {
        Work::Revive(make, queues) => {
            letters(sweep, (make, queues, true), grant, (bus, pace)).await?;
        }
        Work::Drop(make, queues) => {
            letters(sweep, (make, queues, false), grant, (bus, pace)).await?;
        }
        Work::Cancel(make) => {
            events(sweep, (make, EventAction::Cancel), grant, (bus, pace)).await?;
        }
        Work::Reschedule(make, when) => {
            // One time for all: each page would have its own.
            let when = match *when {
                When::After(delay) => When::At(bus.store_time() + delay),
                when => when,
            };
            let action = EventAction::Reschedule(when);
            events(sweep, (make, action), grant, (bus, pace)).await?;
        }
        Work::Replay(records, replay) => {
            return replayed(sweep, (records, replay), grant, pace).await;
        }
    }
    Ok("done".to_owned())
}

/// Confines dead letters to some queues; without any they are of every queue.
pub(crate) fn of_queues(letters: DeadLetters, queues: &[QueueName]) -> DeadLetters {
    let add = |letters: DeadLetters, queue: &QueueName| letters.queue(queue);
    queues.iter().fold(letters, add)
}

/// Works through the pages of dead letters.
async fn letters(
    sweep: &Sweep,
    (make, of, revives): (&Query<DeadLetters>, &[QueueName], bool),
    grant: &Grant,
    (bus, mut pace): (&Bus, BulkPace),
) -> Result<(), End> {
    let began = bus.store_time();
    let mut after: Option<DeadLetterCursor> = None;
    loop {
        // A page may have none of those that are looked for.
        sweep.waits_until(Instant::now(), grant).await?;
        let found = of_queues(make(bus), of).after(after);
        let page = found.limit(STEP).page().await?;
        let old = page.items.iter();
        let old = old.filter(|letter| letter.died_before(began));
        // Ids are of one queue each, and named with it they cost one question each.
        let mut queues: std::collections::BTreeMap<_, Vec<_>> = Default::default();
        for letter in old {
            queues
                .entry(letter.queue.clone())
                .or_default()
                .push(letter.id);
        }
        let batch = pace.stride(STEP);
        let mut batches = Vec::new();
        for (queue, ids) in &queues {
            batches.extend(ids.chunks(batch).map(|ids| (queue, ids.to_vec())));
        }
        for (queue, ids) in batches {
            sweep.begins(&mut pace, grant).await?;
            pace.count(ids.len() as u64);
            let letters = make(bus).queue(queue);
            let result = if revives {
                letters.revive(ids).await?
            } else {
                letters.drop(ids).await?
            };
            // What was done before an error stays done.
            sweep.done.fetch_add(result.done, Ordering::Relaxed);
            let _ = result.finished()?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Works through the pages of events. What runs, or is over, stays as it is.
async fn events(
    sweep: &Sweep,
    (make, action): (&Query<Events>, EventAction),
    grant: &Grant,
    (bus, mut pace): (&Bus, BulkPace),
) -> Result<(), End> {
    let began = bus.store_time();
    let mut after: Option<EventCursor> = None;
    loop {
        sweep.begins(&mut pace, grant).await?;
        let events = make(bus).pushed_until(began).after(after);
        let page = events.limit(pace.stride(STEP)).change_page(action).await?;
        sweep.done.fetch_add(page.changed, Ordering::Relaxed);
        pace.count(page.changed);
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Works through the pages of records.
async fn replayed(
    sweep: &Sweep,
    (records, replay): (&RecordQuery, &Replay),
    grant: &Grant,
    mut pace: BulkPace,
) -> Result<String, End> {
    let mut after: Option<Cursor> = None;
    let (mut repeated, mut left_out) = (0, 0);
    loop {
        sweep.begins(&mut pace, grant).await?;
        let limit = u32::try_from(pace.stride(STEP)).unwrap_or(1);
        let page = records.page(after, limit).await?;
        let report = replay.push(&page.items).await?;
        sweep.done.fetch_add(report.pushed, Ordering::Relaxed);
        repeated += report.repeated;
        left_out += report.without_payload + report.unreadable;
        pace.count(report.pushed);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut done = "done".to_owned();
    if repeated > 0 {
        done += &format!("; {repeated} were pushed under its name before");
    }
    if left_out > 0 {
        done += &format!("; {left_out} have no payload that can be read");
    }
    Ok(done)
}
