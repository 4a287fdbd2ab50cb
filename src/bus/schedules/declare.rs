//! Schedules that a program declares: set at its start, and again from time to time.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::bus::inner::Inner;
use crate::bus::schedules::declaration::{Declaration, Declarations, DeclareResult};
use crate::bus::schedules::event::check_payload;
use crate::bus::schedules::link::Link;
use crate::bus::schedules::links::Links;
use crate::bus::schedules::occurrence_options::OccurrenceOptions;
use crate::core::op::Unique;
use crate::error::{ErrorKind, Result};
use crate::outage::Outage;
use crate::panics;
use crate::schedule::ScheduleOptions;

/// How often a program declares its schedules anew: what failed, what an older build held up, and
/// that it still does.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// The schedules that a program declares.
pub(in crate::bus) struct Declared {
    /// By name.
    pub(in crate::bus) schedules: BTreeMap<String, ScheduleOptions>,
    /// The number of the deploy; the higher one is in force.
    pub(in crate::bus) deploy: u64,
}

/// Starts the task that declares them; it ends with the bus.
pub(super) fn start(inner: &Arc<Inner>, declared: Declared) {
    if !declared.schedules.is_empty() {
        let (bus, declared) = (Arc::downgrade(inner), Arc::new(declared));
        let run = move || run(Weak::clone(&bus), Arc::clone(&declared));
        inner
            .runtime
            .spawn(panics::lasting("declaring schedules panicked", run));
    }
}

async fn run(inner: Weak<Inner>, declared: Arc<Declared>) {
    let outage = Outage::of("declarations of schedules");
    let mut verdicts = BTreeMap::new();
    let mut pause = EVERY;
    loop {
        for (name, options) in &declared.schedules {
            let Some(inner) = inner.upgrade().filter(|inner| inner.open().is_ok()) else {
                return;
            };
            pause = inner.real_pause(EVERY);
            match declare(&inner, (name, options), declared.deploy).await {
                Ok(verdict) => {
                    outage.succeeded(name);
                    if verdicts.insert(name, verdict) != Some(verdict) {
                        tell(name, verdict);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => outage.failed(name.clone(), &error),
            }
        }
        tokio::time::sleep(pause).await;
    }
}

fn tell(schedule: &str, verdict: DeclareResult) {
    match verdict {
        DeclareResult::Older => panics::reported(|| {
            tracing::info!(
                %schedule,
                "a newer build declares this schedule otherwise, and that holds"
            );
        }),
        DeclareResult::Crowded => panics::reported(|| {
            tracing::warn!(
                %schedule,
                "too many programs declare this schedule, each otherwise: this one waits for \
                 one to end"
            );
        }),
        _ => {}
    }
}

/// Declares a schedule: makes it, changes it, or leaves it to a newer build.
pub(super) async fn declare(
    inner: &Arc<Inner>,
    (name, options): (&str, &ScheduleOptions),
    deploy: u64,
) -> Result<DeclareResult> {
    check_payload(inner, name, options)?;
    let links = Links::of(inner, name)?;
    let (queue, every) = (options.queue(), inner.real_pause(EVERY));
    let known = OccurrenceOptions::of(inner, queue);
    let of_queue = known.as_ref().map(OccurrenceOptions::fingerprint);
    loop {
        let now = inner.now();
        let declared = Declaration::new((options.fingerprint(), of_queue), deploy, now);
        let mut declarations = Declarations::default();
        if links.find(name).await?.is_none() {
            let verdict = declarations.declare(declared, every);
            if create(inner, &links, (name, options), declarations).await? {
                panics::reported(|| {
                    tracing::info!(schedule = %name, when = %options.recurrence(), "schedule made");
                });
                return Ok(verdict);
            }
            // Another program has made it meanwhile.
        }
        let verdict = parking_lot::Mutex::new(DeclareResult::Stands);
        let edit = |link: &mut Link| {
            let before = link.declarations.clone();
            let given = link.declarations.declare(declared, every);
            *verdict.lock() = given;
            if given == DeclareResult::TakesOver && link.options != *options {
                link.set_options(options.clone(), known.clone(), now);
            }
            // Somebody may have set another queue.
            let is_its_queue = given.holds() && link.options.queue() == queue;
            let known = known.clone().filter(|_| is_its_queue);
            let is_its_payload = link.options.payload_text() == options.payload_text();
            let is_other = link.note_queue_options(known, is_its_payload);
            let is_noted = given == DeclareResult::Stands || link.declarations == before;
            Ok(is_other || !is_noted)
        };
        if links.change(name, edit).await?.is_some() {
            let verdict = verdict.into_inner();
            if verdict == DeclareResult::TakesOver {
                panics::reported(|| {
                    tracing::info!(
                        schedule = %name, when = %options.recurrence(),
                        "schedule changed"
                    );
                });
            }
            return Ok(verdict);
        }
        // It was removed meanwhile.
    }
}

/// Makes a schedule; returns whether there was none of its name. It fails if there are as many as
/// there may be beside it.
pub(super) async fn create(
    inner: &Arc<Inner>,
    links: &Links,
    (name, options): (&str, &ScheduleOptions),
    declarations: Declarations,
) -> Result<bool> {
    links.check_room().await?;
    let (queue, now) = (options.queue(), inner.now());
    let buckets = inner.buckets(queue, &inner.options(queue));
    let mut link = Link::first((name, options.clone()), declarations, buckets, now);
    link.queue_options = OccurrenceOptions::of(inner, queue);
    links.push(&link, Some(now), Unique::Keep).await
}
