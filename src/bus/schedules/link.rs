//! A schedule as it is stored: the one event of it that waits, a link of a chain.
//!
//! The link says how far the schedule has come. It is due when the schedule is to be looked at
//! again: a bus leases it, pushes the occurrences that follow, then the next link, and acks it. Each of
//! these pushes has an id that the link determines, so that a bus that does it over, after a crash at
//! any point, changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::bus::own_queues::{OWN_BUCKETS, beside};
use crate::bus::schedules::declaration::Declarations;
use crate::bus::schedules::occurrence_options::OccurrenceOptions;
use crate::error::{Error, ErrorKind, Result, shown};
use crate::event::{BucketId, BucketKey, EventId, QueueName, SCHEDULES};
use crate::schedule::ScheduleOptions;
use crate::schedule::plan::Progress;
use crate::time::Timestamp;

/// The version of its stored form.
pub(super) const VERSION: u32 = 1;
/// The longest name of a schedule.
pub(super) const NAME_MAX: usize = 200;
/// How long an instant that is past counts as decided: clocks of programs differ by less.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// What is due within this time counts as under way.
pub(super) const NEARLY_DUE: Duration = Duration::from_secs(1);

/// A link of the chain of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) version: u32,
    pub(super) name: String,
    /// Tells the schedule from an earlier one of its name that was removed.
    pub(super) life: u64,
    /// The number of the link.
    pub(super) number: u64,
    pub(super) options: ScheduleOptions,
    pub(super) progress: Progress,
    /// Instants since then that are decided as well: somebody has cancelled what was pushed for them or
    /// run it early, or it was due before a change was carried out.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) decided: BTreeSet<Timestamp>,
    /// Increases with each change of the schedule.
    pub(super) change: u64,
    /// The change that the link was made under: another one is still to be carried out.
    pub(super) applied: u64,
    /// Since when its options hold: earlier instants are none of theirs.
    pub(super) since: Timestamp,
    /// The options until then, of which instants may be left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<ScheduleOptions>,
    /// The options of their queue that its occurrences are pushed with, as the program of the handler
    /// has declared or set them; `None`: each process takes its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) queue_options: Option<OccurrenceOptions>,
    /// Those of the former options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) former_queue_options: Option<OccurrenceOptions>,
    pub(super) pushed: PushedOccurrences,
    /// The places of earlier options in which occurrences wait for their jitter, those left last last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left: Vec<LeftPlace>,
    /// The event of the last occurrence that was to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<LastEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<Timestamp>,
    /// It takes back what was pushed and is to come, for a change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) withdraws: bool,
    /// It is to end with this link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) removed: bool,
    /// It was set again before its removal was carried out: nothing that it has pushed stays, and nothing
    /// of it counts for what it is now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) begins_anew: bool,
    #[serde(default)]
    pub(super) declarations: Declarations,
}

/// What a link and those before it have pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushedOccurrences {
    pub(super) queue: QueueName,
    pub(super) bucket: u16,
    /// The change under which.
    pub(super) change: u64,
    /// The instants that were to come, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ahead: Vec<Timestamp>,
    /// The instant before these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Timestamp>,
    /// Its event, if it was pushed under an earlier change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before_event: Option<LastEvent>,
}

/// A place that a schedule does not push to any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeftPlace {
    pub(super) queue: QueueName,
    pub(super) bucket: u16,
    /// When the last occurrence that waits there is due.
    pub(super) until: Timestamp,
}

impl LeftPlace {
    pub(super) fn place(&self) -> BucketKey {
        BucketKey::new(self.queue.clone(), BucketId(self.bucket))
    }
}

/// Where the event of an occurrence lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastEvent {
    pub(super) queue: QueueName,
    pub(super) bucket: u16,
    pub(super) id: EventId,
}

impl PushedOccurrences {
    /// Nothing that is to come, in a bucket of a queue. `before`: the last instant that was pushed, and
    /// its event.
    pub(super) fn none(
        (queue, bucket): (QueueName, u16),
        change: u64,
        (before, before_event): (Option<Timestamp>, Option<LastEvent>),
    ) -> Self {
        Self {
            queue,
            bucket,
            change,
            ahead: Vec::new(),
            before,
            before_event,
        }
    }

    /// The bucket that it lies in.
    pub(super) fn place(&self) -> BucketKey {
        BucketKey::new(self.queue.clone(), BucketId(self.bucket))
    }
}

impl Link {
    /// Leaves the payload of its occurrences out if it is larger than this, and that of former options;
    /// returns whether it did.
    pub(super) fn leave_payload_out(&mut self, payload_max: usize) -> bool {
        if let Some(former) = &mut self.former {
            former.leave_payload_out(payload_max);
        }
        self.options.leave_payload_out(payload_max)
    }

    /// The first link of a schedule, which begins at `now`; `buckets`: those of its queue.
    pub(super) fn first(
        (name, options): (&str, ScheduleOptions),
        declarations: Declarations,
        buckets: u16,
        now: Timestamp,
    ) -> Self {
        Self {
            version: VERSION,
            name: name.to_owned(),
            life: fastrand::u64(..),
            number: 0,
            progress: Progress {
                through: now,
                last: None,
                missed: 0,
                unsaid: 0,
            },
            decided: BTreeSet::new(),
            change: 1,
            applied: 1,
            since: now,
            former: None,
            queue_options: None,
            former_queue_options: None,
            pushed: PushedOccurrences::none(
                (options.queue().clone(), bucket_of(name, buckets)),
                1,
                (None, None),
            ),
            left: Vec::new(),
            last: None,
            paused: None,
            withdraws: false,
            removed: false,
            begins_anew: false,
            options,
            declarations,
        }
    }

    /// Gives it other options from `now` on, or since an earlier change of which nothing was carried
    /// out; one that was removed begins anew, and so does one whose
    /// recurrence is not known here, of which nothing is left then. `known`: the options of their queue,
    /// where its handler is known.
    pub(super) fn set_options(
        &mut self,
        options: ScheduleOptions,
        known: Option<OccurrenceOptions>,
        now: Timestamp,
    ) {
        let known = known.or_else(|| self.noted_for(options.queue()));
        let known_before = std::mem::replace(&mut self.queue_options, known);
        let before = std::mem::replace(&mut self.options, options);
        // Of changes that nobody has carried out, the last one holds since the first.
        if self.former.is_none() {
            self.former_queue_options = known_before;
            self.since = now;
        }
        let is_unknown = self
            .former
            .get_or_insert(before)
            .recurrence()
            .check()
            .is_err();
        let was_removed = std::mem::take(&mut self.removed);
        if was_removed {
            self.paused = None; // it is another schedule
            self.begins_anew = true;
            // What is under way does not come twice; what was cancelled comes.
            self.decided
                .retain(|instant| instant.since(now) <= NEARLY_DUE);
        }
        if was_removed || is_unknown {
            self.progress.through = self.progress.through.max(now);
            (self.progress.missed, self.progress.unsaid) = (0, 0);
            self.since = now;
        }
        self.change += 1;
    }

    /// Whether it pushes nothing more, until it is resumed or set anew.
    pub(super) fn stops(&self) -> bool {
        self.removed || self.paused.is_some()
    }

    /// Whether all that waits is taken back with its change, also for its jitter.
    pub(super) fn takes_all_back(&self) -> bool {
        self.stops() || self.begins_anew
    }

    /// Goes on once what is to come is taken back: its options until the change are decided `through`
    /// there, and its own begin at `begin`. What has come of those before does not come again.
    pub(super) fn go_on_from(&mut self, through: Timestamp, begin: Timestamp) {
        self.progress.through = through;
        let is_past = self.former.take_if(|_| through >= begin).is_some();
        if is_past || self.begins_anew {
            self.progress.through = begin;
            self.decided.extend(&self.pushed.ahead);
        }
        if std::mem::take(&mut self.begins_anew) {
            // Nothing is left of what it was before it was removed and set again.
            self.former = None;
            self.progress.last = None;
            (self.progress.missed, self.progress.unsaid) = (0, 0);
            let place = (self.pushed.queue.clone(), self.pushed.bucket);
            self.pushed = PushedOccurrences::none(place, self.change, (None, None));
            self.last = None;
        }
    }

    /// Forgets instants that no change will go back to.
    pub(super) fn forget_decided(&mut self, now: Timestamp) {
        let through = self.progress.through;
        self.decided
            .retain(|instant| *instant > through || *instant + KEPT_FOR > now);
    }

    /// The schedule with the options before a change, while instants of these are left.
    pub(super) fn acting(&self) -> Option<Self> {
        let options = self.former.clone()?;
        Some(Self {
            options,
            queue_options: self.former_queue_options.clone(),
            ..self.clone()
        })
    }

    /// Fails if instants are left whose recurrence this process does not know.
    pub(super) fn check_known(&self) -> Result<()> {
        let former = self.former.as_ref();
        let former = former.filter(|_| self.progress.through < self.since);
        let recurrence = former.unwrap_or(&self.options).recurrence();
        recurrence.check().map_err(|why| {
            let text = format!("the schedule cannot be carried out in this process: {why}");
            Error::new(ErrorKind::Corrupt, text)
        })
    }

    /// The noted options of a queue, if it is the one that its occurrences go to.
    fn noted_for(&self, queue: &QueueName) -> Option<OccurrenceOptions> {
        let noted = self.queue_options.clone();
        noted.filter(|_| self.options.queue() == queue)
    }

    /// Notes the options of the queue as this process knows them, if it does; returns whether they are
    /// others. `is_its_payload`: its program gives the payload as well, which has a version otherwise.
    pub(super) fn note_queue_options(
        &mut self,
        known: Option<OccurrenceOptions>,
        is_its_payload: bool,
    ) -> bool {
        let Some(mut known) = known else {
            return false;
        };
        let has_another = !is_its_payload && self.options.payload_text().is_some();
        if let Some(noted) = self.queue_options.as_ref().filter(|_| has_another) {
            known.version = noted.version;
        }
        let before = self.queue_options.replace(known);
        before != self.queue_options
    }

    /// Whether no program with the handler declares its queue's options, so that those that carry it out
    /// note theirs.
    pub(super) fn lacks_queue_options(&self) -> bool {
        let declared = self.declarations.current();
        self.queue_options.is_none() || declared.is_none_or(|it| it.queue.is_none())
    }

    /// The last instant before `now` that an occurrence was pushed for.
    pub(super) fn last_before(&self, now: Timestamp) -> Option<Timestamp> {
        let known = self.pushed.ahead.iter().chain(&self.pushed.before);
        let known = known.chain(&self.progress.last).copied();
        known.filter(|instant| *instant < now).max()
    }

    /// The bucket of all links of a schedule, in the queue of its namespace.
    pub(super) fn home(name: &str) -> Result<BucketKey> {
        let queue = QueueName::new(&beside(name, SCHEDULES))?;
        Ok(BucketKey::new(queue, BucketId::of_text(name, OWN_BUCKETS)))
    }

    /// The id of the link: no other has it, and whoever makes it gives it the same one.
    pub(super) fn id(&self, home: &BucketKey) -> EventId {
        let words = format!("{}/{:x}/{}", self.name, self.life, self.number);
        EventId::for_name_in(&home.queue, home.bucket, &words)
    }

    /// The id of an occurrence that was pushed as `pushed` says.
    pub(super) fn id_of(&self, pushed: &PushedOccurrences, instant: Timestamp) -> EventId {
        let (change, instant) = (pushed.change, instant.as_millis());
        let words = format!("{}/{:x}/{change}/{instant}", self.name, self.life);
        EventId::for_name_in(&pushed.queue, BucketId(pushed.bucket), &words)
    }

    /// Notes the last occurrence that is to run, if there was one.
    pub(super) fn note_last(&mut self) {
        self.last = self.progress.last.map(|instant| LastEvent {
            queue: self.pushed.queue.clone(),
            bucket: self.pushed.bucket,
            id: self.id_of(&self.pushed, instant),
        });
    }

    /// A part of `span` that is its own, so that schedules of one instant are not looked at together.
    pub(super) fn part_of(&self, span: Duration) -> Duration {
        let part = xxh3_64(self.name.as_bytes()) % 1_000;
        span.mul_f64(part as f64 / 1_000.0)
    }
}

/// The bucket that the occurrences of a schedule go to.
pub(super) fn bucket_of(name: &str, buckets: u16) -> u16 {
    BucketId::of_text(name, buckets).0
}

/// Rejects what cannot be the name of a schedule.
pub(in crate::bus) fn check_name(name: &str) -> Result<()> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{}` cannot be the name of a schedule; it is 1 to {NAME_MAX} letters, digits, `.`, `_` or `-`",
        shown(name)
    )))
}
