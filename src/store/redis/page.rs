//! Parts of pages: plain events of one push with one due time, which share a body and an entry while
//! they wait; see `lua/page.lua`.

use redis::Cmd;

use crate::codec::body;
use crate::core::op::{NewEvent, Unique};
use crate::event::EventId;
use crate::store::redis::encode::us;
use crate::time::When;

/// A part with this many bytes takes no more events.
const BYTES_ENOUGH: usize = 16 * 1024;
/// The longest body that is worth a place in a part; `EVENT_MAX` of `lua/push.lua`.
const BODY_MAX: usize = 1024;
/// The length of the name of a part: the id of its first event, and how many it has.
const NAME_LEN: usize = 17;

/// The bytes of an attempt in a state: its number, due time and time of move.
pub(super) const LEASE_LEN: usize = 18;

/// An event that is pushed, and its body.
struct Pushed<'e> {
    event: &'e NewEvent,
    body: Vec<u8>,
}

impl<'e> Pushed<'e> {
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
        has_place && self.body.len() <= BODY_MAX && body::is_plain(&self.body)
    }

    /// Returns whether `next` may follow it in a part.
    fn may_precede(&self, next: &Self) -> bool {
        let are_plain = self.is_plain() && next.is_plain();
        are_plain && self.id().precedes(next.id()) && self.event.when == next.event.when
    }
}

/// Adds events to a push, in their order: as parts where several that follow each other can share
/// one, unless an id occurs more than once.
pub(super) fn add_events<'e>(
    command: &mut Cmd,
    events: impl Iterator<Item = &'e NewEvent>,
    has_twins: bool,
) {
    let events: Vec<_> = events.map(Pushed::new).collect();
    for mut run in events.chunk_by(|a, b| !has_twins && a.may_precede(b)) {
        while let [first, rest @ ..] = run {
            let (bodies, count) = part_of(run);
            let is_part = count > 1 && !has_twins;
            let when = match first.event.on_taken {
                Unique::Keep => when(first.event.when),
                Unique::Replace => when(first.event.when).to_ascii_uppercase(),
            };
            command.arg(&first.id().to_bytes()).arg(when);
            run = if is_part {
                command.arg(bodies).arg(count);
                &run[count..]
            } else {
                command.arg(&first.body).arg(1);
                rest
            };
        }
    }
}

/// Returns the body of a part with the first events of a run, and how many these are.
fn part_of(run: &[Pushed<'_>]) -> (Vec<u8>, usize) {
    let (mut bodies, mut count) = (Vec::new(), 0);
    for event in run.iter().take_while(|event| event.is_plain()) {
        if bodies.len() >= BYTES_ENOUGH {
            break;
        }
        let len = u16::try_from(event.body.len()).unwrap_or(u16::MAX); // it is at most `BODY_MAX`
        bodies.extend_from_slice(&len.to_be_bytes());
        bodies.extend_from_slice(&event.body);
        count += 1;
    }
    (bodies, count)
}

/// Encodes when an event is due.
pub(super) fn when(when: When) -> String {
    match when {
        When::Now => "n".to_owned(),
        When::After(delay) => format!("a{}", us(delay)),
        When::At(due) => format!("t{}", due.as_millis()),
    }
}

/// Returns the attempt of the events of a part, which is their first, from the part's times.
pub(super) fn lease_at(times: &[u8]) -> Option<[u8; LEASE_LEN]> {
    let mut lease = [0; LEASE_LEN];
    lease[1] = 1;
    lease[2..].copy_from_slice(times.get(..16)?);
    Some(lease)
}

/// The name of a part.
pub(super) struct Part {
    first: EventId,
    count: u8,
}

impl Part {
    /// Reads a name; `None` of an id.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let (first, rest) = name.split_first_chunk()?;
        let [count] = rest else {
            return None;
        };
        let count = (*count).min(EventId::RUN_MAX);
        let first = EventId::from_bytes(*first);
        Some(Self { first, count })
    }

    fn ids(&self) -> impl Iterator<Item = EventId> + use<> {
        let first = self.first;
        (0..self.count).map(move |more| first.plus(more))
    }

    /// Iterates over its events and their bodies, which lie one behind the other; of those that are
    /// cut off the body is empty.
    pub(super) fn events<'b>(
        &self,
        mut bytes: &'b [u8],
    ) -> impl Iterator<Item = (EventId, &'b [u8])> + use<'b> {
        self.ids().map(move |id| {
            let (body, rest) = split(bytes).unwrap_or_default();
            bytes = rest;
            (id, body)
        })
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

/// Returns the entries of the ready list that the events of a part have, if they are alone; nothing
/// unless `entry` is that of a part.
pub(super) fn entries_in(entry: &[u8]) -> Vec<Vec<u8>> {
    let Some((name, number)) = entry.split_at_checked(NAME_LEN) else {
        return Vec::new();
    };
    let part = Part::named(name).filter(|_| number.len() == 8);
    let ids = part.into_iter().flat_map(|part| part.ids());
    ids.map(|id| [&id.to_bytes(), number].concat()).collect()
}
