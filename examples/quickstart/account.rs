//! The account: the records of each event that has a receipt.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use duly::Receipt;
use duly::prelude::*;
use duly::records::{Cause, Record};

/// One event as its pusher knows it.
pub(crate) struct Sale {
    pub(crate) receipt: Receipt,
    pub(crate) cents: u64,
    /// What the store said when the order was paid and the event was to be taken back.
    pub(crate) told: Option<CancelOutcome>,
}

/// How an order's story ended, in the order of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Closed,
    ClosedAfterFailure,
    ClosedAfterTimeout,
    PaidInTime,
    PaidTooLate,
    Dead,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Closed => "not paid: closed",
            Self::ClosedAfterFailure => "not paid: closed, after a failed attempt",
            Self::ClosedAfterTimeout => "not paid: closed, after one that timed out",
            Self::PaidInTime => "paid in time: cancelled",
            Self::PaidTooLate => "paid too late: was being closed",
            Self::Dead => "cannot be closed: dead letter",
        })
    }
}

/// Every event, its end and its attempts; and what does not add up.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) receipts: usize,
    pub(crate) records: usize,
    /// Per ending: the money, and the lateness of the attempts.
    pub(crate) endings: BTreeMap<Ending, (Vec<u64>, Vec<Duration>)>,
    /// The records of attempts that started.
    pub(crate) attempts: Vec<Record>,
    wrong: Vec<String>,
}

/// Reads every record, page by page.
pub(crate) async fn read(bus: &Bus) -> duly::Result<Vec<Record>> {
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let mut question = bus.records().queue("order-close").limit(1_000);
        if let Some(cursor) = after {
            question = question.after(cursor);
        }
        let page = question.page().await?;
        records.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(records);
        }
    }
}

impl Account {
    /// Lays the records beside the receipts.
    pub(crate) fn of(sales: &[Sale], records: Vec<Record>) -> Self {
        let mut account = Self {
            receipts: sales.len(),
            records: records.len(),
            ..Self::default()
        };
        let mut stories: BTreeMap<EventId, Vec<Record>> = BTreeMap::new();
        for record in records {
            stories.entry(record.id).or_default().push(record);
        }
        for sale in sales {
            let id = sale.receipt.id();
            let story = stories.remove(&id).unwrap_or_default();
            match ending(sale, &story) {
                Ok(ending) => account.enter(ending, sale, story),
                Err(why) => account.wrong.push(format!("event {id} {why}")),
            }
        }
        for id in stories.keys() {
            account
                .wrong
                .push(format!("event {id} has a record and no receipt"));
        }
        account
    }

    fn enter(&mut self, ending: Ending, sale: &Sale, story: Vec<Record>) {
        let (cents, late) = self.endings.entry(ending).or_default();
        cents.push(sale.cents);
        late.extend(story.iter().filter_map(Record::lateness));
        self.attempts.extend(
            story
                .into_iter()
                .filter(|record| record.stages.started_us > 0),
        );
    }

    /// Whether everything adds up.
    ///
    /// # Errors
    ///
    /// What does not, event by event.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        match self.wrong.as_slice() {
            [] => Ok(()),
            wrong => Err(wrong.join("\n")),
        }
    }
}

/// How a story ended, or what is wrong with it.
fn ending(sale: &Sale, story: &[Record]) -> Result<Ending, String> {
    let early = |record: &&Record| {
        record.stages.started_us > 0 && record.stages.started_us < record.due.as_micros()
    };
    if let Some(record) = story.iter().find(early) {
        return Err(format!("was early, in attempt {}", record.attempt));
    }
    let Some((last, before)) = story.split_last() else {
        return Err("has no record".to_owned());
    };
    if before
        .iter()
        .any(|record| record.outcome != Outcome::Retried)
    {
        return Err("ended more than once".to_owned());
    }
    let causes = |cause| before.iter().any(|record| record.cause == Some(cause));
    match (last.outcome, sale.told) {
        (
            Outcome::Cancelled,
            Some(CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt),
        ) => Ok(Ending::PaidInTime),
        (Outcome::Acked, Some(CancelOutcome::TooLate(_) | CancelOutcome::NotFound)) => {
            Ok(Ending::PaidTooLate)
        }
        (Outcome::Acked, None) if causes(Cause::TimedOut) => Ok(Ending::ClosedAfterTimeout),
        (Outcome::Acked, None) if causes(Cause::Failed) => Ok(Ending::ClosedAfterFailure),
        (Outcome::Acked, None) => Ok(Ending::Closed),
        (Outcome::Buried, None | Some(CancelOutcome::TooLate(_))) => Ok(Ending::Dead),
        (outcome, told) => Err(format!("ended as {outcome}, its pusher was told {told:?}")),
    }
}
