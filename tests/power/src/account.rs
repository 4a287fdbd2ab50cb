//! What a disk holds, as a store that is opened on a copy of it shows it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use duly::EventId;
use duly::event::State;
use duly::records::{Outcome, Query};
use duly::store::operation::{
    AttemptOutcome, Delivery, FetchReport, Reply, Snapshot, Stats, StoreOp,
};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::testing::ManualClock;
use duly::time::{Clock, SystemClock, Timestamp};

use crate::kit::{self, LATER};
use crate::lossy::Disk;
use crate::story::{Fact, Place};

/// A copy of a disk in a folder of its own.
pub(crate) struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    pub(crate) fn of(disk: &Disk) -> Self {
        let memory = Path::new("/dev/shm"); // nothing here is about syncing
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let folder = folder.expect("a folder");
        disk.export(folder.path());
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps it for a person to look at, and says where.
    pub(crate) fn keep(self) -> String {
        self.folder.keep().display().to_string()
    }

    /// Opens the store and looks at everything: at each of `events` and at whatever else there is.
    ///
    /// # Errors
    ///
    /// What is wrong: a store that does not open, a list of damage that is not empty, a body that
    /// was never pushed.
    pub(crate) fn facts(&self, events: &[u64]) -> Result<BTreeMap<u64, Fact>, String> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(
            SystemClock::new().wall_us() / 1_000,
        )));
        let store = self.open(&clock)?;
        let look = Look { store: &store };
        let damaged = answer(store.damaged())?;
        if !damaged.is_empty() {
            return Err(format!("the store says that it is damaged: {damaged:?}"));
        }
        store.check()?;
        let records = look.records()?;
        let mut facts = BTreeMap::new();
        for n in events {
            let records = records.get(n).cloned().unwrap_or_default();
            facts.insert(*n, look.fact(*n, records, clock.now())?);
        }
        let unknown = records.keys().find(|n| !facts.contains_key(n));
        if let Some(n) = unknown {
            return Err(format!("event {n} has a record, and nobody knows it"));
        }
        clock.advance(LATER * 3);
        look.drain(&facts)?;
        drop(store);
        // What was answered as done just now is done.
        let store = self.open(&clock)?;
        let left = Look { store: &store }.drain(&BTreeMap::new());
        left.map(|()| facts)
            .map_err(|left| format!("once everything was done: {left}"))
    }
}

impl Copy {
    fn open(&self, clock: &Arc<ManualClock>) -> Result<EmbeddedStore, String> {
        let path = kit::store_in(self.folder.path());
        for _ in 0..1_000 {
            let options = EmbeddedOptions::inline()
                .reserve_bytes(0)
                .clock(clock.clone());
            let refused = match EmbeddedStore::open_with(&path, options) {
                Ok(store) => return Ok(store),
                Err(refused) => refused.to_string(),
            };
            // A child that another thread starts has our lock until it is a program of its own.
            if !refused.contains("is open already") {
                return Err(format!("the store does not open: {refused}"));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err("the store does not open: its lock was never let go".to_owned())
    }
}

fn answer<T>(answer: impl Future<Output = duly::Result<T>>) -> Result<T, String> {
    kit::wait(answer).map_err(|error| error.to_string())
}

struct Look<'a> {
    store: &'a EmbeddedStore,
}

impl Look<'_> {
    fn ask(&self, n: u64, op: StoreOp) -> Result<Reply, String> {
        Ok(answer(self.store.apply(&kit::bucket(n), op))?.reply)
    }

    fn records(&self) -> Result<BTreeMap<u64, Vec<Outcome>>, String> {
        let mut records: BTreeMap<u64, Vec<Outcome>> = BTreeMap::new();
        let mut query = Query {
            limit: Some(Query::LIMIT_MAX),
            ..Query::default()
        };
        loop {
            let page = answer(duly::testing::records(self.store, query.clone()))?;
            for record in page.items {
                records
                    .entry(record.id.entropy())
                    .or_default()
                    .push(record.outcome);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(records),
            }
        }
    }

    fn fact(&self, n: u64, records: Vec<Outcome>, at: Timestamp) -> Result<Fact, String> {
        let Reply::Snapshot(found) = self.ask(n, StoreOp::Get { id: kit::id(n) })? else {
            return Err("a get was answered with something else".to_owned());
        };
        let Some(Snapshot {
            state,
            due,
            tries,
            body,
            ..
        }) = found
        else {
            return Ok(Fact {
                records,
                ..Fact::NEVER
            });
        };
        let place = match state {
            State::Scheduled | State::Ready => Place::Waits,
            State::Dead => Place::Dead,
            State::Leased => return Err(format!("event {n} is leased to nobody")),
            _ => {
                return Ok(Fact {
                    place: Place::Over,
                    records,
                    ..Fact::NEVER
                });
            }
        };
        let body = body.ok_or_else(|| format!("event {n} waits and has no body"))?;
        let version = (0..4).find(|version| body.payload == kit::payload(n, *version));
        let version = version.ok_or_else(|| format!("event {n} carries what nobody pushed"))?;
        // To the nearest hour: a case takes minutes at most.
        let hours = (due.since(at).as_secs() + 1_800) / 3_600;
        Ok(Fact {
            place,
            tries,
            version,
            hours,
            records,
        })
    }

    /// Handles everything that waits, and compares it with what was seen of it.
    fn drain(&self, facts: &BTreeMap<u64, Fact>) -> Result<(), String> {
        let waits = |fact: &Fact| fact.place == Place::Waits;
        let mut left: BTreeMap<u64, u32> = facts
            .iter()
            .filter(|(_, fact)| waits(fact))
            .map(|(n, fact)| (*n, fact.version))
            .collect();
        for queue in 0..kit::QUEUES {
            for request in 1.. {
                self.ask(
                    queue,
                    StoreOp::MoveDue {
                        limit: 1_000,
                        calls: false,
                    },
                )?;
                let Reply::Fetched(FetchReport { deliveries, .. }) =
                    self.ask(queue, kit::fetch(request, 500))?
                else {
                    return Err("a fetch was answered with something else".to_owned());
                };
                if deliveries.is_empty() {
                    break;
                }
                for delivery in &deliveries {
                    check(delivery, &mut left)?;
                }
                let acks = deliveries
                    .iter()
                    .map(|one| kit::settlement(one, AttemptOutcome::Ack));
                self.ask(queue, kit::settle(acks.collect()))?;
            }
        }
        let Reply::Stats(stats) = self.ask(0, StoreOp::Stats)? else {
            return Err("stats were answered with something else".to_owned());
        };
        let empty = Stats {
            dead: stats.dead,
            ..Stats::default()
        };
        if !left.is_empty() || stats != empty {
            return Err(format!("{left:?} wait and are never delivered: {stats:?}"));
        }
        Ok(())
    }
}

fn check(delivery: &Delivery, left: &mut BTreeMap<u64, u32>) -> Result<(), String> {
    let n = delivery.id.entropy();
    let Some(version) = left.remove(&n) else {
        return Err(format!(
            "event {n} is delivered, which is over or never was"
        ));
    };
    let id: EventId = kit::id(n);
    if delivery.id != id || delivery.body.id != id {
        return Err(format!(
            "event {n} is delivered under the id {}",
            delivery.id
        ));
    }
    if delivery.body.payload != kit::payload(n, version) {
        return Err(format!("event {n} is delivered with another payload"));
    }
    Ok(())
}
