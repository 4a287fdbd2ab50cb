//! A store under random operations, and what it has answered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duly::event::{Envelope, Payload};
use duly::records::Query;
use duly::store::operation::{
    AttemptOutcome, Delivery, Fetch, FetchReport, NewEvent, Reply, StartMark, StoreOp,
};
use duly::store::{CheckTask, EmbeddedOptions, EmbeddedStore, Setting, Store};
use duly::time::When;
use duly::{Error, ErrorKind};

use crate::embedded::harness::*;

/// So many notes fill a file of them.
const NOTES: usize = (1 << 18) / 32;

/// What is known of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Stored,
    Over,
    Absent,
    /// Its last change was answered with `Unknown`.
    Either,
}

/// A store, and what it has answered.
pub(crate) struct Story {
    pub(crate) store: EmbeddedStore,
    pub(crate) events: BTreeMap<u64, Known>,
    pub(crate) leased: Vec<Delivery>,
    request: u64,
    unanswered: Option<Fetch>,
    pub(crate) rng: fastrand::Rng,
    /// What is short, for the message of a failure.
    pub(crate) now: String,
}

impl Story {
    pub(crate) fn new(path: &Path, seed: u64) -> Self {
        let options = EmbeddedOptions::new().reserve_bytes(1 << 20).cache_bytes(0); // so that bodies are read
        Self {
            store: EmbeddedStore::open_with(path, options).expect("a store"),
            events: BTreeMap::new(),
            leased: Vec::new(),
            request: 0,
            unanswered: None,
            rng: fastrand::Rng::with_seed(seed),
            now: String::new(),
        }
    }

    pub(crate) async fn ask(&self, op: StoreOp) -> Result<Reply, Error> {
        self.fine(self.store.apply(&key(), op).await)
            .map(|answer| answer.reply)
    }

    /// A shortage is an error that says so, and no other.
    pub(crate) fn fine<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer {
            use ErrorKind::{Full, Unavailable, Unknown};
            let is_fine = matches!(error.kind(), Full | Unavailable | Unknown);
            assert!(is_fine, "{}: {error}", self.now);
        }
        answer
    }

    pub(crate) async fn push(&mut self) -> Result<(), Error> {
        let next = self.events.len() as u64 + 1;
        let numbers: Vec<u64> = (next..next + self.rng.u64(1..20)).collect();
        let len = self.rng.usize(1..12_000);
        let new = |n: &u64| -> NewEvent {
            let mut event = event(*n, When::Now, 100);
            let payload = Payload::from(vec![*n as u8; len]);
            Arc::make_mut(&mut event.envelope).payload = payload;
            event
        };
        let pushed = self
            .ask(StoreOp::Push(numbers.iter().map(new).collect()))
            .await;
        let known = match &pushed {
            Ok(_) => Known::Stored,
            Err(error) if error.kind() == ErrorKind::Unknown => Known::Either,
            Err(_) => Known::Absent,
        };
        self.events.extend(numbers.iter().map(|n| (*n, known)));
        pushed.map(drop)
    }

    pub(crate) async fn fetch(&mut self) -> Result<(), Error> {
        let moved = StoreOp::MoveDue {
            limit: 1_000,
            calls: false,
        };
        self.ask(moved).await?;
        // One that was not answered is repeated: the events are leased all the same.
        let fetch = self.unanswered.take().unwrap_or_else(|| {
            self.request += 1;
            let mut fetch = fetch_of(self.request);
            fetch.limit = 1 + self.rng.usize(..60);
            fetch
        });
        match self.ask(StoreOp::Fetch(fetch.clone())).await {
            Ok(Reply::Fetched(FetchReport { deliveries, .. })) => {
                self.leased.extend(deliveries);
                Ok(())
            }
            Ok(other) => panic!("a fetch was answered with {other:?}"),
            Err(error) => {
                self.unanswered = Some(fetch);
                Err(error)
            }
        }
    }

    pub(crate) fn start(&mut self) -> Result<(), Error> {
        let leased: Vec<&Delivery> = self.leased.iter().collect();
        self.fine(self.store.starting(&key().queue, &leased))?;
        // Of nobody, so that the file of notes is written anew.
        let other = Delivery {
            id: id(1 << 40),
            body: Arc::new(Envelope::new(id(1 << 40), key().queue, payload(1))),
            due: START,
            attempt: 1,
            request: 1,
            place: 0,
            moved_us: 0,
        };
        for _ in 0..3 {
            self.fine(self.store.starting(&key().queue, &vec![&other; NOTES / 2]))?;
        }
        Ok(())
    }

    pub(crate) async fn settle(&mut self) -> Result<(), Error> {
        let leased = std::mem::take(&mut self.leased);
        let verdicts: Vec<_> = leased
            .iter()
            .map(|_| match self.rng.usize(..4) {
                0 => AttemptOutcome::Release,
                1 => AttemptOutcome::Snooze(Duration::ZERO),
                _ => AttemptOutcome::Ack,
            })
            .collect();
        let settlements = leased.iter().zip(&verdicts);
        let settlements = settlements.map(|(one, verdict)| settlement(one, verdict.clone()));
        let settled = self
            .ask(StoreOp::Settle {
                node: NODE,
                settlements: settlements.collect(),
                started: StartMark::default(),
            })
            .await;
        for (delivery, verdict) in leased.iter().zip(&verdicts) {
            let known = match (&settled, verdict) {
                (_, AttemptOutcome::Release | AttemptOutcome::Snooze(_)) => continue,
                (Ok(_), _) => Known::Over,
                (Err(_), _) => Known::Either,
            };
            self.events.insert(delivery.id.entropy(), known);
        }
        settled.map(drop)
    }

    pub(crate) async fn read(&mut self) -> Result<(), Error> {
        self.ask(StoreOp::Stats).await?;
        let n = 1 + self.rng.u64(..self.events.len().max(1) as u64);
        self.ask(StoreOp::Get { id: id(n) }).await?;
        self.fine(self.store.damaged().await)?;
        let page = duly::testing::records(&self.store, Query::default()).await;
        self.fine(page).map(drop)
    }

    pub(crate) async fn administer(&mut self) -> Result<(), Error> {
        let setting = Setting::Workers(Some(self.rng.u16(1..9)));
        self.fine(self.store.set(&key().queue, setting).await)?;
        let damage = self.fine(self.store.check_store(CheckTask::new(false)).await)?;
        let is_full = |words: &str| words.contains("the disk is full");
        assert!(
            damage.iter().all(|one| is_full(&one.words)),
            "{}: {damage:?}",
            self.now
        );
        Ok(())
    }

    /// Does something; each error is one that a shortage may have.
    pub(crate) async fn step(&mut self) {
        let _ = match self.rng.usize(..8) {
            0..=2 => self.push().await,
            3 => self.fetch().await,
            4 => self.start(),
            5 | 6 => self.settle().await,
            _ => {
                if self.rng.bool() {
                    self.read().await
                } else {
                    self.administer().await
                }
            }
        };
    }

    /// Nothing is short: everything works, at the latest after a while.
    #[allow(clippy::disallowed_methods)] // real time: this is about a real disk
    pub(crate) async fn works(&mut self) {
        let began = std::time::Instant::now();
        loop {
            let done = async {
                // What is stored may fill the disk by right.
                self.fetch().await?;
                while !self.leased.is_empty() {
                    self.settle().await?;
                    self.fetch().await?;
                }
                self.push().await?;
                self.fetch().await?;
                self.start()?;
                self.settle().await?;
                self.read().await?;
                self.administer().await
            };
            let Err(error) = done.await else { break };
            let waited = began.elapsed();
            assert!(
                waited < Duration::from_secs(30),
                "{} is over, and still {error}",
                self.now
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens it again and compares.
    pub(crate) async fn ends(mut self, path: &Path) {
        let closed = self.store.close().await;
        closed.expect("a close");
        drop(std::mem::replace(
            &mut self.store,
            EmbeddedStore::open(path.with_file_name("other.db")).expect("a store"),
        ));
        let events = std::mem::take(&mut self.events);
        assert_all(path, &events);
    }
}

/// What is in the store at `path` is what it has answered.
pub(crate) fn assert_all(path: &Path, events: &BTreeMap<u64, Known>) {
    let options = EmbeddedOptions::inline().reserve_bytes(4_096);
    let store = EmbeddedStore::open_with(path, options).expect("a store");
    for (n, known) in events {
        let found = get(&store, *n).filter(|found| !found.state.is_final());
        match known {
            Known::Stored => assert!(found.is_some(), "event {n} was answered and is lost"),
            Known::Over | Known::Absent => {
                assert!(found.is_none(), "event {n} is {known:?}: {found:?}");
            }
            Known::Either => {}
        }
    }
    store.check().expect("a sound store");
}
