//! What has a time of its own has it while a server's clock steps, and the log says that it does.

use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use duly::event::{Envelope, State};
use duly::records::Cause;
use duly::store::Store;
use duly::store::operation::{
    AttemptOutcome, FailureReason, Fetch, PushOutcome, Settlement, StartMark, StoreOp,
};
use duly::time::{Timestamp, When};
use tokio::time::Instant;

use super::{MINUTE, STEPS, Stepping};
use crate::redis_store::kit::{Bare, Log, NODE, until};

#[tokio::test]
async fn a_step_is_said_while_it_is_not_believed_and_when_it_is_followed() {
    for step in [3_600.0, -3_600.0] {
        let log = Log::here();
        let world = Stepping::new().await;
        world.push(&world.bare, MINUTE * 5).await;
        world.set(step);
        world.push(&world.bare, MINUTE * 5).await;
        for words in ["clock is not believed", "the store's time follows"] {
            until(words, async || log.has(words)).await;
        }
    }
}

/// A lease with a deadline, a retry, an expiry and a unique key that stays taken each have their time by a
/// clock that does not step.
#[tokio::test]
#[allow(clippy::print_stdout)] // it tells which seed to run again
async fn what_has_a_time_has_it_while_the_clock_steps() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..4 {
        let world = Stepping::new().await;
        let step = STEPS[random.usize(..8)]; // a smaller one is followed at once
        let what = format!("a step of {step} s");
        let began = Instant::now();
        let of_all = Timed::new(&world.bare).await;
        world.set(step);
        let mut waits = vec!["a lease", "a retry", "an expiry", "a unique key"];
        until(&what, async || {
            for name in of_all.over(&world.bare).await {
                if let Some(at) = waits.iter().position(|it| *it == name) {
                    let waited = began.elapsed();
                    assert!(waited >= SPAN || world.was_slow(), "{what}: {name}");
                    waits.swap_remove(at);
                }
            }
            waits.is_empty() || world.was_slow()
        })
        .await;
    }
}

/// How long each of them lasts.
const SPAN: Duration = Duration::from_secs(2);

struct Timed {
    leased: EventId,
    retried: EventId,
    expiring: EventId,
}

impl Timed {
    async fn new(bare: &Bare) -> Self {
        let plain = |envelope: &mut Envelope| envelope.attempts = 16;
        let done = bare.push_with(|envelope| {
            plain(envelope);
            envelope.unique = Some("one".to_owned());
            let period = SPAN.as_millis().to_string();
            envelope.headers = vec![("duly-unique-for".to_owned(), period)];
        });
        let done = done.await;
        assert_eq!(bare.fetch(1, 1).await.expect("a fetch"), [done]);
        assert_eq!(bare.ack(1, &[done]).await.expect("an ack"), [true]);

        let retried = bare.push_with(plain).await;
        assert_eq!(bare.fetch(2, 1).await.expect("a fetch"), [retried]);
        let failed = FailureReason {
            cause: Cause::Failed,
            error: None,
        };
        let settlement = Settlement {
            id: retried,
            request: 2,
            verdict: AttemptOutcome::Retry(SPAN, failed),
            started_us: 1,
            fetched_us: 1,
        };
        let settle = StoreOp::settle(NODE, vec![settlement], StartMark::default());
        assert_eq!(bare.typed(settle).await.expect("a settle"), [true]);

        let leased = bare.push_with(plain).await;
        let fetch = Fetch {
            node: NODE,
            request: 3,
            limit: 1,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: Some(SPAN),
            starts: usize::MAX,
        };
        bare.apply(StoreOp::Fetch(fetch)).await.expect("a fetch");
        let now = Timestamp::from_micros_up(bare.store.now_us());
        let expiring = bare.push_with(|it| it.expires = Some(now + SPAN)).await;
        Self {
            leased,
            retried,
            expiring,
        }
    }

    /// Those whose time is over.
    async fn over(&self, bare: &Bare) -> Vec<&'static str> {
        let (silent, limit, calls) = (Vec::new(), 10, false);
        for op in [
            StoreOp::Reap { silent, limit },
            StoreOp::MoveDue { limit, calls },
        ] {
            bare.apply(op).await.expect("a call");
        }
        let mut taken = bare.plain(bare.new_id(), When::Now);
        Arc::make_mut(&mut taken.envelope).unique = Some("one".to_owned());
        let pushed = bare.typed(StoreOp::push(vec![taken])).await;
        let is_free = pushed.expect("a push")[0].verdict == PushOutcome::Accepted;
        let is = async |id, state| bare.state(id).await == state;
        let over = [
            ("a lease", is(self.leased, State::Ready).await),
            ("a retry", is(self.retried, State::Ready).await),
            ("an expiry", is(self.expiring, State::Expired).await),
            ("a unique key", is_free),
        ];
        let names = over.into_iter().filter(|(_, is_over)| *is_over);
        names.map(|(name, _)| name).collect()
    }
}
