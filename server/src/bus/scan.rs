//! Scans of a queue: its ready jobs and its dead ones, without their bodies.

use std::ops::ControlFlow;

use duly::__server::dead_letters::died_before;
use duly::__server::payloads;
use duly::admin::{EventCursor, StoredEvent};
use duly::dead_letters::DeadLetterCursor;
use duly::event::State;
use duly::records::Page;
use duly::time::Timestamp;
use duly::{Error, ErrorKind, EventId, Queue, Result};

use super::{Body, FoundJob, Pool};

/// The most events that a scan of a queue reads.
const SCAN_MAX: usize = 10_000;
/// How often a queue is scanned for its head, where consumers take all that was found meanwhile.
const HEAD_SCANS_MAX: usize = 4;
/// The most dead events that are listed at a time, but for what the last page has beyond it.
const DEAD_MAX: usize = 10_000;
/// The most events that are read for a ready one, where those before it wait for their time.
const FIRST_SCAN_MAX: usize = 1_000_000;
/// The size of a page of events.
const PAGE: usize = 1_000;

impl Pool {
    /// Begins a search for the job of a queue that has been ready for longest, or, where consumers
    /// take it meanwhile, one soon after it.
    ///
    /// A store lists events in an order of its own, so of a queue with more than [`SCAN_MAX`] jobs
    /// it is the one among those.
    pub(crate) fn head<'a>(&'a self, queue: &'a Queue<Body>) -> HeadSearch<'a> {
        HeadSearch {
            pool: self,
            queue,
            scans: 0,
            scan: None,
            jobs: Vec::new(),
        }
    }

    /// Returns the first of these jobs, or one soon after it, that is still ready. Consumers take
    /// them in this order, and thousands while one is read, so each step is as far as all before it.
    async fn first_ready(
        &self,
        queue: &Queue<Body>,
        jobs: &[(Timestamp, EventId)],
    ) -> Result<Option<FoundJob>> {
        let mut at = 0;
        while let Some((_, id)) = jobs.get(at) {
            let job = self.get(queue, *id).await?;
            let job = job.filter(|job| is_ready(job.state, job.due, self.now()));
            if job.is_some() {
                return Ok(job);
            }
            at = at * 2 + 1;
        }
        Ok(None)
    }

    /// Begins a walk through the dead jobs of a queue.
    pub(crate) fn dead_jobs<'a>(&'a self, queue: &'a Queue<Body>) -> DeadJobs<'a> {
        DeadJobs {
            pool: self,
            queue,
            began: self.now(),
            list: Vec::new().into_iter(),
            place: None,
            is_last: false,
        }
    }

    /// Removes the jobs of a page that were ready at a time; returns where the next page begins.
    pub(crate) async fn remove_ready(
        &self,
        queue: &Queue<Body>,
        then: Timestamp,
        after: Option<EventCursor>,
    ) -> Result<Option<EventCursor>> {
        let page = page_of(queue, after).await?;
        let items = page.items.into_iter();
        for event in items.filter(|event| is_ready(event.state, event.due, then)) {
            // One that was leased meanwhile is not ready any more, and stays.
            let _ = event.cancel().await?;
        }
        Ok(page.next)
    }
}

/// A walk through the dead jobs of a queue, each of them once, and none that dies after it has begun:
/// what is put back, and dies again, would keep it going.
///
/// They come from lists of [`DEAD_MAX`], of each the first that died first. A store lists dead events
/// by their ids, so of a queue with more than that the first is the one among those.
#[derive(Debug)]
pub(crate) struct DeadJobs<'a> {
    pool: &'a Pool,
    queue: &'a Queue<Body>,
    began: Timestamp,
    /// What is left of the last list.
    list: std::vec::IntoIter<(Option<Timestamp>, EventId)>,
    /// Where the next list begins.
    place: Option<DeadLetterCursor>,
    is_last: bool,
}

impl DeadJobs<'_> {
    /// Returns the next ones, at most `limit`; none at the end.
    pub(crate) async fn next(&mut self, limit: usize) -> Result<Vec<EventId>> {
        while self.list.as_slice().is_empty() && !self.is_last {
            // What the first list has was there, whatever the clock said when it died.
            let is_first = self.place.is_none();
            let mut list = self.read_list().await?;
            list.retain(|(died, _)| is_first || died_before(*died, self.began));
            list.sort_unstable();
            self.list = list.into_iter();
        }
        Ok(self.list.by_ref().take(limit).map(|(_, id)| id).collect())
    }

    async fn read_list(&mut self) -> Result<Vec<(Option<Timestamp>, EventId)>> {
        let mut list = Vec::new();
        while !self.is_last && list.len() < DEAD_MAX {
            let letters = self.pool.bus.dead_letters().queue(self.queue.name());
            let letters = letters.limit(PAGE).after(self.place.take());
            match payloads::dead_ids(letters).await {
                Ok(page) => {
                    list.extend(page.items);
                    self.is_last = page.next.is_none();
                    self.place = page.next;
                }
                // A new queue whose name is nearly that of another.
                Err(error) if error.kind() == ErrorKind::NotFound => self.is_last = true,
                Err(error) => return Err(error),
            }
        }
        Ok(list)
    }
}

/// Reads a page of the events of a queue, without their payloads.
async fn page_of(
    queue: &Queue<Body>,
    after: Option<EventCursor>,
) -> Result<Page<StoredEvent, EventCursor>> {
    let events = queue.events().limit(PAGE).after(after);
    payloads::without_payloads(events).page().await
}

/// Whether an event is ready: in the ready list, or due and not moved there yet.
fn is_ready(state: State, due: Timestamp, now: Timestamp) -> bool {
    match state {
        State::Ready => true,
        State::Scheduled => due <= now,
        _ => false,
    }
}

/// A scan for so many ready events among the first ones of a queue, page by page.
#[derive(Debug)]
struct ReadyScan {
    /// How many were not found yet.
    left: usize,
    now: Timestamp,
    /// A bound for all that is read, and one until the first is found that has not expired.
    most: (usize, usize),
    seen: usize,
    has_one: bool,
    place: Option<EventCursor>,
}

impl ReadyScan {
    fn new(ready: usize, now: Timestamp, most: (usize, usize)) -> Self {
        Self {
            left: ready,
            now,
            most,
            seen: 0,
            has_one: false,
            place: None,
        }
    }

    /// Visits the ready events of the next page, each with whether it has expired; returns at the end
    /// whether these were all.
    async fn page(
        &mut self,
        queue: &Queue<Body>,
        mut visit: impl FnMut(&StoredEvent, bool),
    ) -> Result<Option<bool>> {
        let (most, first_most) = self.most;
        if self.left == 0 {
            return Ok(Some(true));
        }
        if self.seen >= if self.has_one { most } else { first_most } {
            return Ok(Some(false));
        }
        let page = page_of(queue, self.place.take()).await?;
        // A page without events counts as well.
        self.seen += page.items.len() + 1;
        let (now, items) = (self.now, page.items.iter());
        for event in items.filter(|event| is_ready(event.state, event.due, now)) {
            let has_expired = event.expires.is_some_and(|expires| expires <= now);
            self.has_one |= !has_expired;
            visit(event, has_expired);
            self.left = self.left.saturating_sub(1);
        }
        self.place = page.next;
        Ok(self.place.is_none().then_some(true))
    }
}

/// A search for the job of a queue that has been ready for longest.
#[derive(Debug)]
pub(crate) struct HeadSearch<'a> {
    pool: &'a Pool,
    queue: &'a Queue<Body>,
    /// How many scans have begun.
    scans: usize,
    scan: Option<ReadyScan>,
    /// What the scan has found.
    jobs: Vec<(Timestamp, EventId)>,
}

impl HeadSearch<'_> {
    /// Reads the next page; returns at the end the job, if there is one.
    pub(crate) async fn page(&mut self) -> Result<ControlFlow<Option<FoundJob>>> {
        let scan = match &mut self.scan {
            Some(scan) => scan,
            None if self.scans == HEAD_SCANS_MAX => return Ok(ControlFlow::Break(None)),
            None => {
                let (ready, now) = (self.pool.stats(self.queue).await?.ready, self.pool.now());
                self.scans += 1;
                self.jobs.clear();
                let most = (SCAN_MAX, FIRST_SCAN_MAX);
                self.scan.insert(ReadyScan::new(ready, now, most))
            }
        };
        let jobs = &mut self.jobs;
        let visited = scan.page(self.queue, |event, has_expired| {
            if !has_expired {
                jobs.push((event.since.unwrap_or(event.due), event.id));
            }
        });
        let Some(is_whole) = visited.await? else {
            return Ok(ControlFlow::Continue(()));
        };
        self.scan = None;
        if self.jobs.is_empty() {
            return if is_whole {
                Ok(ControlFlow::Break(None))
            } else {
                Err(Error::new(
                    ErrorKind::Unavailable,
                    format!("no ready job is among the first {FIRST_SCAN_MAX} of the queue"),
                ))
            };
        }
        self.jobs.sort_unstable();
        let job = self.pool.first_ready(self.queue, &self.jobs).await?;
        Ok(match job {
            Some(job) => ControlFlow::Break(Some(job)),
            None => ControlFlow::Continue(()),
        })
    }
}
