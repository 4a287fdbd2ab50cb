//! Parts of pages: plain events of one push with one due time, which share a body and an entry while
//! they wait; see `lua/page.lua`.

use crate::event::EventId;
use crate::store::redis::script::call::us;
use crate::time::When;

/// The length of the name of a part: the id of its first event, and how many it has.
const NAME_LEN: usize = 17;

/// The bytes of an attempt in a state: its number, due time and time of move.
pub(super) const LEASE_LEN: usize = 18;

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
pub(in crate::store::redis) fn entries_in(entry: &[u8]) -> Vec<Vec<u8>> {
    let Some((name, number)) = entry.split_at_checked(NAME_LEN) else {
        return Vec::new();
    };
    let part = Part::named(name).filter(|_| number.len() == 8);
    let ids = part.into_iter().flat_map(|part| part.ids());
    ids.map(|id| [&id.to_bytes(), number].concat()).collect()
}
