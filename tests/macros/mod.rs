//! Tests of the annotation: its expansion, its errors, and its parsers.

pub(crate) mod built;
mod hygiene;
mod texts;
mod ui;

use std::{
    collections::BTreeSet,
    num::TryFromIntError,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use duly::__private::{Registration, inventory};
use duly::{
    Annotated, Annotation, Context, Event, Failure, Handler, LatePolicy, RetryPolicy, State,
    States, delay_event,
};

// What an annotation puts into the program.

#[derive(Debug)]
struct Db;
#[derive(Debug)]
struct Mailer;

/// Says everything that can be said.
#[delay_event(
    queue = "all",
    buckets = 8,
    workers = 16,
    timeout = "1m30s",
    attempts = 12,
    backoff = "exp(1s..10m, jitter 20%)",
    late = "expire(5m)",
    spread = "10s",
    ring = 2048,
    linger = "20us",
    dedicated = true,
    version = 3,
    keep_payload = true,
    state(Db, Mailer)
)]
#[derive(Debug)]
struct All;

impl Handler for All {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

/// Counts orders; the arguments stand in an odd order on purpose.
#[delay_event(queue = "function", state(Mailer))]
async fn count(
    Event { payload, .. }: Event<u64>,
    State(total): State<Total>,
    cx: &Context,
    db: State<Db>,
) -> Result<(), TryFromIntError> {
    let (_same, _db) = (cx.state::<Total>(), db.0);
    let order = u32::try_from(payload)?;
    total.0.fetch_add(order, Ordering::Relaxed);
    Ok(())
}

#[derive(Debug, Default)]
struct Total(AtomicU32);

/// Named by the annotation.
fn minutes(attempt: u16) -> Duration {
    Duration::from_mins(attempt.into())
}

#[delay_event(queue = "aside", backoff = minutes, register = false)]
async fn aside(_event: Event<String>) -> Result<(), Failure> {
    Ok(())
}

#[delay_event(queue = "blocking", blocking)]
fn block(_event: Event<String>) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn the_annotation_has_the_values_that_were_written() {
    let Annotation {
        queue,
        buckets,
        workers,
        attempts,
        ring,
        version,
        ..
    } = All::ANNOTATION;
    assert_eq!(queue, "all");
    assert_eq!((buckets, workers, attempts), (Some(8), Some(16), Some(12)));
    assert_eq!((ring, version), (Some(2048), Some(3)));

    let said = All::ANNOTATION;
    assert_eq!(said.timeout, Some(Duration::from_secs(90)));
    assert_eq!(said.linger, Some(Duration::from_micros(20)));
    let backoff = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_mins(10));
    assert_eq!(said.backoff, Some(backoff.jitter(20)));
    assert_eq!(said.late, Some(LatePolicy::Expire(Duration::from_mins(5))));
    assert_eq!(said.spread, Some(Duration::from_secs(10)));
    assert_eq!(said.keep_payload, Some(true));
    assert!(said.dedicated == Some(true) && !said.blocking);
    assert_eq!(states(&said), ["Db", "Mailer"]);
    let computed = RetryPolicy::function(minutes);
    assert_eq!(aside::ANNOTATION.backoff, Some(computed));
}

#[test]
fn what_is_not_said_is_left_open() {
    let said = block::ANNOTATION;
    assert_eq!(said.queue, "blocking");
    assert_eq!(
        (said.buckets, said.workers, said.attempts),
        (None, None, None)
    );
    assert_eq!((said.timeout, said.backoff, said.ring), (None, None, None));
    assert_eq!((said.linger, said.version), (None, None));
    assert_eq!(
        (said.late, said.spread, said.keep_payload),
        (None, None, None)
    );
    assert!(said.blocking && said.dedicated.is_none() && said.states.is_empty());
}

#[test]
fn the_arguments_of_a_function_are_states_it_needs() {
    assert_eq!(states(&count::ANNOTATION), ["Mailer", "Total", "Db"]);
}

#[test]
fn every_annotated_handler_is_found_unless_it_said_otherwise() {
    let found: BTreeSet<_> = inventory::iter::<Registration>()
        .map(|found| found.annotation().queue)
        .collect();
    let expected = ["all", "blocking", "function"];
    let named = ["shadowed", "event", "cx", "returned", "handle", "statics"];
    let of_config = ["mail.out"]; // its tests are in this program, too
    let expected = expected.into_iter().chain(named).chain(of_config);
    assert_eq!(found, expected.collect());
}

#[tokio::test]
async fn a_function_is_called_with_what_it_asked_for() {
    let mut states = States::default();
    states.insert(Total::default());
    states.insert(Db);
    let cx = Context::detached("function", states);

    assert!(count {}.handle(Event::published(7), &cx).await.is_ok());
    assert!(
        count {}
            .handle_delayed(Event::published(8), &cx)
            .await
            .is_ok()
    );
    assert_eq!(cx.state::<Total>().0.load(Ordering::Relaxed), 15);
    assert!(
        count {}
            .handle(Event::published(u64::MAX), &cx)
            .await
            .is_err(),
        "its error becomes a failure"
    );
}

fn states(annotation: &Annotation) -> Vec<&'static str> {
    let last = |name: &'static str| name.rsplit("::").next().expect("a name has a last part");
    annotation
        .states
        .iter()
        .map(|need| last((need.name)()))
        .collect()
}
