//! What becomes of the rows of a page: a pure function of the results of their pushes.

use duly::__outbox::StagedPush;
use duly::ErrorKind;

use crate::relay::source::Closing;

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

    fn is_settled(&self) -> bool {
        !matches!(self, Self::Unknown | Self::NotYet)
    }
}

/// Returns how a page is closed whose rows have these fates: up to the first that is not settled.
pub(crate) fn closing(fates: Vec<Fate>) -> Closing {
    let passed = fates.iter().take_while(|fate| fate.is_settled()).count();
    let mut closing = Closing {
        passed,
        ..Closing::default()
    };
    for (place, fate) in fates.into_iter().enumerate() {
        match fate {
            Fate::Accepted { .. } | Fate::Unknown if place >= passed => closing.is_repeated = true,
            Fate::Refused(reason) if place < passed => closing.refused.push((place, reason)),
            Fate::Instead(event) if place < passed => closing.instead.push((place, event)),
            _ => {}
        }
    }
    closing
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Fate = Fate::Accepted { is_new: true };

    fn refused() -> Fate {
        Fate::Refused("no".to_owned())
    }

    #[test]
    fn a_page_is_passed_up_to_the_first_row_that_is_not_settled() {
        let closed = closing(vec![NEW, refused(), Fate::Instead(vec![1]), NEW]);
        assert_eq!((closed.passed, closed.is_repeated), (4, false));
        assert_eq!(closed.refused, [(1, "no".to_owned())]);
        assert_eq!(closed.instead, [(2, vec![1])]);

        let closed = closing(vec![NEW, Fate::NotYet, refused(), Fate::Instead(vec![1])]);
        assert_eq!((closed.passed, closed.is_repeated), (1, false));
        assert!(closed.refused.is_empty() && closed.instead.is_empty());
    }

    #[test]
    fn what_may_have_been_accepted_is_told_from_what_was_not() {
        assert!(!closing(vec![Fate::NotYet, Fate::NotYet]).is_repeated);
        assert!(closing(vec![Fate::NotYet, NEW]).is_repeated);
        assert!(closing(vec![NEW, Fate::Unknown]).is_repeated);
        assert_eq!(closing(Vec::new()).passed, 0);
    }
}
