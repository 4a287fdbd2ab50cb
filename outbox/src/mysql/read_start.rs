//! Where a read of the rows begins, and the reads of the whole table beside it.
//!
//! A snapshot that somebody holds keeps deleted rows from being removed, and each read of the whole
//! table passes them. So when such reads are slow there are few of them, on a connection of their own,
//! and the others begin behind what was passed; a row with a smaller number, which has been committed
//! late, waits for one of the few.

use std::time::Duration;

use duly::Result;
use sqlx::mysql::MySqlConnectOptions;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::mysql::session::MysqlSession;
use crate::session::TextRow;

/// A read of the whole table may take a part of the time that is one of so many.
const WHOLE_PAUSE: u32 = 10;
/// One that takes longer is slow.
const QUICK_MAX: Duration = Duration::from_millis(10);
/// What was passed for so long is not read again but by a read of the whole table.
const BEHIND_FOR: Duration = Duration::from_secs(1);

/// Where a read of the rows begins.
pub(super) struct ReadStart {
    options: MySqlConnectOptions,
    /// When a read of the whole table may begin.
    whole_at: Instant,
    /// Whether the last one was slow, or has failed.
    is_slow: bool,
    /// One that is under way, at most, and a connection that another has left.
    beside: JoinSet<Beside>,
    session: Option<MysqlSession>,
    /// What was passed, and when: a while ago, and lately.
    passed: [(Instant, i64); 2],
}

/// A read of the whole table that has ended.
struct Beside {
    session: MysqlSession,
    began: Instant,
    rows: Result<Vec<TextRow>>,
}

impl ReadStart {
    pub(super) fn new(options: MySqlConnectOptions, now: Instant) -> Self {
        Self {
            options,
            whole_at: now,
            is_slow: false,
            beside: JoinSet::new(),
            session: None,
            passed: [(now, 0); 2],
        }
    }

    /// Returns behind which number to read now: behind none if the whole table is read. A slow read of
    /// it, by the statement `whole`, begins beside.
    pub(super) fn begin(&mut self, now: Instant, whole: impl FnOnce() -> String) -> i64 {
        let is_due = now >= self.whole_at && self.beside.is_empty();
        if is_due && self.is_slow {
            let options = &self.options;
            let session = self.session.take();
            let mut session = session.unwrap_or_else(|| MysqlSession::new(options.clone()));
            let sql = whole();
            self.beside.spawn(async move {
                let rows = async {
                    session.open().await?;
                    session.run(sql).await
                };
                let rows = rows.await;
                Beside {
                    session,
                    began: now,
                    rows,
                }
            });
        } else if is_due {
            self.is_slow = true; // should it fail
            return 0;
        }
        self.passed[0].1
    }

    /// Returns behind which number rows are counted: the whole table only where that is quick.
    pub(super) fn counted_behind(&self, now: Instant) -> i64 {
        if now >= self.whole_at && !self.is_slow {
            0
        } else {
            self.passed[0].1
        }
    }

    /// Notes how long a read of the whole table has taken.
    pub(super) fn read_whole(&mut self, began: Instant, now: Instant) {
        self.is_slow = now - began > QUICK_MAX;
        self.whole_at = now + (now - began) * WHOLE_PAUSE;
    }

    /// Returns the rows that a read beside has found, once it has ended.
    pub(super) fn found_beside(&mut self) -> Option<Vec<TextRow>> {
        let Beside {
            session,
            began,
            rows,
        } = self.beside.try_join_next()?.ok()?;
        self.read_whole(began, Instant::now());
        match rows {
            Ok(rows) => {
                self.session = Some(session);
                Some(rows).filter(|rows| !rows.is_empty())
            }
            Err(error) => {
                self.is_slow = true;
                tracing::debug!(%error, "the whole outbox could not be read");
                None
            }
        }
    }

    /// Notes that the rows up to this one were passed, as far as they were committed.
    pub(super) fn passed(&mut self, n: i64, now: Instant) {
        if now >= self.passed[1].0 + BEHIND_FOR {
            self.passed = [self.passed[1], (now, n)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_reads_of_the_whole_table_are_few() {
        let now = Instant::now();
        let options = MySqlConnectOptions::new();
        let mut start = ReadStart::new(options, now);
        let after = |ms| now + Duration::from_millis(ms);
        let none = || unreachable!("a quick one is no other's");
        assert_eq!(start.begin(now, none), 0);
        start.passed(700, after(1_000));
        start.passed(800, after(1_500));
        start.passed(900, after(2_000));
        start.read_whole(now, after(1));
        assert_eq!(start.counted_behind(after(11)), 0);
        assert_eq!(
            start.begin(after(11), none),
            0,
            "a quick one is worth each time"
        );
        start.read_whole(after(2_000), after(2_100));
        assert_eq!(start.begin(after(3_099), none), 700, "passed for a second");
        assert_eq!(start.counted_behind(after(3_100)), 700);
    }

    #[tokio::test]
    async fn a_slow_read_is_made_beside_the_others_and_paced_where_it_fails() {
        let now = Instant::now();
        // Nobody listens there.
        let options = MySqlConnectOptions::new().host("127.0.0.1").port(1);
        let mut start = ReadStart::new(options, now);
        start.passed(700, now + BEHIND_FOR);
        start.passed(800, now + 2 * BEHIND_FOR);
        let none = || unreachable!("one at a time");
        assert_eq!(start.begin(now, none), 0);
        // That was not heard of: the next is made beside, and there are not two of them.
        let sql = || "select 1".to_owned();
        assert_eq!(start.begin(now, sql), 700);
        assert_eq!(start.begin(now, none), 700);
        while start.found_beside().is_none() && !start.beside.is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(start.whole_at > now && start.is_slow);
        assert_eq!(start.begin(start.whole_at, sql), 700);
        assert!(!start.beside.is_empty());
    }
}
