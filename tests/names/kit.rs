//! Stores of each kind, which buses are started on again and again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duly::config::QueueChoices;
use duly::event::BucketId;
use duly::prelude::*;
use duly::store::{MemoryStore, Store};
use duly::time::Timestamp;
use duly::{BusBuilder, EventId};

use crate::servers;

pub(crate) const QUEUE: &str = "orders";
/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How many names the soak makes in each round.
pub(crate) fn names(default: usize) -> usize {
    let said = std::env::var("DULY_NAMES").ok();
    said.map_or(default, |said| said.parse().expect("a number"))
}

/// Seeds the random numbers of this thread, and prints the seed.
#[allow(clippy::print_stdout)] // it tells which seed to run again
pub(crate) fn seeded() {
    let said = std::env::var("DULY_NAMES_SEED").ok();
    let seed = said.map_or_else(|| fastrand::u64(..), |said| said.parse().expect("a seed"));
    println!("DULY_NAMES_SEED={seed}");
    fastrand::seed(seed);
}

/// An id as other libraries make them: all bits but those of the time are random.
#[allow(clippy::disallowed_methods)] // real time: ids are made by it, as a user's are
pub(crate) fn foreign() -> EventId {
    let now = Timestamp::from(SystemTime::now());
    EventId::from_parts(now, BucketId(fastrand::u16(..)), fastrand::u64(..))
}

/// A store that outlives its buses.
pub(crate) enum Kept {
    Memory(Arc<MemoryStore>),
    Embedded(tempfile::TempDir),
    Redis(String),
}

impl Kept {
    /// One of each kind.
    pub(crate) fn each() -> [Self; 3] {
        [
            Self::Memory(Arc::new(MemoryStore::new())),
            Self::Embedded(tempfile::tempdir().unwrap()),
            Self::Redis(format!(
                "{}?prefix={}",
                servers::shared().url(),
                servers::prefix()
            )),
        ]
    }

    /// The builder of a bus on it.
    pub(crate) fn builder(&self) -> BusBuilder {
        let builder = Bus::builder()
            .only_registered()
            .settings(Default::default());
        match self {
            Self::Memory(store) => builder.shared_store(Arc::clone(store) as Arc<dyn Store>),
            Self::Embedded(folder) => {
                let path = folder.path().join("duly.db");
                builder.store_url(format!("sqlite:{}", path.display()))
            }
            Self::Redis(url) => builder.store_url(url),
        }
    }

    /// A bus that runs no handlers; its queue has so many buckets by its own options.
    pub(crate) async fn start(&self, buckets: u16) -> Bus {
        let choices = QueueChoices {
            buckets: Some(buckets),
            ..QueueChoices::default()
        };
        let builder = self.builder().publish_only().queue(QUEUE, choices);
        builder.start().await.expect("a start")
    }
}

pub(crate) async fn stop(bus: Bus) {
    bus.shutdown(PATIENCE).await.expect("a stop");
}
