//! Tombstones as rows: what the dedup window of each bucket holds, so that it is the same after a
//! restart, whatever records are kept.
//!
//! A transaction writes one row of all events that ended in it. A row goes when all of its
//! tombstones were dropped from their windows; a window drops the oldest first, so a count of each
//! row is enough. Rows that may go are removed by the next transaction: after a kill some
//! tombstones more are remembered, never fewer.

mod row;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use rusqlite::Connection;

use crate::core::engine::{ForgottenIds, ID_AHEAD_MAX, Tombstone};
use crate::event::BucketKey;
use crate::store::embedded::change::{Changes, WindowChange};
use crate::time::Timestamp;

use self::row::{Drops, Group, ROW_MAX, ReadGroup, Row, WindowWrites, each_row};

/// The most rows that one transaction removes.
const REMOVED_MAX: usize = 64;

/// The most buckets without a tombstone whose watermark is kept for each alone; where there are more,
/// the earlier ones become that of every bucket, so that names that are not used any more go.
const EMPTY_MAX: usize = 256;

/// The rows that are in the file, and what of them still counts.
#[derive(Debug, Default)]
pub(super) struct TombstoneRows {
    buckets: HashMap<BucketKey, Window>,
    /// Those of them that have no tombstones.
    empty: HashSet<BucketKey>,
    /// The number of the first tombstone of a bucket that is not known: no row says that it was
    /// dropped.
    first: u64,
    /// For each bucket the row that says last what was dropped, and which ids may have been.
    drops: HashMap<Option<BucketKey>, (i64, ForgottenIds)>,
    /// For each row how many tombstones of it count, and for how many buckets it says last what was
    /// dropped.
    live: BTreeMap<i64, usize>,
    /// Rows of which nothing counts.
    dead: VecDeque<i64>,
    next: i64,
}

/// The tombstones of a bucket, by their numbers: each has the next one.
#[derive(Clone, Debug, Default)]
struct Window {
    /// The oldest first.
    pieces: VecDeque<Piece>,
    next: u64,
}

/// Tombstones of a bucket that follow each other in a row.
#[derive(Clone, Copy, Debug)]
struct Piece {
    row: i64,
    first: u64,
    many: usize,
}

impl Window {
    /// Returns the number of the oldest that is left when `dropped` are gone, of these and of those
    /// that follow.
    fn after(&self, mut dropped: usize) -> u64 {
        for piece in &self.pieces {
            if dropped < piece.many {
                return piece.first + dropped as u64;
            }
            dropped -= piece.many;
        }
        self.next + dropped as u64
    }
}

/// What the rows say, read at a start.
pub(super) trait Windows {
    /// A tombstone of a bucket; returns `false` if its id has one already.
    fn tombstone(&mut self, bucket: &BucketKey, tombstone: Tombstone) -> bool;
    /// The watermark of a bucket, instead of what was said of it before, as it may be lower; `None`:
    /// all buckets have at least this one.
    fn watermark(&mut self, bucket: Option<&BucketKey>, until: Timestamp);
    /// That of ids of a bucket whose time is still to come.
    fn watermark_ahead(&mut self, bucket: &BucketKey, until: Timestamp);
}

impl TombstoneRows {
    /// Writes what the changes say, and removes rows of which nothing counts.
    pub(super) fn write<'a>(
        &self,
        connection: &Connection,
        batch: impl Iterator<Item = &'a Changes>,
        now: Timestamp,
    ) -> rusqlite::Result<WindowWrites> {
        let mut written = WindowWrites::default();
        let before_now = Timestamp::from_millis(now.as_millis().saturating_sub(1));
        let mut merged: BTreeMap<Option<&BucketKey>, Vec<&WindowChange>> = BTreeMap::new();
        for change in batch.filter_map(|changes| changes.window.as_deref()) {
            merged
                .entry(change.bucket.as_ref())
                .or_default()
                .push(change);
        }
        let (unused, all) = self.unused(now, |bucket| merged.contains_key(&Some(bucket)));
        written.unused = unused;
        if all.until.is_some() {
            merged.entry(None).or_default().push(&all);
        }
        // That of all buckets is raised when this is committed: it is said last.
        let of_all = merged.remove(&None).map(|changes| (None, changes));
        let mut row = Row::new(self.next.max(1));
        for (bucket, changes) in merged.into_iter().chain(of_all) {
            let dropped: usize = changes.iter().map(|change| change.dropped).sum();
            let window = bucket.and_then(|bucket| self.buckets.get(bucket));
            let mut first = window.map_or(self.first, |window| window.next);
            if let Some(bucket) = bucket.filter(|_| dropped > 0) {
                written.dropped.push((bucket.clone(), dropped));
            }
            let mut said = changes.iter().filter_map(|change| change.until);
            let until = match bucket {
                Some(_) => said.next_back(),
                None => {
                    // It takes the place of the one before, which is before now as well.
                    let before = self.until(None);
                    written.lowered = before
                        .filter(|until| *until > before_now)
                        .map(|until| (until, before_now));
                    // In memory every bucket has been raised to the one before already; again would
                    // undo what was lowered since, when a clock that was ahead was set right.
                    let lowered = written.lowered.map(|(_, until)| until);
                    written.raised = said.clone().chain(lowered).max();
                    said.chain(before.map(|until| until.min(before_now))).max()
                }
            };
            let mut drops = (dropped > 0 || until.is_some()).then(|| Drops {
                left: window.map_or(first + dropped as u64, |window| window.after(dropped)),
                until,
                ahead: changes.iter().filter_map(|change| change.ahead).next_back(),
            });
            let mut ended = changes.iter().flat_map(|change| &change.ended).peekable();
            while ended.peek().is_some() || drops.is_some() {
                let some = ended.by_ref().take(ROW_MAX - row.many);
                first += row.add((bucket, first), drops.take(), some, &mut written) as u64;
                if row.many == ROW_MAX {
                    let next = Row::new(row.number + 1);
                    std::mem::replace(&mut row, next).insert(connection, now, &mut written)?;
                }
            }
        }
        if !row.body.is_empty() {
            row.insert(connection, now, &mut written)?;
        }
        for number in self.dead.iter().take(REMOVED_MAX) {
            connection
                .prepare_cached("DELETE FROM tombstones WHERE number = ?1")?
                .execute([number])?;
            written.removed += 1;
        }
        Ok(written)
    }

    /// Returns buckets whose windows may be forgotten, and the watermark of every bucket that is in
    /// the place of theirs: before now, since a later one, from a time when the clock was ahead, would
    /// close each of them.
    fn unused(
        &self,
        now: Timestamp,
        is_changed: impl Fn(&BucketKey) -> bool,
    ) -> (Vec<BucketKey>, WindowChange) {
        let mut all = WindowChange::default();
        if self.empty.len() <= EMPTY_MAX {
            return (Vec::new(), all);
        }
        // That of ids to come is of one bucket alone, which keeps it until then.
        let is_free = |bucket: &&BucketKey| !is_changed(bucket) && !self.has_ahead(bucket, now);
        let empty = self.empty.iter().filter(is_free);
        let empty = empty.map(|bucket| (self.until(Some(bucket)), bucket));
        let mut empty: Vec<_> = empty.collect();
        empty.sort_unstable();
        empty.truncate(self.empty.len() - EMPTY_MAX / 2);
        let before_now = Timestamp::from_millis(now.as_millis().saturating_sub(1));
        let last = empty.last().and_then(|(until, _)| *until);
        all.until = last.map(|until| until.min(before_now));
        let unused = empty.into_iter().map(|(_, bucket)| bucket.clone());
        (unused.collect(), all)
    }

    /// The watermark that the rows say of a bucket itself, or of every bucket.
    pub(super) fn until(&self, bucket: Option<&BucketKey>) -> Option<Timestamp> {
        let (_, ids) = self.drops.get(&bucket.cloned())?;
        ids.until
    }

    /// Returns whether a bucket has forgotten ids whose time is still to come; none that is accepted
    /// has a later time.
    fn has_ahead(&self, bucket: &BucketKey, now: Timestamp) -> bool {
        let drops = self.drops.get(&Some(bucket.clone()));
        let ahead = drops.and_then(|(_, ids)| ids.ahead);
        ahead.is_some_and(|until| until > now && until <= now + ID_AHEAD_MAX)
    }

    /// Takes over what was committed.
    pub(super) fn committed(&mut self, written: WindowWrites) {
        self.dead.drain(..written.removed.min(self.dead.len()));
        for group in written.groups {
            self.next = self.next.max(group.row + 1);
            self.add(group);
        }
        for (bucket, mut dropped) in written.dropped {
            let Some(window) = self.buckets.get_mut(&bucket) else {
                continue;
            };
            while dropped > 0
                && let Some(piece) = window.pieces.front_mut()
            {
                let less = dropped.min(piece.many);
                (piece.first, piece.many) = (piece.first + less as u64, piece.many - less);
                let (row, is_gone) = (piece.row, piece.many == 0);
                if is_gone {
                    window.pieces.pop_front();
                    if window.pieces.is_empty() {
                        self.empty.insert(bucket.clone());
                    }
                }
                dropped -= less;
                less_of(&mut self.live, &mut self.dead, row, less);
            }
        }
        for bucket in written.unused {
            self.empty.remove(&bucket);
            if let Some(window) = self.buckets.remove(&bucket) {
                self.first = self.first.max(window.next);
            }
            if let Some((row, _)) = self.drops.remove(&Some(bucket)) {
                less_of(&mut self.live, &mut self.dead, row, 1);
            }
        }
    }

    fn add(&mut self, group: Group) {
        let Group {
            row,
            bucket,
            first,
            many,
            drops,
        } = group;
        *self.live.entry(row).or_default() += many + usize::from(drops.is_some());
        if let Some(Drops { until, ahead, .. }) = drops
            && let ids = (ForgottenIds { until, ahead })
            && let Some((before, _)) = self.drops.insert(bucket.clone(), (row, ids))
        {
            less_of(&mut self.live, &mut self.dead, before, 1);
        }
        if let Some(bucket) = bucket {
            let window = self.buckets.entry(bucket.clone()).or_default();
            window.next = window.next.max(first.saturating_add(many as u64));
            if many > 0 {
                window.pieces.push_back(Piece { row, first, many });
                self.empty.remove(&bucket);
            } else if window.pieces.is_empty() {
                self.empty.insert(bucket);
            }
        }
    }

    /// Returns whether there are rows to remove.
    pub(super) fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Reads every row, the oldest first. Returns what is damaged: such a row is removed with the
    /// next transaction, and its tombstones are gone.
    pub(super) fn read(
        connection: &Connection,
        now: Timestamp,
        windows: &mut impl Windows,
    ) -> rusqlite::Result<(Self, usize)> {
        let mut rows = Self::default();
        let mut left: HashMap<BucketKey, u64> = HashMap::new();
        let mut ahead: BTreeMap<BucketKey, Timestamp> = BTreeMap::new();
        // First what was dropped: the last rows say it of the first ones.
        each_row(connection, |_, groups| {
            for found in groups.into_iter().flatten() {
                if let (Some(bucket), Some(drops)) = (found.bucket, found.drops) {
                    if let Some(until) = drops.ahead {
                        ahead.insert(bucket.clone(), until); // may be earlier than it was before
                    }
                    let known = left.entry(bucket).or_default();
                    *known = drops.left.max(*known);
                }
            }
        })?;
        let mut damaged = 0;
        each_row(connection, |number, groups| {
            rows.next = rows.next.max(number.saturating_add(1));
            let Some(groups) = groups else {
                damaged += 1;
                rows.dead.push_back(number);
                return;
            };
            rows.live.insert(number, 0);
            for found in groups {
                let next = found.first.saturating_add(found.tombstones.len() as u64);
                rows.first = rows.first.max(next);
                rows.restore(number, found, &left, windows);
            }
            // One of which nothing counts may go, too.
            if rows.live.get(&number) == Some(&0) {
                rows.live.remove(&number);
                rows.dead.push_back(number);
            }
        })?;
        // Any other is of no use any more, and would bring its bucket back.
        for (bucket, until) in ahead.iter().filter(|(_, until)| **until > now) {
            windows.watermark_ahead(bucket, *until);
        }
        rows.first = left.values().copied().fold(rows.first, u64::max);
        Ok((rows, damaged))
    }

    /// Restores what a row says of a bucket, without what was dropped since.
    fn restore(
        &mut self,
        row: i64,
        found: ReadGroup,
        left: &HashMap<BucketKey, u64>,
        windows: &mut impl Windows,
    ) {
        let all = found.tombstones.len();
        let left = found.bucket.as_ref().and_then(|bucket| left.get(bucket));
        let gone = left.map_or(0, |left| left.saturating_sub(found.first));
        let gone = usize::try_from(gone).unwrap_or(usize::MAX).min(all);
        let mut many = 0;
        if let Some(bucket) = &found.bucket {
            let kept = found.tombstones.into_iter().skip(gone);
            many = kept.filter(|one| windows.tombstone(bucket, *one)).count();
        }
        if let Some(until) = found.drops.and_then(|drops| drops.until) {
            windows.watermark(found.bucket.as_ref(), until);
        }
        self.add(Group {
            row,
            bucket: found.bucket,
            // One whose id was there already is taken for the first.
            first: found.first.saturating_add((all - many) as u64),
            many,
            drops: found.drops,
        });
    }
}

/// Counts `less` fewer of a row, which may go when nothing of it counts.
fn less_of(live: &mut BTreeMap<i64, usize>, dead: &mut VecDeque<i64>, row: i64, less: usize) {
    if let Some(many) = live.get_mut(&row) {
        *many = many.saturating_sub(less);
        if *many == 0 {
            live.remove(&row);
            dead.push_back(row);
        }
    }
}

#[cfg(test)]
mod tests;
