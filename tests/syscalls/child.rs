//! What a child process runs: it opens the embedded store of its folder, and uses all of it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use duly::Annotation;
use duly::config::QueueChoices;
use duly::prelude::*;
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};

use crate::syscalls::diary::{Diary, Line};
use crate::syscalls::script::Script;
use crate::syscalls::work::{ATTEMPTS, Hand, PAUSE, Work};

/// The folder that a child works in: set in a child process, nowhere else.
pub(crate) const FOLDER: &str = "DULY_SYSCALLS_FOLDER";
/// Which part a child plays: [`SCRIPT`] or [`OPENING`].
pub(crate) const PART: &str = "DULY_SYSCALLS_PART";
/// Opens the store and uses all of it.
pub(crate) const SCRIPT: &str = "script";
/// The same, and gives up soon: a store that waits for room does not answer.
pub(crate) const IN_HASTE: &str = "in-haste";
/// Opens the store and closes it.
pub(crate) const OPENING: &str = "opening";
/// The queue of the script, and one that only has a rate.
pub(crate) const WORK: &str = "work";
pub(crate) const OTHER: &str = "other";

/// Opened before each write through a mapping, and in the middle of it; else of no use.
pub(crate) const MAPPING: &str = "mapping";
static MAPPING_PATH: OnceLock<PathBuf> = OnceLock::new();

/// How long the script waits before it gives up and ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a handler may still run at the end.
const GRACE: Duration = Duration::from_millis(500);

/// What the store's files are named after, in a folder that the store makes by itself.
pub(crate) fn data(folder: &Path) -> PathBuf {
    folder.join("store").join("duly.db")
}

/// Opens the store of a folder, with a reserve that is small: it is written before anything else.
pub(crate) fn open(folder: &Path) -> duly::Result<EmbeddedStore> {
    let options = EmbeddedOptions::new().reserve_bytes(4_096);
    EmbeddedStore::open_with(data(folder), options)
}

/// A bus on a store, with the handler.
pub(crate) async fn bus(store: &Arc<EmbeddedStore>, work: Arc<Work>) -> duly::Result<Bus> {
    let annotation = Annotation::new(WORK)
        .attempts(ATTEMPTS)
        .backoff(RetryPolicy::fixed(PAUSE))
        .ring(64);
    let choices = QueueChoices {
        buckets: Some(1),
        workers: Some(2),
        ..QueueChoices::default()
    };
    Bus::builder()
        .only_registered()
        .settings(Default::default())
        .shared_store(Arc::clone(store) as Arc<dyn duly::store::Store>)
        .queue(WORK, choices)
        .register_as(annotation, Hand(work))
        .start()
        .await
}

/// What the test `child` runs: in a child process the script, elsewhere nothing.
///
/// One thread opens the store, asks and handles; the store's writer is another one.
pub(crate) fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let mapping = MAPPING_PATH.get_or_init(|| folder.join(MAPPING));
    File::create(mapping).expect("a file");
    duly::__internal::embedded::before_each_write(|| {
        if let Some(mapping) = MAPPING_PATH.get() {
            File::open(mapping).ok();
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let diary = Arc::new(Diary::open(&folder));
    let store = match open(&folder) {
        Ok(store) => Arc::new(store),
        Err(error) => return diary.add(&Line::NotOpened(format!("{:?}", error.kind()))),
    };
    diary.add(&Line::Opened);
    let part = std::env::var(PART).expect("a part");
    let patience = match part.as_str() {
        OPENING => {
            let closed = runtime.block_on(store.close());
            return diary.add(&ended(closed));
        }
        IN_HASTE => Duration::from_secs(1),
        _ => PATIENCE,
    };
    runtime.block_on(async {
        let work = Arc::new(Work::new(&diary, &Diary::read(&folder)));
        let bus = bus(&store, Arc::clone(&work)).await;
        let bus = bus.expect("a bus that asks nothing of the disk");
        let mut script = Script {
            queue: bus.queue_named(WORK).expect("a legal name"),
            bus,
            store,
            work,
            over: Vec::new(),
        };
        // What was asked by then may stay without an answer.
        tokio::time::timeout(patience, script.run()).await.ok();
        let stopped = script.bus.shutdown(GRACE).await;
        let closed = script.store.close().await;
        diary.add(&ended(stopped.and(closed)));
    });
}

fn ended(closed: duly::Result<()>) -> Line {
    Line::Ended(closed.err().map(|error| format!("{:?}", error.kind())))
}
