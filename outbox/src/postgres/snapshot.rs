//! Snapshots of PostgreSQL, as text: which transactions were over.

use std::fmt;
use std::str::FromStr;

/// Which transactions were over at a moment: those before `xmax`, except some that ran then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    xmin: u64,
    xmax: u64,
    running: Vec<u64>,
}

impl Snapshot {
    /// The snapshot in which nothing is visible.
    pub(crate) fn nothing() -> Self {
        Self {
            xmin: 1,
            xmax: 1,
            running: Vec::new(),
        }
    }

    /// The first transaction that had not begun.
    pub(crate) fn xmax(&self) -> u64 {
        self.xmax
    }

    /// Returns whether a transaction was over.
    pub(crate) fn sees(&self, xid: u64) -> bool {
        xid < self.xmax && self.running.binary_search(&xid).is_err()
    }

    /// Returns the transactions that ran at this moment and were over at a later one, ascending.
    pub(crate) fn ended_until(&self, later: &Self) -> Vec<u64> {
        let ended = self.running.iter().filter(|xid| later.sees(**xid));
        ended.copied().collect()
    }

    /// Leaves the transactions from a number on out of those that ran.
    pub(crate) fn before(mut self, until: u64) -> Self {
        self.running.retain(|xid| *xid < until);
        self
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (place, xid) in self.running.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{xid}")?;
        }
        Ok(())
    }
}

impl FromStr for Snapshot {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(());
        let (xmin, xmax, running) = (next()?, next()?, next()?);
        let number = |text: &str| text.parse::<u64>().map_err(drop);
        let running = running.split(',').filter(|it| !it.is_empty()).map(number);
        let mut running = running.collect::<Result<Vec<_>, ()>>()?;
        running.sort_unstable();
        Ok(Self {
            xmin: number(xmin)?,
            xmax: number(xmax)?,
            running,
        })
    }
}

/// Returns the transactions `late` that ran when the snapshot `done` was taken and are visible by now,
/// each with the rows `o` that `rows` reads of it: a look into the index. Those that still run may have
/// many rows, of which none is visible.
pub(crate) fn ended_since(done: &str, rows: &str) -> String {
    format!(
        "pg_snapshot_xip({done}) as late (xid) cross join lateral ({rows}) as o \
         where pg_visible_in_snapshot(late.xid, pg_current_snapshot())"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_written() {
        for text in ["1:1:", "10:20:10,14,15", "743:744:743"] {
            let snapshot: Snapshot = text.parse().unwrap();
            assert_eq!(snapshot.to_string(), text);
        }
        assert_eq!(Snapshot::nothing().to_string(), "1:1:");
        for wrong in ["", "1:2", "a:b:", "1:2:x"] {
            assert!(wrong.parse::<Snapshot>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_ran_and_what_had_not_begun_is_not_seen() {
        let earlier: Snapshot = "10:20:10,14,15".parse().unwrap();
        let seen: Vec<u64> = (8..22).filter(|xid| earlier.sees(*xid)).collect();
        assert_eq!(seen, [8, 9, 11, 12, 13, 16, 17, 18, 19]);
        let later: Snapshot = "14:30:14,21".parse().unwrap();
        assert_eq!(earlier.ended_until(&later), [10, 15]);
        assert!((1..40).all(|xid| !Snapshot::nothing().sees(xid)));
    }
}
