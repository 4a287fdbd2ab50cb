//! A query that tells for a small part of the cost of a look whether rows may have become visible.

use crate::postgres::snapshot::Snapshot;
use crate::session::TextRow;

/// The query: the number of the last row that was inserted, if only in a transaction that runs; which
/// transactions are over; how many have begun, as the age of the first one; and whether the server is
/// only read from.
pub(crate) const QUERY: &str = "select pg_sequence_last_value('duly_outbox_n'), \
     pg_current_snapshot(), age('3'::xid), current_setting('transaction_read_only')";
const FIRST: u32 = 3;

/// What its replies have said.
#[derive(Debug)]
pub(crate) struct News {
    last: Option<String>,
    /// Whether the last reply had another number than the one before.
    has_moved: bool,
    /// A row that is not visible yet is of a transaction that was not over in this.
    watched: Snapshot,
    /// And had begun before this one.
    until: u64,
}

impl Default for News {
    fn default() -> Self {
        Self {
            last: None,
            has_moved: true, // whatever it is, rows may be of transactions that run
            watched: Snapshot::nothing(),
            until: 0,
        }
    }
}

impl News {
    /// Reads a row of [`QUERY`]: returns whether rows may have become visible since the last one.
    pub(crate) fn read(&mut self, row: &TextRow) -> Option<bool> {
        let text = |at: usize| row.get(at)?.as_deref();
        let last = row.first()?.clone();
        let now: Snapshot = text(1)?.parse().ok()?;
        let age: i32 = text(2)?.parse().ok()?;
        let had_moved = std::mem::replace(&mut self.has_moved, last != self.last);
        self.last = last;
        // The first reply with a number may be too old to know of the transaction that has inserted
        // that row; the next one is not.
        if self.has_moved || had_moved {
            self.until = next_after(now.xmax(), age);
            self.watched = now;
            return Some(true);
        }
        // Those from `xmax` on are in no list.
        let is_over = !self.watched.ended_until(&now).is_empty()
            || self.watched.xmax() < now.xmax().min(self.until);
        if is_over {
            self.watched = now.before(self.until);
        }
        Some(is_over)
    }
}

/// Returns a number that no transaction has that had begun when the first one was so old. A snapshot
/// ends at `xmax`.
fn next_after(xmax: u64, age: i32) -> u64 {
    let next = FIRST.wrapping_add_signed(age); // it has the lower half of the bits
    // And one more, as the age may be counted up to the last that has begun.
    let more = i64::from(next.wrapping_sub(xmax as u32).cast_signed()) + 1;
    xmax.saturating_add_signed(more.max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads what the server replies if those before `until` may have begun.
    fn read(news: &mut News, last: &str, now: &str, until: u32) -> bool {
        let age = until.wrapping_sub(FIRST + 1).cast_signed();
        let row = [last.to_owned(), now.to_owned(), age.to_string()];
        news.read(&row.map(Some).to_vec()).unwrap()
    }

    #[test]
    fn each_way_in_which_a_row_becomes_visible_is_news_and_little_else_is() {
        let mut news = News::default();
        let mut reads = |last, now, next| read(&mut news, last, now, next);
        assert!(reads("7", "10:12:10,11", 12), "of a program before");
        assert!(
            reads("7", "10:12:10,11", 12),
            "of what the first did not know"
        );
        assert!(!reads("7", "10:12:10,11", 12));
        assert!(!reads("7", "10:30:10,11,17", 31), "others begin");
        assert!(!reads("7", "10:40:10,11", 41), "and end");
        assert!(reads("7", "10:41:10", 41), "one of before ends");
        assert!(!reads("7", "10:42:10", 42));
        assert!(reads("8", "10:42:10", 44), "an insert, by 42 or 43");
        assert!(reads("8", "10:42:10", 44));
        assert!(
            !reads("8", "10:42:10", 60),
            "in no list, as none has ended that began later"
        );
        assert!(reads("8", "10:44:10,42", 60), "43 ends");
        assert!(!reads("8", "10:59:10,42", 60));
        assert!(reads("8", "10:59:10", 60), "42 ends");
        assert!(reads("8", "59:59:", 60), "the oldest does");
        assert!(!reads("8", "80:80:", 80));
    }

    #[test]
    fn a_transaction_that_is_in_no_list_ends() {
        for (xmax, next) in [(50_u64, 51), (50, 58), (7 << 32, 4), ((8 << 32) - 1, 9)] {
            let mut news = News::default();
            let now = format!("{xmax}:{xmax}:");
            assert!(read(&mut news, "1", &now, next) && read(&mut news, "1", &now, next));
            assert!(!read(&mut news, "1", &now, next));
            let after = format!("{0}:{0}:", xmax + 1);
            assert!(read(&mut news, "1", &after, next), "{xmax}");
        }
    }

    #[test]
    fn an_outbox_that_never_had_a_row_has_a_reply() {
        let mut news = News::default();
        let row = vec![None, Some("10:10:".to_owned()), Some("7".to_owned())];
        assert_eq!([(); 2].map(|()| news.read(&row)), [Some(true), Some(false)]);
        assert_eq!(news.read(&vec![None, None]), None);
    }
}
