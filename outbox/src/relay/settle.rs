//! The outcome of the rows of a page: a pure function of the results of their pushes.

use duly::__outbox::StagedPush;
use duly::ErrorKind;

use crate::relay::source::{Closing, Deferred, Instead, Refused, Settling};

/// The most bytes of a reason, which may quote what a user wrote; a column of MySQL has a limit.
const REASON_BYTES_MAX: usize = 2_000;

/// What became of one row.
#[derive(Debug)]
pub(crate) enum RowOutcome {
    /// The store has it, by this push if it is new.
    Accepted { is_new: bool },
    /// It goes on as another row.
    Instead(Vec<u8>),
    /// It can never be accepted, for this reason.
    Refused(String),
    /// It has to be pushed again; it may have been accepted.
    Unknown,
    /// It has to be pushed again; it was not accepted.
    NotYet,
    /// It was not accepted, as its id is not within the time that the store accepts. What becomes of
    /// it depends on what is known of the event.
    OutOfTime,
}

impl RowOutcome {
    /// Returns the outcome of a row whose push has this result.
    pub(crate) fn of(pushed: &StagedPush) -> Self {
        match pushed {
            StagedPush::Accepted { is_new } => Self::Accepted { is_new: *is_new },
            StagedPush::Refused(error) | StagedPush::Conflict(error) => {
                Self::refused(error.to_string())
            }
            StagedPush::Failed(error) => match error.kind() {
                ErrorKind::Unavailable | ErrorKind::Full | ErrorKind::Closed => Self::NotYet,
                _ => Self::Unknown,
            },
            StagedPush::OutOfTime => Self::OutOfTime,
        }
    }

    /// Returns the outcome of a row that can never be accepted.
    pub(crate) fn refused(mut reason: String) -> Self {
        if reason.len() > REASON_BYTES_MAX {
            reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
            reason += "...";
        }
        Self::Refused(reason)
    }

    /// Returns it for a database in which a row goes on as one of so many bytes at most.
    pub(crate) fn within(self, bytes_max: usize) -> Self {
        match self {
            Self::Instead(event) if event.len() > bytes_max => Self::refused(format!(
                "the event has {} bytes, and the database takes {bytes_max}; raise its \
                 max_allowed_packet, and put the row back",
                event.len()
            )),
            outcome => outcome,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self, Self::Unknown | Self::NotYet | Self::OutOfTime)
    }

    /// Returns whether the store has replied to its push.
    pub(crate) fn has_reply(&self) -> bool {
        self.is_settled() || matches!(self, Self::OutOfTime)
    }
}

/// A row of a page, and what became of it.
#[derive(Debug)]
pub(crate) struct RowResult {
    pub(crate) outcome: RowOutcome,
    /// The group of an event.
    pub(crate) group: Option<String>,
    /// Whether it may have been pushed before it was taken.
    pub(crate) is_repeated: bool,
}

/// Returns how many rows of a page with these outcomes are passed: those that are not settled are
/// deferred; if they may not be, it is passed up to the first of them.
pub(crate) fn passed(rows: &[RowResult], may_defer: bool) -> usize {
    let is_passed = |row: &&RowResult| row.outcome.is_settled() || may_defer && row.group.is_some();
    rows.iter().take_while(is_passed).count()
}

/// Returns how a page is closed of whose rows, which have these outcomes, so many are passed.
pub(crate) fn closing(rows: Vec<RowResult>, passed: usize) -> Closing {
    let mut closing = Closing {
        passed,
        ..Closing::default()
    };
    for (place, row) in rows.into_iter().enumerate() {
        let is_unknown = matches!(row.outcome, RowOutcome::Unknown);
        let is_repeated = row.is_repeated;
        match (row.outcome, row.group) {
            (RowOutcome::Accepted { .. } | RowOutcome::Unknown, _) if place >= passed => {
                closing.is_repeated = true;
            }
            _ if place >= passed => {}
            (RowOutcome::Unknown | RowOutcome::NotYet | RowOutcome::OutOfTime, Some(group)) => {
                closing.deferred.push(Deferred {
                    place,
                    group,
                    is_repeated: is_unknown || is_repeated,
                });
            }
            (RowOutcome::Refused(reason), _) => closing.refused.push(Refused {
                row: place,
                reason,
                is_repeated,
            }),
            (RowOutcome::Instead(event), _) => closing.instead.push(Instead {
                place,
                event,
                is_repeated,
            }),
            _ => {}
        }
    }
    closing
}

/// Returns how deferred rows are settled: their keys, each with whether it may have been pushed before.
pub(crate) fn settling(keys: &[(i64, bool)], outcomes: Vec<(usize, RowOutcome)>) -> Settling {
    let mut settling = Settling::default();
    for (place, outcome) in outcomes {
        let Some((key, is_repeated)) = keys.get(place).copied() else {
            continue;
        };
        match outcome {
            RowOutcome::Accepted { .. } => settling.gone.push(key),
            RowOutcome::Refused(reason) => settling.refused.push(Refused {
                row: key,
                reason,
                is_repeated,
            }),
            RowOutcome::Instead(event) => settling.instead.push((key, event)),
            RowOutcome::NotYet | RowOutcome::OutOfTime if !is_repeated => settling.never.push(key),
            RowOutcome::Unknown | RowOutcome::NotYet | RowOutcome::OutOfTime => {
                settling.maybe.push(key);
            }
        }
    }
    settling
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(rows: Vec<RowResult>, may_defer: bool) -> Closing {
        let passed = passed(&rows, may_defer);
        closing(rows, passed)
    }

    fn row(outcome: RowOutcome) -> RowResult {
        RowResult {
            outcome,
            group: Some("orders/1".to_owned()),
            is_repeated: false,
        }
    }

    fn new() -> RowResult {
        row(RowOutcome::Accepted { is_new: true })
    }

    fn refused() -> RowResult {
        row(RowOutcome::Refused("no".to_owned()))
    }

    fn instead() -> RowResult {
        row(RowOutcome::Instead(vec![1]))
    }

    #[test]
    fn a_page_is_passed_up_to_the_first_row_that_is_not_settled() {
        let closed = close(vec![new(), refused(), instead(), new()], false);
        assert_eq!((closed.passed, closed.is_repeated), (4, false));
        let refused_at: Vec<_> = closed.refused.iter().map(|it| it.row).collect();
        let instead_at: Vec<_> = closed.instead.iter().map(|it| it.place).collect();
        assert_eq!((refused_at, instead_at), (vec![1], vec![2]));

        let rows = vec![new(), row(RowOutcome::NotYet), refused(), instead()];
        let closed = close(rows, false);
        assert_eq!((closed.passed, closed.is_repeated), (1, false));
        assert!(closed.refused.is_empty() && closed.instead.is_empty());
    }

    #[test]
    fn what_may_have_been_accepted_is_told_from_what_was_not() {
        let not_yet = || row(RowOutcome::NotYet);
        assert!(!close(vec![not_yet(), not_yet()], false).is_repeated);
        assert!(close(vec![not_yet(), new()], false).is_repeated);
        assert!(close(vec![new(), row(RowOutcome::Unknown)], false).is_repeated);
        assert_eq!(close(Vec::new(), false).passed, 0);
    }

    #[test]
    fn what_is_deferred_lets_the_others_pass() {
        let pushed_before = RowResult {
            is_repeated: true,
            ..row(RowOutcome::NotYet)
        };
        let rows = vec![
            row(RowOutcome::NotYet),
            new(),
            row(RowOutcome::Unknown),
            refused(),
            pushed_before,
        ];
        let closed = close(rows, true);
        assert_eq!((closed.passed, closed.is_repeated), (5, false));
        assert_eq!(closed.refused.len(), 1);
        let deferred = closed.deferred.iter();
        let deferred: Vec<_> = deferred.map(|it| (it.place, it.is_repeated)).collect();
        assert_eq!(deferred, [(0, false), (2, true), (4, true)]);
    }

    #[test]
    fn of_a_deferred_row_it_is_kept_whether_it_may_have_been_pushed() {
        let keys = [
            (7, false),
            (8, true),
            (9, false),
            (10, true),
            (11, false),
            (12, true),
        ];
        let outcomes = vec![
            (0, RowOutcome::NotYet),
            (1, RowOutcome::NotYet),
            (2, RowOutcome::Unknown),
            (3, RowOutcome::Accepted { is_new: false }),
            (4, RowOutcome::OutOfTime),
            (5, RowOutcome::OutOfTime),
        ];
        let settled = settling(&keys, outcomes);
        assert_eq!(
            (settled.never, settled.maybe),
            (vec![7, 11], vec![8, 9, 12])
        );
        assert_eq!(settled.gone, [10]);
    }

    #[test]
    fn of_a_refused_row_it_is_kept_whether_it_may_have_been_pushed() {
        let pushed_before = RowResult {
            is_repeated: true,
            ..refused()
        };
        let closed = close(vec![refused(), pushed_before], true);
        let keys = [(7, false), (8, true)];
        let outcomes = vec![
            (0, RowOutcome::Refused("no".to_owned())),
            (1, RowOutcome::Refused("no".to_owned())),
        ];
        let settled = settling(&keys, outcomes);
        let of_page: Vec<_> = closed.refused.iter().map(|it| it.is_repeated).collect();
        let of_deferred: Vec<_> = settled.refused.iter().map(|it| it.is_repeated).collect();
        assert_eq!(
            (of_page, of_deferred),
            (vec![false, true], vec![false, true])
        );
    }

    #[test]
    fn a_reason_has_a_limit() {
        let RowOutcome::Refused(reason) = RowOutcome::refused("é".repeat(9_999)) else {
            panic!("not refused");
        };
        assert!(reason.len() <= REASON_BYTES_MAX + 3 && reason.ends_with("é..."));
    }
}
