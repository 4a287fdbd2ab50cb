//! Values as people and programs write them: durations, backoffs, words, JSON.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use duly::__internal::duration;
use duly::admin::{AuditCursor, EventListCursor};
use duly::dead_letters::DeadLetterCursor;
use duly::records::{Cause, NodeId, Outcome, Record};
use duly::store::Durability;
use duly::time::Timestamp;
use duly::{Error, ErrorKind, EventId, QueueName, RetryPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{bounded, in_words, prints_and_reads_back};

/// A duration as people write it.
pub(crate) fn duration(data: &[u8]) {
    if let Some((nanos, rest)) = data.split_first_chunk::<4>() {
        let nanos = u32::from_le_bytes(*nanos) % 1_000_000_000;
        let secs = rest
            .first_chunk()
            .map_or(0, |secs| u64::from_le_bytes(*secs));
        writes_and_reads_back(Duration::new(secs, nanos));
    }
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 16, || duration::parse(&text)) {
        Ok(duration) => writes_and_reads_back(duration),
        Err(error) => assert!(error.to_string().contains(&*text), "{error}"),
    }
}

fn writes_and_reads_back(duration: Duration) {
    let text = duration::format(duration);
    assert_eq!(duration::parse(&text), Ok(duration), "{text}");
}

/// A backoff as people write it.
pub(crate) fn backoff(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match bounded(data.len(), 16, || text.parse::<RetryPolicy>()) {
        Ok(policy) => {
            prints_and_reads_back(&policy);
            let mut last = Duration::ZERO;
            for attempt in [0, 1, 2, 3, 17, 63, 64, 65, 128, 1_000, u16::MAX] {
                let delay = policy.delay_after(attempt, 0.0);
                let grows = !text.starts_with("steps"); // a list may go up and down
                assert!(
                    delay >= last || !grows,
                    "attempt {attempt} waits for {delay:?}"
                );
                for random in [0.5, 1.0, -1.0, f64::NAN, f64::INFINITY] {
                    assert!(policy.delay_after(attempt, random) <= delay);
                }
                last = delay;
            }
        }
        Err(error) => assert!(error.to_string().contains('`'), "{error}"),
    }
}

/// The words for durabilities, outcomes and causes, and places between dead letters and in lists of events.
pub(crate) fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    word::<Durability>(&text);
    word::<Outcome>(&text);
    word::<Cause>(&text);
    word::<DeadLetterCursor>(&text);
    word::<EventListCursor>(&text);
    word::<AuditCursor>(&text);
}

fn word<T: Display + FromStr<Err = Error> + PartialEq + Debug>(text: &str) {
    match bounded(text.len(), 16, || text.parse::<T>()) {
        Ok(word) => prints_and_reads_back(&word),
        Err(error) => in_words(&error, &[ErrorKind::Invalid]),
    }
}

/// Our values in somebody's JSON.
pub(crate) fn json(data: &[u8]) {
    value::<EventId>(data);
    value::<QueueName>(data);
    value::<RetryPolicy>(data);
    value::<Timestamp>(data);
    value::<NodeId>(data);
    value::<Outcome>(data);
    value::<Record>(data);
}

fn value<T: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) {
    if let Ok(value) = bounded(data.len(), 16, || serde_json::from_slice::<T>(data)) {
        let again = serde_json::to_vec(&value).expect("it can be written");
        let again: T = serde_json::from_slice(&again).expect("it was just written");
        assert_eq!(again, value);
    }
}
