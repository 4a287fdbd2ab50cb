//! Random records and random queries, beside the plainest way of answering them.

use std::sync::Arc;

use duly::event::Payload;
use duly::journal::Journal;
use duly::records::{Cause, Cursor, NodeId, Numbered, Order, Outcome, Query, Record, Stages};
use duly::time::Timestamp;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::journal::harness::JournalHarness;
use crate::journal::sample::{
    START_US, all, batch_of, counted, everything, id, minutes, queue, trace,
};

const PAYLOADS: [&[u8]; 3] = [b"{}", b"\xFF\0", b""];
const QUEUES: [&str; 3] = ["orders", "sms", "Sms"];
const KEYS: [&str; 4] = ["", "a", "A", "ä'%_"];
const ERRORS: [&str; 5] = ["", "timed out", "Timed OUT", "100% of_it", "it's ünlike"];
const TEXTS: [&str; 8] = ["", "t", "T", "timed", "%", "_", "'", "nl"];

fn of_texts(texts: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    option::of(select(texts).prop_map(str::to_owned))
}

/// Few values of each field, so that they meet.
fn record() -> impl Strategy<Value = Numbered> {
    let told = (
        of_texts(&KEYS),
        of_texts(&ERRORS),
        option::of((1..3_u8).prop_map(trace)),
        option::of(select(&PAYLOADS).prop_map(Payload::from)),
        of_texts(&["ops", "me"]),
    );
    let happened = (
        select(&Outcome::ALL),
        option::of(select(&Cause::ALL)),
        (0..3_u64, 0..3_u16),
        (0..40_u64, option::of(0..90_000_000_u64)),
    );
    (1..12_u64, 0..8_u64, select(&QUEUES), told, happened).prop_map(
        |(number, event, name, told, happened)| {
            let (key, error, trace, payload, by) = told;
            let (outcome, cause, (node, attempt), (halves, late_us)) = happened;
            let finished_us = START_US + halves * 500;
            let due = Timestamp::from_millis(finished_us / 1_000 - 100_000);
            let record = Record {
                id: id(event),
                queue: queue(name),
                key,
                attempt,
                outcome,
                cause,
                due,
                stages: Stages {
                    started_us: late_us.map_or(0, |late_us| due.as_micros() + late_us),
                    finished_us,
                    ..Stages::default()
                },
                node: NodeId(node),
                error,
                trace,
                payload,
                by,
            };
            (number, record)
        },
    )
}

fn query() -> impl Strategy<Value = Query> {
    // Most filters are absent, or hardly any query would find anything.
    fn rarely<T: Clone + std::fmt::Debug + 'static>(
        value: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = Option<T>> {
        option::weighted(0.2, value)
    }
    let ms = START_US / 1_000;
    let time = move || (ms..ms + 22).prop_map(Timestamp::from_millis);
    let told = (
        rarely(select(&KEYS).prop_map(str::to_owned)),
        rarely((0..3_u64).prop_map(NodeId)),
        rarely((1..4_u8).prop_map(trace)),
        rarely(select(&TEXTS).prop_map(str::to_owned)),
    );
    let happened = (
        prop_oneof![
            3 => Just(Vec::new()),
            2 => proptest::collection::vec(select(&Outcome::ALL), 1..5),
        ],
        rarely(select(&Cause::ALL)),
        rarely(time()),
        rarely(time()),
    );
    let place = (0..42_u64, 0..13_u64, 0..9_u64).prop_map(|(halves, number, event)| Cursor {
        finished_us: START_US + halves * 500,
        number,
        id: id(event),
    });
    let paging = (
        select(&[Order::Oldest, Order::Newest]),
        rarely(place),
        option::of(1..9_u32),
    );
    (
        rarely((0..9_u64).prop_map(id)),
        option::weighted(
            0.3,
            select(&["orders", "sms", "Sms", "nobody"]).prop_map(queue),
        ),
        told,
        happened,
        paging,
    )
        .prop_map(|(id, queue, told, happened, paging)| Query {
            id,
            queue,
            outcomes: happened.0,
            cause: happened.1,
            since: happened.2,
            until: happened.3,
            key: told.0,
            node: told.1,
            trace: told.2,
            error: told.3,
            order: paging.0,
            after: paging.1,
            limit: paging.2,
        })
}

/// Every record once, the first that was loaded of those that cannot be told apart, in order.
fn kept(loads: &[Vec<Numbered>]) -> Vec<Numbered> {
    let mut kept: Vec<Numbered> = Vec::new();
    for numbered in loads.iter().flatten() {
        if kept.iter().all(|it| Cursor::of(it) != Cursor::of(numbered)) {
            kept.push(numbered.clone());
        }
    }
    kept.sort_by_key(Cursor::of);
    kept
}

fn answer(kept: &[Numbered], query: &Query) -> Vec<Numbered> {
    let is_asked_for = |it: &&Numbered| query.matches(&it.1) && query.is_after(Cursor::of(it));
    let mut found: Vec<_> = kept.iter().filter(is_asked_for).cloned().collect();
    if query.order == Order::Newest {
        found.reverse();
    }
    found
}

async fn compare(journal: &Arc<dyn Journal>, loads: &[Vec<Numbered>], queries: &[Query]) {
    for (records, at) in loads.iter().zip(0..) {
        let batch = batch_of(["one", "two"][at % 2], records);
        journal.load(vec![batch]).await.expect("a load");
    }
    let kept = kept(loads);
    assert_eq!(everything(journal).await, kept);
    assert_eq!(minutes(journal).await, counted(&kept));
    for query in queries {
        let found = all(journal, query.clone()).await;
        assert_eq!(found, answer(&kept, query), "{query:#?}");
    }
}

#[allow(clippy::print_stdout)] // it tells which seed to run again
pub(crate) async fn any_query_answers_as_the_plain_oracle_does(harness: &dyn JournalHarness) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let cases = number("DULY_JOURNAL_CASES").unwrap_or(16);
    let seed: u64 = number("DULY_JOURNAL_SEED").unwrap_or_else(|| fastrand::u64(..));
    let again = format!("DULY_JOURNAL_SEED={seed} DULY_JOURNAL_CASES={cases}");
    println!("{again}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let case = (
        proptest::collection::vec(proptest::collection::vec(record(), 0..40), 1..4),
        proptest::collection::vec((query(), any::<Index>()), 30),
    );
    for at in 0..cases {
        let tree = case.new_tree(&mut runner).expect("a case");
        let (loads, queries) = tree.current();
        let there = loads.concat();
        // Half of the events, keys and traces are taken from a record, so that much is found.
        let queries = queries.into_iter().map(|(mut query, index)| {
            if let Some((_, record)) = (!there.is_empty()).then(|| index.get(&there)) {
                let taken = index.index(6);
                query.id = query.id.map(|id| if taken < 3 { record.id } else { id });
                query.trace = query.trace.and(record.trace).or(query.trace);
            }
            query
        });
        let queries: Vec<_> = queries.collect();
        let subject = harness.fresh().await;
        let journal = subject.journal();
        let compared = tokio::spawn(async move { compare(&journal, &loads, &queries).await });
        if let Err(error) = compared.await {
            panic!("case {at} of {cases}: {error}\nplay it again with {again}");
        }
    }
}
