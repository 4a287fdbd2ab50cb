//! How many events are due by when, without looking at each of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::EventId;
use crate::time::Timestamp;

/// A cell of each level is two to the power of so many milliseconds wide: 4 seconds, a little more
/// than an hour, and 50 days.
const SHIFTS: [u32; 3] = [12, 22, 32];
/// A narrow cell with so many events counts them by the millisecond, so that nobody has to walk
/// over more than that.
const CROWDED: usize = 1_024;

/// Counts of the delay set by due time, kept up to date with it.
///
/// Asked how many are due by an instant, it adds up whole cells, wide ones first, and at the edge
/// walks over the events of one narrow cell or over its counts by the millisecond. That is some
/// thousand steps, however many events there are, how far they reach and how close they lie; and
/// what was added up for one instant is the beginning for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Narrow cells first. None of them is empty, and so with the milliseconds.
    levels: [BTreeMap<u64, usize>; SHIFTS.len()],
    /// By the millisecond, of each narrow cell that was crowded since it was empty.
    crowded: BTreeMap<u64, BTreeMap<u64, usize>>,
}

type Scheduled = BTreeSet<(Timestamp, EventId)>;

impl Counts {
    /// One more is due then, and `scheduled` has it already.
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
            for (due, _) in from(scheduled, at).take(count) {
                *fine.entry(due.as_millis()).or_default() += 1;
            }
        }
    }

    /// One that was due then is not any more.
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

    /// Begins to count how many of `scheduled` are due until one instant and another.
    pub(super) fn counting<'a>(&'a self, scheduled: &'a Scheduled) -> Counting<'a> {
        Counting {
            counts: self,
            scheduled,
            sums: Default::default(),
            fine: Sum::default(),
        }
    }

    /// Whether the counts are what they count.
    pub(super) fn check(&self, scheduled: &Scheduled) -> Result<(), String> {
        let mut right = Self::default();
        for (due, _) in scheduled {
            let ms = due.as_millis();
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

/// Counts until one instant after the other. What was added up for the instant before is not added
/// up again, so that in their order they cost together little more than the last one alone.
pub(super) struct Counting<'a> {
    counts: &'a Counts,
    scheduled: &'a Scheduled,
    /// Of each level, from the beginning of the wider cell on.
    sums: [Sum; SHIFTS.len()],
    /// Of the milliseconds of a crowded cell.
    fine: Sum,
}

impl Counting<'_> {
    /// How many are due until then, that instant included.
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
                .take_while(|(due, _)| *due <= until)
                .count(),
            None => 0,
        };
        whole + edge
    }
}

/// How many are in the cells before one of them, from an earlier one on.
#[derive(Clone, Copy, Default)]
struct Sum {
    from: u64,
    to: u64,
    count: usize,
}

impl Sum {
    /// How many are in the cells from one to before another; goes on from what was asked last.
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

/// What is scheduled from the beginning of a narrow cell on.
fn from(scheduled: &Scheduled, cell: u64) -> impl Iterator<Item = &(Timestamp, EventId)> {
    scheduled.range((Timestamp::from_millis(cell << SHIFTS[0]), MIN_ID)..)
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
        let (mut counts, mut scheduled) = (Counts::default(), Scheduled::new());
        let mut asked: Vec<u64> = (0..200).map(|n| due(n * 61)).collect();
        asked.extend([
            0,
            5 * CELL_MS - 1,
            5 * CELL_MS + 76,
            5 * CELL_MS + 77,
            u64::MAX / 2_000,
        ]);
        // In their order as a forecast asks, and once more out of it.
        let any: Vec<u64> = asked.iter().rev().copied().collect();
        asked.sort_unstable();
        asked.extend(any);
        let check = |counts: &Counts, scheduled: &Scheduled| {
            counts.check(scheduled).unwrap();
            let mut counting = counts.counting(scheduled);
            for ms in &asked {
                let until = Timestamp::from_millis(*ms);
                let right = scheduled.iter().filter(|(due, _)| *due <= until).count();
                assert_eq!(counting.until(until), right, "until {ms}, after others");
                let alone = counts.counting(scheduled).until(until);
                assert_eq!(alone, right, "until {ms}");
            }
        };
        for number in 0..8_000 {
            let due = Timestamp::from_millis(due(number));
            scheduled.insert((due, id(number.into())));
            counts.add(due, &scheduled);
        }
        assert_eq!(counts.crowded.len(), 1);
        check(&counts, &scheduled);
        for number in (0..8_000).filter(|number| number % 3 != 0) {
            let due = Timestamp::from_millis(due(number));
            scheduled.remove(&(due, id(number.into())));
            counts.remove(due);
        }
        check(&counts, &scheduled);
        for number in (0..8_000).filter(|number| number % 3 == 0) {
            let due = Timestamp::from_millis(due(number));
            scheduled.remove(&(due, id(number.into())));
            counts.remove(due);
        }
        assert_eq!(counts, Counts::default());
    }
}
