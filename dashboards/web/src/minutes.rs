//! The minutes before now of all queues, or why they are not known.

use std::sync::Arc;

use duly::Bus;
use duly::records::MinuteStats;

use crate::questions::{minute_of, read_minutes};

/// How far back they go.
pub(crate) const MINUTES: u64 = 30;
/// With more queues none are read, and of fewer all; the newest, if there were more lately.
const QUEUES_MAX: usize = 500;
const MINUTES_MAX: usize = QUEUES_MAX * (MINUTES as usize + 1);

/// What is known of them.
#[derive(Clone, Debug, Default)]
pub(crate) enum Minutes {
    /// They were not read yet.
    #[default]
    Unread,
    /// There are too many queues.
    TooMany,
    /// They could not be read, for this reason.
    Failed(String),
    /// The oldest is the first.
    Known(Arc<Vec<MinuteStats>>),
}

impl Minutes {
    /// Reads them from the records of a bus with so many queues.
    pub(crate) async fn read(bus: &Bus, queues: usize) -> Self {
        if queues > QUEUES_MAX {
            return Self::TooMany;
        }
        let end = minute_of(bus.store_time()) + 1;
        let span = (end.saturating_sub(MINUTES + 1), end);
        let mut minutes = Vec::new();
        let take = |more| minutes.extend::<Vec<MinuteStats>>(more);
        match read_minutes(&bus.records(), span, MINUTES_MAX, take).await {
            Ok(_) => {
                minutes.sort_by_key(|it| it.start);
                Self::Known(Arc::new(minutes))
            }
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// Returns those that are known, the oldest first.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, MinuteStats> {
        match self {
            Self::Known(minutes) => minutes.iter(),
            Self::Unread | Self::TooMany | Self::Failed(_) => [].iter(),
        }
    }

    /// Says why there is nothing to show, if that is so.
    pub(crate) fn why_unknown(&self) -> Option<String> {
        match self {
            Self::Known(_) => None,
            Self::Unread => Some("Lateness and attempts are still being read.".to_owned()),
            Self::TooMany => Some(format!(
                "With more than {QUEUES_MAX} queues, lateness and attempts are on the page of each \
                 queue only."
            )),
            Self::Failed(error) => Some(unreadable(error)),
        }
    }
}

/// Says that there is nothing to show because records could not be read.
pub(crate) fn unreadable(error: impl std::fmt::Display) -> String {
    format!("The records cannot be read, so lateness and attempts are not known: {error}.")
}
