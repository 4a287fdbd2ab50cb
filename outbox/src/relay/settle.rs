//! The fate of the rows of a page: a pure function of the results of their pushes.

use duly::__outbox::StagedPush;
use duly::ErrorKind;

use crate::relay::source::{Closing, Deferred, Settling};

/// What became of one row.
#[derive(Debug)]
pub(crate) enum Fate {
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
}

impl Fate {
    /// Returns the fate of a row whose push has this result; `None` where it depends on what is known
    /// of the event.
    pub(crate) fn of(pushed: &StagedPush) -> Option<Self> {
        match pushed {
            StagedPush::Accepted { is_new } => Some(Self::Accepted { is_new: *is_new }),
            StagedPush::Refused(error) => Some(Self::Refused(error.to_string())),
            StagedPush::Failed(error) => Some(match error.kind() {
                ErrorKind::Unavailable | ErrorKind::Full | ErrorKind::Closed => Self::NotYet,
                _ => Self::Unknown,
            }),
            StagedPush::OutOfTime => None,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self, Self::Unknown | Self::NotYet)
    }
}

/// A row of a page, and what became of it.
#[derive(Debug)]
pub(crate) struct RowFate {
    pub(crate) fate: Fate,
    /// The group of an event.
    pub(crate) group: Option<String>,
    /// Whether it may have been pushed before it was taken.
    pub(crate) is_repeated: bool,
}

/// Returns how a page is closed whose rows have these fates: those that are not settled are deferred;
/// if they may not be, it is passed up to the first of them.
pub(crate) fn closing(rows: Vec<RowFate>, may_defer: bool) -> Closing {
    let is_passed = |row: &RowFate| row.fate.is_settled() || may_defer && row.group.is_some();
    let passed = rows.iter().take_while(|row| is_passed(row)).count();
    let mut closing = Closing {
        passed,
        ..Closing::default()
    };
    for (place, row) in rows.into_iter().enumerate() {
        let is_unknown = matches!(row.fate, Fate::Unknown);
        match (row.fate, row.group) {
            (Fate::Accepted { .. } | Fate::Unknown, _) if place >= passed => {
                closing.is_repeated = true;
            }
            _ if place >= passed => {}
            (Fate::Unknown | Fate::NotYet, Some(group)) => closing.deferred.push(Deferred {
                place,
                group,
                is_repeated: is_unknown || row.is_repeated,
            }),
            (Fate::Refused(reason), _) => closing.refused.push((place, reason)),
            (Fate::Instead(event), _) => closing.instead.push((place, event)),
            _ => {}
        }
    }
    closing
}

/// Returns how deferred rows are settled: their keys, each with whether it may have been pushed before.
pub(crate) fn settling(keys: &[(i64, bool)], fates: Vec<(usize, Fate)>) -> Settling {
    let mut settling = Settling::default();
    for (place, fate) in fates {
        let Some((key, is_repeated)) = keys.get(place).copied() else {
            continue;
        };
        match fate {
            Fate::Accepted { .. } => settling.gone.push(key),
            Fate::Refused(reason) => settling.refused.push((key, reason)),
            Fate::Instead(event) => settling.instead.push((key, event)),
            Fate::NotYet if !is_repeated => settling.never.push(key),
            Fate::Unknown | Fate::NotYet => settling.maybe.push(key),
        }
    }
    settling
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fate: Fate) -> RowFate {
        RowFate {
            fate,
            group: Some("orders/1".to_owned()),
            is_repeated: false,
        }
    }

    fn new() -> RowFate {
        row(Fate::Accepted { is_new: true })
    }

    fn refused() -> RowFate {
        row(Fate::Refused("no".to_owned()))
    }

    fn instead() -> RowFate {
        row(Fate::Instead(vec![1]))
    }

    #[test]
    fn a_page_is_passed_up_to_the_first_row_that_is_not_settled() {
        let closed = closing(vec![new(), refused(), instead(), new()], false);
        assert_eq!((closed.passed, closed.is_repeated), (4, false));
        assert_eq!(closed.refused, [(1, "no".to_owned())]);
        assert_eq!(closed.instead, [(2, vec![1])]);

        let rows = vec![new(), row(Fate::NotYet), refused(), instead()];
        let closed = closing(rows, false);
        assert_eq!((closed.passed, closed.is_repeated), (1, false));
        assert!(closed.refused.is_empty() && closed.instead.is_empty());
    }

    #[test]
    fn what_may_have_been_accepted_is_told_from_what_was_not() {
        let not_yet = || row(Fate::NotYet);
        assert!(!closing(vec![not_yet(), not_yet()], false).is_repeated);
        assert!(closing(vec![not_yet(), new()], false).is_repeated);
        assert!(closing(vec![new(), row(Fate::Unknown)], false).is_repeated);
        assert_eq!(closing(Vec::new(), false).passed, 0);
    }

    #[test]
    fn what_is_deferred_lets_the_others_pass() {
        let pushed_before = RowFate {
            is_repeated: true,
            ..row(Fate::NotYet)
        };
        let rows = vec![
            row(Fate::NotYet),
            new(),
            row(Fate::Unknown),
            refused(),
            pushed_before,
        ];
        let closed = closing(rows, true);
        assert_eq!((closed.passed, closed.is_repeated), (5, false));
        assert_eq!(closed.refused.len(), 1);
        let deferred = closed.deferred.iter();
        let deferred: Vec<_> = deferred.map(|it| (it.place, it.is_repeated)).collect();
        assert_eq!(deferred, [(0, false), (2, true), (4, true)]);
    }

    #[test]
    fn of_a_deferred_row_it_is_kept_whether_it_may_have_been_pushed() {
        let keys = [(7, false), (8, true), (9, false), (10, true)];
        let fates = vec![
            (0, Fate::NotYet),
            (1, Fate::NotYet),
            (2, Fate::Unknown),
            (3, Fate::Accepted { is_new: false }),
        ];
        let settled = settling(&keys, fates);
        assert_eq!((settled.never, settled.maybe), (vec![7], vec![8, 9]));
        assert_eq!(settled.gone, [10]);
    }
}
