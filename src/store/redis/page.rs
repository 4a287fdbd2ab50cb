//! Pages: events that are due at once and share an entry of the ready list;
//! see `lua/page.lua`.

use redis::Cmd;

use crate::codec::body;
use crate::core::op::{NewEvent, Unique};
use crate::event::EventId;
use crate::store::redis::encode::us;
use crate::time::When;

/// The most events of a page; `PAGE_MAX` of `lua/page.lua`, whose bits are as many.
const EVENTS_MAX: usize = 64;
/// A page with this many bytes takes no more events.
const BYTES_ENOUGH: usize = 16 * 1024;
/// The longest body that is worth a place in a page.
const BODY_MAX: usize = 1024;

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

    /// Returns whether it is due at once, short, and needs nothing but to be handled.
    fn is_plain(&self) -> bool {
        let is_now = self.event.when == When::Now && self.event.on_taken == Unique::Keep;
        is_now && self.body.len() <= BODY_MAX && body::is_plain(&self.body)
    }

    fn add_alone(&self, command: &mut Cmd) {
        let when = when(self.event.when);
        let when = match self.event.on_taken {
            Unique::Keep => when,
            Unique::Replace => when.to_ascii_uppercase(),
        };
        let id = self.event.envelope.id.to_bytes();
        command.arg(0).arg(&id).arg(when).arg(&self.body);
    }

    fn add_to(&self, page: &mut Vec<u8>) {
        let len = u32::try_from(self.body.len()).unwrap_or(u32::MAX); // it is at most `BODY_MAX`
        page.extend_from_slice(&self.event.envelope.id.to_bytes());
        page.extend_from_slice(&len.to_be_bytes());
        page.extend_from_slice(&self.body);
    }
}

/// Adds events to a push, in their order: as pages where several that follow each other can share
/// one, unless an id occurs more than once.
pub(super) fn add_events<'e>(
    command: &mut Cmd,
    events: impl Iterator<Item = &'e NewEvent>,
    has_twins: bool,
) {
    let events: Vec<_> = events.map(Pushed::new).collect();
    let can_share = |a: &Pushed<'_>, b: &Pushed<'_>| !has_twins && a.is_plain() && b.is_plain();
    for mut run in events.chunk_by(can_share) {
        while let [first, rest @ ..] = run {
            run = if rest.is_empty() {
                first.add_alone(command);
                rest
            } else {
                add_page(command, run)
            };
        }
    }
}

/// Adds a page of the first events. Returns the others.
fn add_page<'r, 'e>(command: &mut Cmd, run: &'r [Pushed<'e>]) -> &'r [Pushed<'e>] {
    let (mut page, mut count) = (Vec::new(), 0);
    for event in run.iter().take(EVENTS_MAX) {
        if page.len() >= BYTES_ENOUGH {
            break;
        }
        event.add_to(&mut page);
        count += 1;
    }
    command.arg(count).arg(page);
    &run[count..]
}

/// Encodes when an event is due.
pub(super) fn when(when: When) -> String {
    match when {
        When::Now => "n".to_owned(),
        When::After(delay) => format!("a{}", us(delay)),
        When::At(due) => format!("t{}", due.as_millis()),
    }
}

/// Returns the attempt that the state of a leased page says: the first one.
pub(super) fn lease_of(state: &[u8]) -> Option<[u8; LEASE_LEN]> {
    let mut lease = [0; LEASE_LEN];
    lease[1] = 1;
    lease[2..].copy_from_slice(state.get(9..25)?);
    Some(lease)
}

/// Iterates over the events in the body of a page; `None` for one that is cut off, which is the
/// last.
pub(super) fn events(mut body: &[u8]) -> impl Iterator<Item = Option<(EventId, &[u8])>> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let event = split(body);
        body = event.map_or(&[], |(_, _, rest)| rest);
        Some(event.map(|(id, its, _)| (id, its)))
    })
}

fn split(body: &[u8]) -> Option<(EventId, &[u8], &[u8])> {
    let (id, rest) = body.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    let (its, rest) = rest.split_at_checked(len)?;
    Some((EventId::from_bytes(*id), its, rest))
}
