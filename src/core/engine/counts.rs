//! A counter of events by due time, without a scan over all of them.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::core::engine::dense::DenseMap;
use crate::event::EventId;
use crate::time::Timestamp;

/// The cell width of each level, as a power of two in milliseconds: 4 seconds, a little more than
/// an hour, and 50 days.
const SHIFTS: [u32; 3] = [12, 22, 32];
/// A narrow cell with this many events counts them by the millisecond, which bounds the scan of a
/// cell.
const CROWDED: usize = 1_024;

/// Counts of the delay set by due time, updated with it.
///
/// To count the events due by an instant, it sums whole cells, wide ones first, and then scans the
/// events of one narrow cell or its counts by the millisecond: some thousand steps, whatever the
/// number and distribution of events. The sums for one instant are reused for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DueCounts {
    /// Narrow cells first. No cell and no millisecond is empty.
    levels: [BTreeMap<u64, usize>; SHIFTS.len()],
    /// By the millisecond, for each narrow cell that was crowded since it was last empty.
    crowded: BTreeMap<u64, BTreeMap<u64, usize>>,
}

/// The delay set.
pub(super) type Scheduled = DenseMap<DueKey, ()>;

/// The order of the delay set: by due time, then by id.
///
/// The id is in two halves, as its alignment would make this a quarter longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueKey {
    pub(super) due: Timestamp,
    id: [u64; 2],
}

impl DueKey {
    pub(super) fn new(due: Timestamp, id: EventId) -> Self {
        let id = u128::from_be_bytes(id.to_bytes());
        let id = [(id >> 64) as u64, id as u64];
        Self { due, id }
    }

    pub(super) fn id(self) -> EventId {
        let [high, low] = self.id.map(u128::from);
        EventId::from_bytes((high << 64 | low).to_be_bytes())
    }
}

impl DueCounts {
    /// Counts all of a delay set.
    pub(super) fn of(scheduled: &Scheduled) -> Self {
        let mut counts = Self::default();
        for (level, shift) in counts.levels.iter_mut().zip(SHIFTS) {
            let cells = scheduled
                .iter()
                .map(|(key, ())| key.due.as_millis() >> shift);
            *level = in_runs(cells);
        }
        let crowded = counts.levels[0].iter();
        let crowded = crowded.filter(|(_, count)| **count >= CROWDED);
        counts.crowded = crowded
            .map(|(at, count)| {
                let events = from(scheduled, *at).take(*count);
                (*at, in_runs(events.map(Timestamp::as_millis)))
            })
            .collect();
        counts
    }

    /// Adds an event due then, which `scheduled` has already.
    pub(super) fn add(&mut self, due: Timestamp, scheduled: &Scheduled) {
        let ms = due.as_millis();
        let mut count = 0; // in the narrow cell, which comes last
        for (level, shift) in self.levels.iter_mut().zip(SHIFTS).rev() {
            let cell = level.entry(ms >> shift).or_default();
            *cell += 1;
            count = *cell;
        }
        if count < CROWDED && self.crowded.is_empty() {
            return;
        }
        let at = ms >> SHIFTS[0];
        if let Some(fine) = self.crowded.get_mut(&at) {
            *fine.entry(ms).or_default() += 1;
        } else if count >= CROWDED {
            let fine = self.crowded.entry(at).or_default();
            for due in from(scheduled, at).take(count) {
                *fine.entry(due.as_millis()).or_default() += 1;
            }
        }
    }

    /// Removes an event that was due then.
    pub(super) fn remove(&mut self, due: Timestamp) {
        let ms = due.as_millis();
        for (level, shift) in self.levels.iter_mut().zip(SHIFTS) {
            one_less(level, ms >> shift);
        }
        let at = ms >> SHIFTS[0];
        if let Some(fine) = self.crowded.get_mut(&at) {
            one_less(fine, ms);
            if fine.is_empty() {
                self.crowded.remove(&at);
            }
        }
    }

    /// Starts a count of `scheduled` events by a series of instants.
    pub(super) fn counting<'a>(&'a self, scheduled: &'a Scheduled) -> DueCounting<'a> {
        DueCounting {
            counts: self,
            scheduled,
            sums: Default::default(),
            fine: RangeSum::default(),
        }
    }

    /// Checks the counts.
    pub(super) fn check(&self, scheduled: &Scheduled) -> Result<(), String> {
        let mut right = Self::default();
        for (key, ()) in scheduled.iter() {
            let ms = key.due.as_millis();
            for (level, shift) in right.levels.iter_mut().zip(SHIFTS) {
                *level.entry(ms >> shift).or_default() += 1;
            }
            let at = ms >> SHIFTS[0];
            if self.crowded.contains_key(&at) {
                *right.crowded.entry(at).or_default().entry(ms).or_default() += 1;
            }
        }
        let crowded = right.levels[0].iter();
        let mut crowded = crowded.filter(|(_, count)| **count >= CROWDED);
        if right != *self || crowded.any(|(at, _)| !self.crowded.contains_key(at)) {
            return Err("the forecast's counters differ from the delay set".into());
        }
        Ok(())
    }
}

/// A count by a series of instants that reuses the sums of the previous one, so that an ascending
/// series costs little more than its last instant.
pub(super) struct DueCounting<'a> {
    counts: &'a DueCounts,
    scheduled: &'a Scheduled,
    /// For each level, from the start of the wider cell.
    sums: [RangeSum; SHIFTS.len()],
    /// For the milliseconds of a crowded cell.
    fine: RangeSum,
}

impl DueCounting<'_> {
    /// Returns how many are due by `until`, inclusive.
    pub(super) fn until(&mut self, until: Timestamp) -> usize {
        let ms = until.as_millis();
        let mut whole = 0;
        let mut counted = 0; // everything before this millisecond is in `whole`
        let levels = self.counts.levels.iter().zip(SHIFTS).zip(&mut self.sums);
        for ((level, shift), sum) in levels.rev() {
            whole += sum.of(level, counted >> shift, ms >> shift);
            counted = ms >> shift << shift;
        }
        let at = ms >> SHIFTS[0];
        let edge = match self.counts.crowded.get(&at) {
            Some(fine) => self.fine.of(fine, counted, ms) + fine.get(&ms).unwrap_or(&0),
            None if self.counts.levels[0].contains_key(&at) => from(self.scheduled, at)
                .take_while(|due| *due <= until)
                .count(),
            None => 0,
        };
        whole + edge
    }
}

/// The sum of a range of cells.
#[derive(Clone, Copy, Default)]
struct RangeSum {
    from: u64,
    to: u64,
    count: usize,
}

impl RangeSum {
    /// Returns the sum of the cells `from..to`; continues the previous range if it can.
    fn of(&mut self, cells: &BTreeMap<u64, usize>, from: u64, to: u64) -> usize {
        if self.from != from || self.to > to {
            *self = Self {
                from,
                to: from,
                count: 0,
            };
        }
        self.count += cells
            .range(self.to..to)
            .map(|(_, count)| count)
            .sum::<usize>();
        self.to = to;
        self.count
    }
}

/// Returns when the scheduled events from the start of a narrow cell are due.
fn from(scheduled: &Scheduled, cell: u64) -> impl Iterator<Item = Timestamp> {
    let first = DueKey::new(Timestamp::from_millis(cell << SHIFTS[0]), MIN_ID);
    let events = scheduled.range(Bound::Included(first));
    events.map(|(key, ())| key.due)
}

/// Counts cells that come in order.
fn in_runs(cells: impl Iterator<Item = u64>) -> BTreeMap<u64, usize> {
    let mut runs: Vec<(u64, usize)> = Vec::new();
    for cell in cells {
        match runs.last_mut() {
            Some((last, count)) if *last == cell => *count += 1,
            _ => runs.push((cell, 1)),
        }
    }
    runs.into_iter().collect()
}

fn one_less(counts: &mut BTreeMap<u64, usize>, at: u64) {
    if let Some(count) = counts.get_mut(&at) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&at);
        }
    }
}

const MIN_ID: EventId = EventId::from_bytes([0; 16]);

#[cfg(test)]
mod tests {
    use super::*;

    const CELL_MS: u64 = 1 << SHIFTS[0];

    fn id(number: u128) -> EventId {
        EventId::from_bytes(number.to_be_bytes())
    }

    /// Many at one millisecond, many in one cell, and some far away.
    fn due(number: u64) -> u64 {
        match number % 4 {
            0 => 5 * CELL_MS + 77,
            1 => 5 * CELL_MS + number % CELL_MS,
            2 => number * 104_729,
            _ => number * 15_485_863 % (3_660 * 86_400_000),
        }
    }

    #[test]
    fn what_is_due_until_any_instant_is_counted_exactly() {
        let (mut counts, mut scheduled) = (DueCounts::default(), Scheduled::default());
        let mut limits: Vec<u64> = (0..200).map(|n| due(n * 61)).collect();
        limits.extend([
            0,
            5 * CELL_MS - 1,
            5 * CELL_MS + 76,
            5 * CELL_MS + 77,
            u64::MAX / 2_000,
        ]);
        // In ascending order, as in a forecast, and once more out of order.
        let any: Vec<u64> = limits.iter().rev().copied().collect();
        limits.sort_unstable();
        limits.extend(any);
        let check = |counts: &DueCounts, scheduled: &Scheduled| {
            counts.check(scheduled).unwrap();
            let mut counting = counts.counting(scheduled);
            for ms in &limits {
                let until = Timestamp::from_millis(*ms);
                let right = scheduled
                    .iter()
                    .filter(|(key, ())| key.due <= until)
                    .count();
                assert_eq!(counting.until(until), right, "until {ms}, after others");
                let alone = counts.counting(scheduled).until(until);
                assert_eq!(alone, right, "until {ms}");
            }
        };
        for number in 0..8_000 {
            let due = Timestamp::from_millis(due(number));
            scheduled.insert(DueKey::new(due, id(number.into())), ());
            counts.add(due, &scheduled);
        }
        assert_eq!(counts.crowded.len(), 1);
        check(&counts, &scheduled);
        check(&DueCounts::of(&scheduled), &scheduled);
        for number in (0..8_000).filter(|number| number % 3 != 0) {
            let due = Timestamp::from_millis(due(number));
            scheduled.remove(&DueKey::new(due, id(number.into())));
            counts.remove(due);
        }
        check(&counts, &scheduled);
        for number in (0..8_000).filter(|number| number % 3 == 0) {
            let due = Timestamp::from_millis(due(number));
            scheduled.remove(&DueKey::new(due, id(number.into())));
            counts.remove(due);
        }
        assert_eq!(counts, DueCounts::default());
    }
}
