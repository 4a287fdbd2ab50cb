//! The work that the power cut interrupts: pushes in groups, workers, and an owner who changes his
//! mind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duly::store::operation::{Delivery, FetchReport, PushOutcome, Reply, StoreOp};
use duly::store::{EmbeddedStore, Store};
use duly::{CancelOutcome, ChangeOutcome};
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::act::{Act, End};
use crate::child::say;
use crate::kit;

/// How many push at the same time.
const PUSHERS: u64 = 4;
/// How many acts each of them does.
const ACTS: u64 = 24;
/// Events are numbered on from here in each round.
pub(crate) const ROUND: u64 = 1_000_000;

/// Why a task ended early: the store said no, which it must only when the power is gone.
#[derive(Debug)]
struct Ended(String);

impl From<duly::Error> for Ended {
    fn from(error: duly::Error) -> Self {
        Self(error.to_string())
    }
}

/// Opens the store, and closes it: what a start after a power cut does.
pub(crate) fn open(folder: &Path) {
    let store = EmbeddedStore::open_with(kit::store_in(folder), kit::options());
    match store.and_then(|store| kit::wait(store.close())) {
        Ok(()) => say("opened"),
        Err(error) => say(format_args!("failed {error}")),
    }
}

/// Works until it is done or the store says no.
pub(crate) fn work(folder: &Path, seed: u64, round: u64) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).build().expect("a runtime");
    let mut random = Rng::with_seed(seed ^ round << 48);
    let mut options = kit::options();
    if random.bool() {
        options = options.cache_bytes(0); // then every body is read back from the file
    }
    let store = match EmbeddedStore::open_with(kit::store_in(folder), options) {
        Ok(store) => Arc::new(store),
        Err(error) => return say(format_args!("failed {error}")),
    };
    runtime.block_on(async {
        let pushing = Arc::new(AtomicU64::new(PUSHERS));
        let mut tasks = JoinSet::new();
        for number in 0..PUSHERS {
            let client = Client::new(&store, format!("p{number}"), random.fork());
            let pushing = Arc::clone(&pushing);
            tasks.spawn(async move {
                let ended = client.push(round * ROUND + number * (ROUND / 10)).await;
                pushing.fetch_sub(1, Ordering::AcqRel);
                ended
            });
        }
        for queue in 0..kit::QUEUES {
            let client = Client::new(&store, format!("w{queue}"), random.fork());
            tasks.spawn(client.consume(queue, Arc::clone(&pushing)));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(Ended(why)) = ended.expect("no task panics") {
                say(format_args!("failed {why}"));
            }
        }
        if let Err(error) = store.close().await {
            say(format_args!("failed {error}"));
        }
    });
}

/// Somebody who uses the store, one act after the other.
struct Client {
    store: Arc<EmbeddedStore>,
    name: String,
    random: Rng,
}

impl Client {
    fn new(store: &Arc<EmbeddedStore>, name: String, random: Rng) -> Self {
        Self {
            store: Arc::clone(store),
            name,
            random,
        }
    }

    async fn ask(&self, bucket: &duly::event::BucketKey, op: StoreOp) -> Result<Reply, Ended> {
        Ok(self.store.apply(bucket, op).await?.reply)
    }

    /// Does it, and says so before and after.
    async fn does(&self, act: &Act, op: StoreOp) -> Result<(), Ended> {
        let name = &self.name;
        say(format_args!("do {name} {act}"));
        let reply = self.ask(&act.bucket(), op).await?;
        let done = match &reply {
            Reply::Pushed(pushed) => pushed
                .iter()
                .all(|pushed| pushed.verdict == PushOutcome::Accepted),
            Reply::Settled(settled) => settled.iter().all(|accepted| *accepted),
            Reply::Cancelled(cancelled) => *cancelled == CancelOutcome::Cancelled,
            Reply::Rescheduled(changed) | Reply::Updated(changed) => {
                matches!(changed, ChangeOutcome::Changed(_))
            }
            Reply::Counted(counted) => *counted == act.events().len(),
            _ => false,
        };
        if !done {
            return Err(Ended(format!("{act} was answered with {reply:?}")));
        }
        say(format_args!("ok {name}"));
        Ok(())
    }

    async fn act(&self, act: Act) -> Result<(), Ended> {
        let op = act.op();
        self.does(&act, op).await
    }

    /// Pushes groups of events that are due now, and single ones that are due later, which it then
    /// changes or takes back.
    async fn push(mut self, first: u64) -> Result<(), Ended> {
        let mut next = first;
        for _ in 0..ACTS {
            let later = self.random.u32(..3) == 0;
            let queue = self.random.u64(..kit::QUEUES);
            let events = if later { 1 } else { self.random.u64(1..8) };
            let from = next.next_multiple_of(kit::QUEUES) + queue;
            let events: Vec<u64> = (0..events).map(|n| from + n * kit::QUEUES).collect();
            next = events[events.len() - 1] + 1;
            let one = events[0];
            self.act(Act::Push { later, events }).await?;
            if !later {
                continue;
            }
            for version in 1..self.random.u32(1..4) {
                self.act(Act::Update(one, version)).await?;
            }
            if self.random.bool() {
                self.act(Act::Reschedule(one)).await?;
            }
            if self.random.bool() {
                self.act(Act::Cancel(one)).await?;
            }
        }
        Ok(())
    }

    /// Fetches, starts and settles what is due in one queue, until nobody pushes any more.
    async fn consume(mut self, queue: u64, pushing: Arc<AtomicU64>) -> Result<(), Ended> {
        let bucket = kit::bucket(queue);
        for request in 1.. {
            let last = pushing.load(Ordering::Acquire) == 0;
            self.ask(
                &bucket,
                StoreOp::MoveDue {
                    limit: 1_000,
                    calls: false,
                },
            )
            .await?;
            let fetch = kit::fetch(request, self.random.usize(1..30));
            let Reply::Fetched(FetchReport { deliveries, .. }) = self.ask(&bucket, fetch).await?
            else {
                return Err(Ended("a fetch was answered with something else".to_owned()));
            };
            if deliveries.is_empty() {
                if last {
                    break;
                }
                tokio::task::yield_now().await;
                continue;
            }
            self.handle(&bucket, deliveries).await?;
        }
        Ok(())
    }

    async fn handle(
        &mut self,
        bucket: &duly::event::BucketKey,
        deliveries: Vec<Delivery>,
    ) -> Result<(), Ended> {
        let events = deliveries.iter().map(|delivery| delivery.id.entropy());
        say(format_args!(
            "do {} {}",
            self.name,
            Act::Start(events.collect())
        ));
        let started: Vec<&Delivery> = deliveries.iter().collect();
        self.store.starting(&bucket.queue, &started)?;
        let ends: Vec<End> = deliveries.iter().map(|_| self.end()).collect();
        let named = deliveries.iter().map(|delivery| delivery.id.entropy());
        let act = Act::Settle(named.zip(ends.iter().copied()).collect());
        let settlements = deliveries.iter().zip(&ends);
        let settlements =
            settlements.map(|(delivery, end)| kit::settlement(delivery, end.verdict()));
        self.does(&act, kit::settle(settlements.collect())).await?;
        let dead = deliveries
            .iter()
            .zip(&ends)
            .filter(|(_, end)| **end == End::Bury);
        let dead: Vec<u64> = dead.map(|(delivery, _)| delivery.id.entropy()).collect();
        match self.random.u32(..3) {
            _ if dead.is_empty() => Ok(()),
            0 => self.act(Act::Revive(dead)).await,
            1 => self.act(Act::Drop(dead)).await,
            _ => Ok(()),
        }
    }

    /// Most attempts end well.
    fn end(&mut self) -> End {
        match self.random.usize(..20) {
            other @ 1..6 => End::ALL[other],
            _ => End::Ack,
        }
    }
}
