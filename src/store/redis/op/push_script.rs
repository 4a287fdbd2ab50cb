//! The script of a push: its call, in which events of one run share a part, and its reply.

use std::sync::LazyLock;

use redis::Cmd;

use crate::codec::body;
use crate::core::op::{NewEvent, PushOutcome, PushReport, Unique};
use crate::core::push::Attempts;
use crate::error::Result;
use crate::event::{EventId, LatePolicy};
use crate::store::redis::link::script::Script;
use crate::store::redis::op::page::when;
use crate::store::redis::script::call::{Call, CallContext, delay_max_ms};
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::source::{FILLS, PART_BODY_MAX, assemble, lua};
use crate::store::redis::script::table::{Row, script};
use crate::time::Timestamp;

script! {
    /// Adds events. An id that exists changes nothing.
    PUSH = "push", FILLS, Ending,
        ["bucket", "state", "page", "sweep", "bytes", "body", "ending", "expiring"];
    PushArguments<'a> {
        /// The calling process, which is not notified.
        origin: &'a str,
        /// The furthest due time from now, ms.
        delay_max: u128,
        /// The earliest and the latest creation time of the ids, ms.
        made: String,
        /// Whether an id occurs more than once.
        has_twins: bool,
    }
    each PushedEvent<'a> {
        /// The event, or the first of several plain ones that are to be a part of a page.
        id: EventId,
        /// "n" now, "a" and us from now, "t" and ms since the epoch; in capitals to replace the event
        /// whose unique key it takes.
        when: String,
        /// Its body, or that of the part.
        body: &'a [u8],
        /// How many events it is.
        count: usize,
    }
    reply PushReply {
        now: u64,
        /// Then {place, verdict, due, other id} for each event that was not simply accepted. Verdicts:
        /// 1 duplicate, 2 replaced, 3 conflict, 4 too old, 5 too new, 6 accepted after the other one,
        /// which had its unique key, has ended as expired or too late. And 0 if from this event on none
        /// is decided: they are to be pushed again; 7 if before it the lease of the event that has its
        /// unique key is to be ended, which is past its deadline.
        earlier: bool,
    }
}

/// Adds events without keys, which is the most frequent call: without what only keys need, since
/// each function of a script is made anew by each call.
pub(super) static PUSH_PLAIN: LazyLock<Script> = LazyLock::new(|| {
    let libraries = [
        lua!("bucket"),
        lua!("state"),
        lua!("page"),
        lua!("bytes"),
        lua!("plain"),
    ];
    assemble(
        "push",
        FILLS,
        &libraries,
        lua!("push"),
        &PushArguments::NAMES,
    )
});

/// A part with this many bytes takes no more events.
const BYTES_ENOUGH: usize = 16 * 1024;

/// Adds events, which were validated.
pub(super) fn call<'e>(
    context: &CallContext<'_>,
    events: impl Iterator<Item = &'e NewEvent> + Clone,
) -> Call {
    let has_extras = |event: &NewEvent| {
        let envelope = &event.envelope;
        let expires = envelope.expires.is_some() || envelope.late != LatePolicy::Deliver;
        expires || envelope.key.is_some() || envelope.unique.is_some()
    };
    let script = if events.clone().any(has_extras) {
        &PUSH
    } else {
        &PUSH_PLAIN
    };
    let mut ids: Vec<_> = events.clone().map(|event| event.envelope.id).collect();
    ids.sort_unstable();
    let made = |id: Option<&EventId>| id.map_or(0, |id| id.created().as_millis());
    let (first, last) = (made(ids.first()), made(ids.last()));
    let has_twins = ids.windows(2).any(|pair| pair[0] == pair[1]);
    let arguments = PushArguments {
        origin: &context.origin,
        delay_max: delay_max_ms(),
        made: format!("{first} {last}"),
        has_twins,
    };
    let mut call = context.call_as(script, arguments);
    add_events(&mut call.command, events, has_twins);
    call
}

/// An event that is pushed, and its body.
struct Encoded<'e> {
    event: &'e NewEvent,
    body: Vec<u8>,
}

impl<'e> Encoded<'e> {
    fn new(event: &'e NewEvent) -> Self {
        let body = body::encode(&event.envelope);
        Self { event, body }
    }

    fn id(&self) -> EventId {
        self.event.envelope.id
    }

    /// Returns whether it is short, needs nothing but to be handled, and has a place in a page.
    fn is_plain(&self) -> bool {
        let has_place = self.id().place_in_run().is_some() && self.event.on_taken == Unique::Keep;
        has_place && self.body.len() <= PART_BODY_MAX && body::is_plain(&self.body)
    }

    /// Returns whether `next` may follow it in a part.
    fn may_precede(&self, next: &Self) -> bool {
        let are_plain = self.is_plain() && next.is_plain();
        are_plain && self.id().precedes(next.id()) && self.event.when == next.event.when
    }
}

/// Adds events to a push, in their order: as parts where several that follow each other can share
/// one, unless an id occurs more than once.
fn add_events<'e>(command: &mut Cmd, events: impl Iterator<Item = &'e NewEvent>, has_twins: bool) {
    let events: Vec<_> = events.map(Encoded::new).collect();
    for mut run in events.chunk_by(|a, b| !has_twins && a.may_precede(b)) {
        while let [first, ..] = run {
            let (bodies, count) = part_of(run);
            let is_part = count > 1 && !has_twins;
            let when = match first.event.on_taken {
                Unique::Keep => when(first.event.when),
                Unique::Replace => when(first.event.when).to_ascii_uppercase(),
            };
            let (body, count) = if is_part {
                (&bodies, count)
            } else {
                (&first.body, 1)
            };
            let id = first.id();
            PushedEvent {
                id,
                when,
                body,
                count,
            }
            .add_to(command);
            run = &run[count..];
        }
    }
}

/// Returns the body of a part with the first events of a run, and how many these are.
fn part_of(run: &[Encoded<'_>]) -> (Vec<u8>, usize) {
    let (mut bodies, mut count) = (Vec::new(), 0);
    for event in run.iter().take_while(|event| event.is_plain()) {
        if bodies.len() >= BYTES_ENOUGH {
            break;
        }
        let len = u16::try_from(event.body.len()).unwrap_or(u16::MAX); // it is at most `PART_BODY_MAX`
        bodies.extend_from_slice(&len.to_be_bytes());
        bodies.extend_from_slice(&event.body);
        count += 1;
    }
    (bodies, count)
}

/// The decoded reply of a push.
#[derive(Debug)]
pub struct Pushed {
    pub(super) now_us: u64,
    pub(super) is_earlier: bool,
    /// Whether other events have ended, with records.
    pub(super) has_recorded: bool,
    /// Of the first events: the call ends early where it reads much. None, where leases that are past
    /// their deadline are to be ended before anything is pushed.
    pub(super) reports: Vec<PushReport>,
}

/// Decodes the result of each event, considering earlier attempts.
pub fn read<'e>(
    mut parts: ReplyReader,
    events: impl Iterator<Item = &'e NewEvent>,
    attempts: &Attempts,
) -> Result<Pushed> {
    let PushReply {
        now: now_us,
        earlier: is_earlier,
    } = PushReply::read(&mut parts)?;
    let mut ids = Vec::new();
    let mut has_recorded = false;
    let mut reports = Vec::new();
    for event in events {
        ids.push(event.envelope.id);
        reports.push(PushReport {
            due: event.when.due(now_us),
            verdict: PushOutcome::Accepted,
        });
    }
    while !parts.is_empty() {
        let mut other = parts.parts()?;
        let (place, verdict) = (other.count()?, other.number()?);
        let (due, id) = (Timestamp::from_millis(other.number()?), other.id()?);
        let at = place.checked_sub(1).filter(|at| *at < reports.len());
        let at = at.ok_or_else(|| unreadable("push"))?;
        if verdict == 7 || (verdict == 0 && at > 0) {
            reports.truncate(at);
            break;
        }
        has_recorded |= matches!(verdict, 2 | 6);
        let verdict = match verdict {
            1 => PushOutcome::Duplicate(id),
            2 => PushOutcome::Replaced(id),
            3 => PushOutcome::Conflict,
            4 => PushOutcome::TooOld,
            5 => PushOutcome::TooNew,
            6 => PushOutcome::Accepted,
            _ => return Err(unreadable("push")),
        };
        let verdict = attempts.verdict(ids[at], verdict);
        reports[at] = PushReport { due, verdict };
    }
    Ok(Pushed {
        now_us,
        is_earlier,
        has_recorded,
        reports,
    })
}
