//! What a child does with events, as words that its parent reads back.

use std::fmt;
use std::str::FromStr;

use duly::records::Cause;
use duly::store::operation::{AttemptOutcome, FailureReason, StoreOp};
use duly::time::When;

use crate::kit::{LATER, bucket, event, id, payload};

/// One act; the events of one are all in one bucket, and it is done for all of them or for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Due now, or later.
    Push {
        later: bool,
        events: Vec<u64>,
    },
    /// The handlers of these start: a note, which need not survive a power cut.
    Start(Vec<u64>),
    Settle(Vec<(u64, End)>),
    Cancel(u64),
    Reschedule(u64),
    Update(u64, u32),
    Revive(Vec<u64>),
    Drop(Vec<u64>),
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Ack,
    RetryNow,
    RetryLater,
    Snooze,
    Bury,
    Discard,
}

impl End {
    pub(crate) const ALL: [Self; 6] = [
        Self::Ack,
        Self::RetryNow,
        Self::RetryLater,
        Self::Snooze,
        Self::Bury,
        Self::Discard,
    ];

    pub(crate) fn verdict(self) -> AttemptOutcome {
        let failing = FailureReason {
            cause: Cause::Failed,
            error: Some("as told".to_owned()),
        };
        match self {
            Self::Ack => AttemptOutcome::Ack,
            Self::RetryNow => AttemptOutcome::Retry(std::time::Duration::ZERO, failing),
            Self::RetryLater => AttemptOutcome::Retry(LATER, failing),
            Self::Snooze => AttemptOutcome::Snooze(LATER),
            Self::Bury => AttemptOutcome::Bury(failing),
            Self::Discard => AttemptOutcome::Discard(None),
        }
    }
}

impl Act {
    /// The events that it is about.
    pub(crate) fn events(&self) -> Vec<u64> {
        match self {
            Self::Push { events, .. } => events.clone(),
            Self::Start(events) | Self::Revive(events) | Self::Drop(events) => events.clone(),
            Self::Settle(ends) => ends.iter().map(|(n, _)| *n).collect(),
            Self::Cancel(n) | Self::Reschedule(n) | Self::Update(n, _) => vec![*n],
        }
    }

    /// The operation; a start and a settle need a lease and are not made here.
    pub(crate) fn op(&self) -> StoreOp {
        let ids = |events: &[u64]| events.iter().copied().map(id).collect();
        match self {
            Self::Push { later, events } => {
                let when = if *later {
                    When::After(LATER)
                } else {
                    When::Now
                };
                StoreOp::Push(events.iter().map(|n| event(*n, when)).collect())
            }
            Self::Cancel(n) => StoreOp::Cancel { id: id(*n) },
            Self::Reschedule(n) => StoreOp::Reschedule {
                id: id(*n),
                when: When::After(LATER * 2),
            },
            Self::Update(n, version) => StoreOp::Update {
                id: id(*n),
                payload: payload(*n, *version),
                by: None,
                dead_only: false,
            },
            Self::Revive(events) => StoreOp::Revive {
                ids: ids(events),
                by: None,
            },
            Self::Drop(events) => StoreOp::Drop {
                ids: ids(events),
                by: None,
            },
            Self::Start(_) | Self::Settle(_) => panic!("{self} needs a lease"),
        }
    }

    pub(crate) fn bucket(&self) -> duly::event::BucketKey {
        bucket(self.events()[0])
    }
}

/// For example `settle 7:0 9:3`.
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Push { later: false, .. } => "push",
            Self::Push { later: true, .. } => "push-later",
            Self::Start(_) => "start",
            Self::Settle(ends) => {
                f.write_str("settle")?;
                return ends
                    .iter()
                    .try_for_each(|(n, end)| write!(f, " {n}:{}", *end as usize));
            }
            Self::Cancel(_) => "cancel",
            Self::Reschedule(_) => "reschedule",
            Self::Update(n, version) => return write!(f, "update {n}:{version}"),
            Self::Revive(_) => "revive",
            Self::Drop(_) => "drop",
        };
        f.write_str(word)?;
        self.events().iter().try_for_each(|n| write!(f, " {n}"))
    }
}

impl FromStr for Act {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let pairs = || {
            let pairs = rest.split(' ').filter_map(|pair| pair.split_once(':'));
            pairs.map(|(n, with)| Ok((n.parse()?, with.parse()?)))
        };
        let numbers = || {
            rest.split(' ')
                .map(str::parse)
                .collect::<Result<Vec<u64>, _>>()
        };
        let one = || rest.parse();
        Ok(match word {
            "push" | "push-later" => Self::Push {
                later: word == "push-later",
                events: numbers()?,
            },
            "start" => Self::Start(numbers()?),
            "settle" => {
                let ends = pairs().map(|pair| pair.map(|(n, end): (_, usize)| (n, End::ALL[end])));
                Self::Settle(ends.collect::<Result<_, Self::Err>>()?)
            }
            "cancel" => Self::Cancel(one()?),
            "reschedule" => Self::Reschedule(one()?),
            "update" => {
                let pairs: Vec<(u64, usize)> = pairs().collect::<Result<_, Self::Err>>()?;
                Self::Update(pairs[0].0, pairs[0].1 as u32)
            }
            "revive" => Self::Revive(numbers()?),
            "drop" => Self::Drop(numbers()?),
            other => panic!("a child said {other:?}"),
        })
    }
}
