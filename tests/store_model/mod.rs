//! Random operations on a store and on a naive model side by side: all replies and records must be
//! equal.
//!
//! `DULY_MODEL_CASES` sets the number of sequences (default 24). A failure prints its seed;
//! `DULY_MODEL_SEED` replays it. `DULY_MODEL_STEPS` sets the greatest length of a sequence (80),
//! `DULY_MODEL_BATCH` the greatest batch (200), `DULY_MODEL_WINDOW` how many tombstones are kept (12).

mod machine;
mod model;
mod step;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use duly::event::BucketKey;
use duly::journal::Keep;
use duly::records::{Cause, NodeId, Outcome, Query, Record};
use duly::store::EmbeddedOptions;
use duly::store::operation::{
    FetchReport, PeekBy, PeekCursor, PeekPage, Reply, SetAside, Snapshot, StoreOp,
};
use duly::testing::ManualClock;
use duly::time::{Clock, Timestamp};
use duly_conformance::store_contract::{HarnessFuture, MemoryHarness, StoreHarness, Subject};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

use crate::store_contract::embedded::EmbeddedHarness;
use crate::store_contract::redis::RedisHarness;
use crate::store_model::machine::{Durable, InProcess, Machine, QUEUE};
use crate::store_model::model::{BUCKET, WINDOW};
use crate::store_model::step::Step;
use duly::store::DedupWindow;

/// How many records a store that removes them by itself keeps.
const KEPT: u64 = 3;

/// A store under test, on a runtime and a clock of its own.
struct Side<H, R> {
    runtime: tokio::runtime::Runtime,
    subject: Arc<dyn Subject>,
    clock: Arc<ManualClock>,
    bucket: BucketKey,
    /// How the store numbers the heartbeats that the model numbers in its own way.
    beats: BTreeMap<(NodeId, u64), u64>,
    /// What the store has not told yet of what has expired: its next move or fetch does.
    untold: SetAside,
    harness: PhantomData<(H, R)>,
}

impl<H, R> Side<H, R> {
    fn look(&self) {
        let look = self.subject.store().apply(&self.bucket, StoreOp::Stats);
        self.runtime.block_on(look).expect("a count");
    }

    /// A fetch to which an event `is_left` that has expired may not come to it: then it still counts it,
    /// and the next move or fetch tells of it.
    fn tell(&mut self, got: &mut Reply, expected: &Reply, is_left: bool) {
        let (got, expected) = match (got, expected) {
            (Reply::Moved(got), Reply::Moved(expected)) => (&mut got.aside, expected.aside),
            (Reply::Fetched(got), Reply::Fetched(expected)) => {
                if is_left {
                    let FetchReport {
                        ready,
                        next_due,
                        crowd_due,
                        ..
                    } = *expected;
                    (got.ready, got.next_due, got.crowd_due) = (ready, next_due, crowd_due);
                }
                (&mut got.aside, expected.aside)
            }
            _ => return,
        };
        self.untold.expired = self.untold.expired + expected.expired - got.expired;
        self.untold.late = self.untold.late + expected.late - got.late;
        assert!(is_left || self.untold == SetAside::default());
        *got = expected;
    }

    /// The other pages of a pass, all of it in the order of the ids; pages have their own.
    fn go_on(
        &self,
        by: &PeekBy,
        events: &mut Vec<Snapshot>,
        next: &mut Option<PeekCursor>,
        limit: usize,
    ) {
        while let Some(from) = next.take() {
            let peek = StoreOp::peek(by.clone(), Some(from), limit);
            let store = self.subject.store();
            let page = peek.apply(&*store, &self.bucket);
            let page = self.runtime.block_on(page).expect("a page");
            events.extend(page.events);
            *next = page.next;
        }
        events.sort_by_key(|event| event.id);
        events.dedup();
    }
}

impl<H, R> StateMachineTest for Side<H, R>
where
    H: StoreHarness + Default,
    R: ReferenceStateMachine<State = Machine, Transition = Step>,
{
    type SystemUnderTest = Self;
    type Reference = R;

    fn init_test(machine: &Machine) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros_up(machine.wall_us)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime of one thread");
        let subject = H::default().fresh(Arc::clone(&clock), *WINDOW);
        let subject = runtime.block_on(subject);
        Self {
            runtime,
            subject,
            clock,
            bucket: BucketKey::new(QUEUE.parse().expect("a legal name"), BUCKET),
            beats: BTreeMap::new(),
            untold: SetAside::default(),
            harness: PhantomData,
        }
    }

    fn apply(mut side: Self, machine: &Machine, step: Step) -> Self {
        if let Step::Advance { us } = step {
            side.clock.advance(Duration::from_micros(us));
        } else if side.clock.wall_us() != machine.wall_us {
            side.clock.set_wall_us(machine.wall_us);
        }
        assert_eq!(side.clock.wall_us(), machine.wall_us);
        if matches!(step, Step::Reopen) {
            let reopened = side.subject.reopen().expect("only played where it can be");
            side.subject = side.runtime.block_on(reopened);
            side.beats.clear();
        }
        let Some(mut op) = machine.op.clone() else {
            return side;
        };
        if let StoreOp::Reap { silent, .. } = &mut op {
            for (node, beat) in silent {
                *beat = side.beats.get(&(*node, *beat)).copied().unwrap_or(*beat);
            }
        }
        // A server ends what has expired before anybody is shown it, and not before a lease.
        let is_server = !H::default().is_steady();
        let is_left = is_server && machine.leaves_one_to_fetch();
        if is_server && !is_left {
            side.look();
        }
        if machine.is_swept {
            // A store looks at its buckets when it likes: here before anything would depend on it.
            let look = StoreOp::Reap {
                silent: Vec::new(),
                limit: 0,
            };
            let look = side.subject.store().apply(&side.bucket, look);
            side.runtime.block_on(look).expect("a look");
        }
        let answer = side
            .runtime
            .block_on(side.subject.store().apply(&side.bucket, op.clone()));
        if is_left {
            side.look();
        }
        let (mut got, mut expected) = match (answer, &machine.answer) {
            (Ok(answer), Ok(reply)) => {
                assert_eq!(answer.now_us, machine.now_us(), "{step:?}");
                (answer.reply, reply.clone())
            }
            (Err(error), Err(kind)) => {
                assert_eq!(error.kind(), *kind, "{step:?}");
                return side;
            }
            (got, expected) => panic!("{step:?}: answered {got:?}, not {expected:?}"),
        };
        if let (Reply::Reaped(got), Reply::Reaped(expected)) = (&mut got, &mut expected) {
            got.holders.sort_unstable();
            for ((node, beat), (_, numbered)) in got.holders.iter_mut().zip(&expected.holders) {
                side.beats.insert((*node, *numbered), *beat);
                *beat = *numbered;
            }
        }
        side.tell(&mut got, &expected, is_left);
        if let (Reply::Peeked(PeekPage { events, next }), StoreOp::Peek { by, limit, .. }) =
            (&mut got, &op)
        {
            side.go_on(by, events, next, *limit);
        }
        // Only a store whose scans may find an event twice says it.
        match &mut got {
            Reply::Peeked(page) => page.events.iter_mut().for_each(|event| event.ended = None),
            Reply::Snapshot(Some(event)) => event.ended = None,
            _ => {}
        }
        assert_eq!(got, expected, "{step:?}");
        side
    }

    fn check_invariants(side: &Self, machine: &Machine) {
        let checked = side.runtime.block_on(side.subject.check());
        assert_eq!(checked, Ok(()));
        let query = Query {
            limit: Some(Query::LIMIT_MAX),
            ..Query::default()
        };
        let store = side.subject.store();
        let page = side
            .runtime
            .block_on(duly::testing::records(&*store, query));
        let mut got = page.expect("they can be read").items;
        if let Some(table) = store.records() {
            // A tiny retention of records must not carry anything else.
            table.keep(Keep {
                count: Some(KEPT),
                ..Keep::default()
            });
        }
        // The clock may be set back while the store is closed: then what was written later
        // finished earlier.
        let mut expected = machine.records().to_vec();
        expected.sort_by_key(|record| record.stages.finished_us);
        if store.records().is_some() {
            expected = retained(&got, expected);
        }
        if got.len() == Query::LIMIT_MAX as usize && expected.len() > got.len() {
            // A page; what finished when its last record did may be in it in part.
            let end = got.last().map_or(0, |last| last.stages.finished_us);
            got.retain(|record| record.stages.finished_us < end);
            expected.truncate(got.len());
        }
        if !H::default().is_steady() {
            // A server does not know in which order they expired that were leased meanwhile.
            for records in [&mut got, &mut expected] {
                let is_over = |record: &Record| {
                    record.outcome == Outcome::Expired || record.cause == Some(Cause::TooLate)
                };
                let at_once = |one: &Record, other: &Record| {
                    one.stages.finished_us == other.stages.finished_us
                };
                for run in records.chunk_by_mut(|a, b| is_over(a) && is_over(b) && at_once(a, b)) {
                    run.sort_by_key(|record| record.id);
                }
            }
        }
        for (got, expected) in got.iter_mut().zip(&expected) {
            // One that was replaced within its own push never was on the publish list of a store
            // that lets it take effect later.
            let stages = expected.stages;
            // One that had expired when it was due soon was there, where a fetch came to it.
            let (moved_us, other_us) = (stages.moved_us, got.stages.moved_us);
            if moved_us.min(other_us) == 0 && moved_us.max(other_us) == stages.finished_us {
                got.stages.moved_us = moved_us;
            }
        }
        assert_eq!(got, expected);
    }
}

/// Returns those of all records that a store may have kept, which are the newest [`KEPT`], and of
/// older ones those that it still has: it removes them a few at a time, and one that was written
/// when the clock had been set back is older than some that have gone before.
fn retained(got: &[Record], mut all: Vec<Record>) -> Vec<Record> {
    let newest = all.split_off(all.len().saturating_sub(KEPT as usize));
    let older = &got[..got.len().saturating_sub(newest.len())];
    let which = |it: &Record| (it.id, it.attempt, it.outcome, it.stages.finished_us);
    let mut older = older.iter().peekable();
    all.retain(|record| older.next_if(|got| which(got) == which(record)).is_some());
    all.extend(newest);
    all
}

/// A number of the environment.
fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Plays `DULY_MODEL_CASES` random sequences over the stores of `H`.
#[allow(clippy::print_stdout)] // it tells which seed to run again
fn play<H, R>()
where
    H: StoreHarness + Default,
    R: ReferenceStateMachine<State = Machine, Transition = Step>,
{
    let cases: u64 = number("DULY_MODEL_CASES").unwrap_or(24);
    let steps: usize = number("DULY_MODEL_STEPS").unwrap_or(80);
    let seed: u64 = number("DULY_MODEL_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("DULY_MODEL_SEED={seed} DULY_MODEL_CASES={cases}");
    let config = Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        failure_persistence: None,
        // To shorten a long sequence takes long.
        max_shrink_iters: if steps > 80 { 64 } else { 4_096 },
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config.clone(), rng);
    let strategy = R::sequential_strategy(if steps > 80 { steps / 2 } else { 1 }..steps);
    let played = runner.run(&strategy, |(machine, steps, seen)| {
        Side::<H, R>::test_sequential(config.clone(), machine, steps, seen);
        Ok(())
    });
    if let Err(failure) = played {
        panic!("{failure}\nplay it again with DULY_MODEL_SEED={seed} DULY_MODEL_CASES={cases}");
    }
}

#[test]
fn the_memory_store_answers_as_the_model_does() {
    play::<MemoryHarness, InProcess>();
}

/// Embedded stores: without a thread, with one, and with nothing in memory but the index.
macro_rules! embedded {
    ($($name:ident: $options:expr;)*) => {$(
        #[test]
        fn $name() {
            #[derive(Default)]
            struct Harness;

            impl StoreHarness for Harness {
                fn fresh(
                    &self,
                    clock: Arc<ManualClock>,
                    window: DedupWindow,
                ) -> HarnessFuture<Arc<dyn Subject>> {
                    EmbeddedHarness(|| $options).fresh(clock, window)
                }
            }

            play::<Harness, Durable>();
        }
    )*};
}

embedded! {
    the_embedded_store_without_a_thread_answers_as_the_model_does: EmbeddedOptions::inline();
    the_embedded_store_answers_as_the_model_does: EmbeddedOptions::new();
    the_embedded_store_without_a_cache_answers_as_the_model_does:
        EmbeddedOptions::new().cache_bytes(0);
}

/// Redis stores: on one server, and on a cluster of six. Leases outlive a store that is opened
/// again, so that is left to the contract suite.
macro_rules! redis {
    ($($name:ident: $url:expr;)*) => {$(
        #[test]
        fn $name() {
            #[derive(Default)]
            struct Harness;

            impl StoreHarness for Harness {
                fn fresh(
                    &self,
                    clock: Arc<ManualClock>,
                    window: DedupWindow,
                ) -> HarnessFuture<Arc<dyn Subject>> {
                    RedisHarness(|| $url).fresh(clock, window)
                }

                fn is_steady(&self) -> bool {
                    false
                }
            }

            play::<Harness, Machine>();
        }
    )*};
}

redis! {
    the_redis_store_answers_as_the_model_does: crate::servers::shared().url();
    the_redis_store_on_a_cluster_answers_as_the_model_does: crate::servers::shared_cluster();
}
