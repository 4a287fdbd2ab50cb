//! Schedules: what is set, shown and changed, and the tasks of a bus that carry them out.
//!
//! A schedule is a chain of events in a queue of the bus's own, one of which waits: its
//! [`link`]. The [`worker`] of a namespace, which [`watch`] starts, leases a link when its schedule is to
//! be looked at, [`advance`] pushes what `crate::schedule::plan` decides and then the next link.
//! [`declare`] sets the schedules that a program declares, [`declaration`] says whose declaration is in
//! force, and [`links`] reads and changes links.

mod advance;
mod change;
mod declaration;
pub(in crate::bus) mod declare;
mod event;
mod history;
mod link;
mod links;
mod occurrence_options;
mod occurrence_queue;
mod payloads;
mod shown;
mod waiting;
mod watch;
mod worker;
mod written;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bus::completed::Completed;
use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::own_queues::beside;
use crate::bus::program_audit::{ActionLine, is_done};
use crate::bus::schedules::change::Confined;
use crate::bus::schedules::declaration::Declarations;
use crate::bus::schedules::declare::{Declared, create};
use crate::bus::schedules::event::{check_payload, event_of};
use crate::bus::schedules::link::Link;
pub(in crate::bus) use crate::bus::schedules::link::check_name;
use crate::bus::schedules::links::Links;
pub(in crate::bus) use crate::bus::schedules::links::pushes_into;
use crate::bus::schedules::occurrence_options::OccurrenceOptions;
use crate::bus::schedules::occurrence_queue::queue_for;
pub(in crate::bus) use crate::bus::schedules::payloads::next_events;
pub use crate::bus::schedules::shown::Schedule;
use crate::bus::state::program_actions::{AuditedBy, ProgramAction};
use crate::core::op::BATCH_MAX;
use crate::error::{Error, ErrorKind, Result, shown};
use crate::event::{BucketKey, EventId, Occurrence, QueueName, SCHEDULES, has_schedules};
use crate::record::Page;
use crate::schedule::ScheduleOptions;
use crate::time::When;

/// Starts what declares the schedules of a program, and what carries schedules out, if it does.
pub(in crate::bus) fn start(inner: &Arc<Inner>, declared: Declared, runs: bool) {
    declare::start(inner, declared);
    if runs {
        watch::start(inner);
    }
}

/// The schedules of a store: shown, set and changed while programs run; from [`Bus::schedules`].
///
/// A schedule that a program [declares](crate::BusBuilder::schedule) can be changed here as well.
/// That holds until the program declares it otherwise than before.
///
/// A change survives whoever makes it, and is carried out by any bus that consumes. It takes back the
/// occurrences that were pushed and are to come, and leaves alone those that are due. If its future is
/// dropped half-way, it is made all the same.
///
/// # Examples
///
/// ```
/// # use duly::prelude::*;
/// use duly::schedule::ScheduleOptions;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// let nightly = ScheduleOptions::new("report", "0 2 * * * Europe/Berlin")?;
/// bus.schedules().set("nightly", nightly).await?;
///
/// let nightly = bus.schedules().get("nightly").await?.unwrap();
/// assert!(nightly.next().is_some());
/// # bus.shutdown(std::time::Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone)]
pub struct Schedules {
    inner: Arc<Inner>,
    audited_by: AuditedBy,
    confined: Confined,
}

impl fmt::Debug for Schedules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedules").finish_non_exhaustive()
    }
}

impl Bus {
    /// The schedules of its store.
    #[must_use]
    pub fn schedules(&self) -> Schedules {
        Schedules {
            inner: Arc::clone(&self.inner),
            audited_by: self.audited_by,
            confined: Confined::default(),
        }
    }
}

impl Schedules {
    /// Returns a schedule; `None` if there is none of the name.
    ///
    /// # Errors
    ///
    /// The store's error; [`ErrorKind::Invalid`] for what cannot be a name;
    /// [`ErrorKind::Corrupt`] for one that cannot be read here: it is encrypted, and this process lacks
    /// the key, or a newer version of duly has written it.
    pub async fn get(&self, name: &str) -> Result<Option<Schedule>> {
        check_name(name)?;
        let found = Links::of(&self.inner, name)?.find(name).await?;
        let found = found.filter(|found| !found.link.removed);
        Ok(found.map(|found| Schedule::of(&self.inner, found)))
    }

    /// Returns a page of all schedules, at most 1,000, in an order of the store that stays. `after`:
    /// the name with which the page before ended. Those that a bus works on are among them.
    ///
    /// # Errors
    ///
    /// The store's error; [`ErrorKind::Invalid`] for what cannot be a name. What
    /// [cannot be read](Self::get) is left out.
    pub async fn page(&self, after: Option<&str>, limit: usize) -> Result<Page<Schedule, String>> {
        self.page_with(usize::MAX, None, (after, limit)).await
    }

    /// Returns a page of the schedules of a namespace, those whose names begin with it and a dot;
    /// otherwise as [`page`](Self::page). Those of other namespaces cost nothing.
    ///
    /// # Errors
    ///
    /// As [`page`](Self::page); [`ErrorKind::Invalid`] for what cannot be a namespace.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// use duly::schedule::ScheduleOptions;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let schedules = bus.schedules();
    /// let nightly = ScheduleOptions::new("shop.report", "0 2 * * * Europe/Berlin")?;
    /// schedules.set("shop.nightly", nightly.clone()).await?;
    /// schedules.set("nightly", nightly).await?;
    ///
    /// let page = schedules.page_of("shop", None, 100).await?;
    /// assert_eq!(page.items.len(), 1);
    /// assert_eq!(page.items[0].name, "shop.nightly");
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn page_of(
        &self,
        namespace: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Schedule, String>> {
        self.page_with(usize::MAX, Some(namespace), (after, limit))
            .await
    }

    /// A page of all schedules or of those of a namespace, without payloads that are larger than
    /// `payload_max`: bucket by bucket, those of each by name.
    pub(crate) async fn page_with(
        &self,
        payload_max: usize,
        namespace: Option<&str>,
        (after, limit): (Option<&str>, usize),
    ) -> Result<Page<Schedule, String>> {
        let mut buckets = self.buckets(namespace).await?;
        let after = match after {
            Some(name) => {
                check_name(name)?;
                Some((Link::home(name)?, name))
            }
            None => None,
        };
        buckets.retain(|bucket| after.as_ref().is_none_or(|(home, _)| bucket >= home));
        buckets.sort_unstable();
        let limit = limit.clamp(1, BATCH_MAX);
        let mut items: Vec<Schedule> = Vec::new();
        for bucket in buckets {
            let is_after = |name: &str| match &after {
                Some((home, after)) => bucket != *home || name > *after,
                None => true,
            };
            for found in Links::read_all(&self.inner, &bucket, payload_max).await? {
                if found.link.removed || !is_after(&found.link.name) {
                    continue;
                }
                if items.len() == limit {
                    let last = items.last().map(|last| last.name.clone());
                    return Ok(Page::new(items, last));
                }
                items.push(Schedule::of(&self.inner, found));
            }
        }
        Ok(Page::new(items, None))
    }

    /// Returns the buckets of all schedules, or of those of a namespace.
    async fn buckets(&self, namespace: Option<&str>) -> Result<Vec<BucketKey>> {
        let store = self.inner.open()?;
        let Some(namespace) = namespace else {
            let mut buckets = store.buckets().await?;
            buckets.retain(|bucket| has_schedules(&bucket.queue));
            return Ok(buckets);
        };
        if namespace.is_empty() || namespace.contains('.') {
            return Err(Error::invalid(format!(
                "`{}` cannot be a namespace; it is what the names of its schedules have before \
                 their first dot",
                shown(namespace)
            )));
        }
        let queue = QueueName::new(&beside(&format!("{namespace}."), SCHEDULES))?;
        Ok(store.buckets_of(&queue).await?.buckets)
    }

    /// Makes a schedule, or gives the one of this name other options. Its first occurrence is the
    /// first instant from now on, or from an earlier change on that still waits to be carried out; a
    /// paused one stays paused.
    ///
    /// # Errors
    ///
    /// The store's error; on [`ErrorKind::Unknown`] calling again is safe. [`ErrorKind::Invalid`]
    /// for a name of another form than 1 to 200 letters, digits, `.`, `_` or `-`, for calendars with
    /// more than 2,000 dates together, for a payload larger than one that is pushed may be, and for
    /// options that were read where their time zone is not known.
    /// [`ErrorKind::Full`] for a new one if its namespace has
    /// [as many as it may](crate::BusBuilder::schedules_max) already; [`ErrorKind::Conflict`] if this
    /// handle [must not](Self::only) change the one of the name.
    pub async fn set(&self, name: &str, options: ScheduleOptions) -> Result<()> {
        check_name(name)?;
        options.check()?;
        check_payload(&self.inner, name, &options)?;
        let (schedules, name) = (self.clone(), name.to_owned());
        let set = async move { schedules.set_checked(&name, &options).await };
        Completed::new(&self.inner.runtime, set).await
    }

    async fn set_checked(&self, name: &str, options: &ScheduleOptions) -> Result<()> {
        let links = Links::of(&self.inner, name)?;
        let known = OccurrenceOptions::of(&self.inner, options.queue());
        loop {
            let none = Declarations::default();
            if links.find(name).await?.is_none() {
                let made = create(&self.inner, &links, (name, options), none).await;
                self.note("schedule set", name, is_done(&made, |is_new| *is_new));
                if made? {
                    return Ok(());
                }
            }
            let now = self.inner.now();
            let has_changed = AtomicBool::new(false);
            let edit = |link: &mut Link| {
                self.confined.check_set(link)?;
                let is_other = link.options != *options || link.removed;
                has_changed.store(is_other, Ordering::Relaxed);
                if is_other {
                    link.set_options(options.clone(), known.clone(), now);
                }
                Ok(link.note_queue_options(known.clone(), true) || is_other)
            };
            let changed = links.change(name, edit).await;
            let is_done = has_changed.into_inner() && is_done(&changed, Option::is_some);
            self.note("schedule set", name, is_done);
            if changed?.is_some() {
                return Ok(());
            }
            // It was removed meanwhile.
        }
    }

    /// Pauses a schedule: it pushes nothing until it is resumed, and occurrences that wait are taken
    /// back, also for their jitter. Those that are due already are not concerned. A paused one stays
    /// as it is.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set); [`ErrorKind::NotFound`] if there is no such schedule.
    pub async fn pause(&self, name: &str) -> Result<()> {
        let now = self.inner.now();
        self.change("schedule paused", name, move |link| {
            let is_running = link.paused.is_none();
            link.paused.get_or_insert(now);
            is_running
        })
        .await
    }

    /// Resumes a paused schedule. What it missed is made up for as
    /// [its options](crate::schedule::MissedPolicy) say.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, name: &str) -> Result<()> {
        let resume = |link: &mut Link| link.paused.take().is_some();
        self.change("schedule resumed", name, resume).await
    }

    /// Removes a schedule, and cancels its occurrences that wait. Returns whether there was one.
    ///
    /// One that a program declares comes back when a program that declares it starts, and within a
    /// minute while one runs.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub async fn remove(&self, name: &str) -> Result<bool> {
        let remove = |link: &mut Link| !std::mem::replace(&mut link.removed, true);
        match self.change("schedule removed", name, remove).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Pushes an occurrence of a schedule now, beside those of its calendar; returns the id of its
    /// event. Also of a paused one.
    ///
    /// # Errors
    ///
    /// As [`Queue::push`](crate::Queue::push); [`ErrorKind::NotFound`] if there is no such schedule.
    pub async fn run_now(&self, name: &str) -> Result<EventId> {
        check_name(name)?;
        let found = Links::of(&self.inner, name)?.find(name).await?;
        let found = found.filter(|found| self.confined.allows(&found.link));
        let link = found.ok_or_else(|| unknown(name))?.link;
        let now = self.inner.now();
        let queue = queue_for(&self.inner, &link, link.options.queue());
        let occurrence = Occurrence {
            schedule: link.name.clone(),
            instant: now,
            previous: link.last_before(now),
            missed: 0,
            skipped: None,
        };
        let (value, options) = event_of(&link, &occurrence, When::Now);
        let done = ProgramAction::new("schedule run", target_of(name));
        let line = ActionLine::new(&self.inner, self.audited_by, done);
        let push = async move { queue.push_new(value, options).await };
        line.step(push, |_| true).await
    }
}

fn target_of(name: &str) -> String {
    format!("schedules/{name}")
}

fn unknown(name: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("there is no schedule {name}; `duly schedule list` has the names of all"),
    )
}
