//! The embedded store itself: opened, called, and closed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::core::engine::DedupWindow;
use crate::core::membership::{MemberInfo, Membership};
use crate::core::op::{Delivery, Reply, Response, StoreOp};
use crate::error::{ErrorKind, Result};
use crate::event::{BucketKey, QueueName};
use crate::outage::Outage;
use crate::panics;
use crate::record::{Cursor, Keep};
use crate::sqlite::shortage;
use crate::sqlite::{files, records};
use crate::store::clock::StoreTime;
use crate::store::contract::{KnownBuckets, Store, Watcher};
use crate::store::control::{Control, Setting};
use crate::store::damage::{CheckTask, Damage};
use crate::store::durability::Durability;
use crate::store::future::StoreFuture;
use crate::store::hub::LocalMembership;
use crate::store::records::RecordTable;

use crate::store::embedded::cache::Cache;
use crate::store::embedded::file::{Lock, Paths};
use crate::store::embedded::options::EmbeddedOptions;
use crate::store::embedded::pending::Pending;
use crate::store::embedded::reader::{DamagedRow, ReadThread, Reader, no_thread};
use crate::store::embedded::recovery::Recovery;
use crate::store::embedded::retention::{Retention, SharedKeep};
use crate::store::embedded::shared::{Decision, Shared};
use crate::store::embedded::space::Space;
use crate::store::embedded::starts::Starts;
use crate::store::embedded::ticket::{CommitPart, CommitTicket};
use crate::store::embedded::writer::Writer;
use crate::store::embedded::{bodies, closing, log, recovery, schema};
use crate::time::Timestamp;

/// A store in one SQLite file: nothing to install, and durable.
///
/// A push that answered `Ok` survives a power cut. What happens when something goes wrong:
///
/// - **The process dies, at any instruction**: what was acknowledged is there. An attempt whose
///   handler had started counts; an event that was merely leased loses nothing.
/// - **The disk is full**: pushes return [`ErrorKind::Full`](crate::ErrorKind::Full) and nothing of
///   them happened. What is stored is still handled; pushes work again when there is room.
/// - **The process has too few descriptors or too little memory**: calls return
///   [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), or
///   [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) if they may have happened, until it is over.
/// - **The disk fails, or the file is deleted, replaced, or damaged beyond its rows**: the store
///   stops itself. What was on its way returns
///   [`ErrorKind::Unknown`](crate::ErrorKind::Unknown), everything later
///   [`ErrorKind::Closed`](crate::ErrorKind::Closed). A failed sync is never tried again.
/// - **Bytes of an event are damaged**: they are never delivered, but set aside and listed by
///   [`damaged`](Self::damaged). Everything else goes on.
///
/// # Examples
///
/// ```
/// use duly::store::{Durability, EmbeddedStore, Store};
///
/// let directory = tempfile::tempdir()?;
/// let store = EmbeddedStore::open(directory.path().join("duly.db"))?;
/// assert_eq!(store.durability(), Durability::Disk);
/// // A store has one owner at a time.
/// assert!(EmbeddedStore::open(directory.path().join("duly.db")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    writing: Writing,
}

/// Who writes.
enum Writing {
    Thread(Mutex<Option<JoinHandle<()>>>),
    Inline(Mutex<Option<Box<Writer>>>),
}

impl EmbeddedStore {
    /// Opens the store in the file at `path`, and makes it where it is missing.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, EmbeddedOptions::new())
    }

    /// Opens the store in the file at `path` with choices of your own.
    ///
    /// Reads everything that is not over, so it takes half a second or so for each million events.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) when the file is not a store, was written
    /// by a newer duly, or is damaged beyond its rows; [`ErrorKind::Full`](crate::ErrorKind::Full)
    /// when the disk is, and its reserve is used up;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) when it is open already, by
    /// whatever name, has several names, or cannot be written.
    pub fn open_with(path: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self> {
        let paths = Paths::prepare(path.as_ref())?;
        shortage::survive_file_limit();
        // A bus of this process may have been dropped a moment ago. Before the lock is tried: the close
        // may end between an attempt and a look.
        closing::wait(&paths.data);
        let mut lock = Lock::take(&paths)?;
        log::settle(&paths.data)?;
        let wrong = |error| files::unusable(&paths.reserve, "cannot be written", error);
        let space = Space::open(&paths.reserve, options.reserve_bytes).map_err(wrong)?;
        let time = StoreTime::new(Arc::clone(&options.clock));
        let (recovery, starts) = loop {
            match restart(&paths, options.window, time.now()) {
                // What is stored is handled on a full disk, so it must be read on one.
                Err(error) if error.kind() == ErrorKind::Full && space.release() => {}
                recovered => break recovered?,
            }
        };
        let Recovery {
            shards,
            mut committer,
            next_row,
            controls,
        } = recovery;
        let keep = SharedKeep::new(Mutex::new(Keep::default()));
        committer.retention = Some(Retention::new(Arc::clone(&keep), options.clock));
        space.restore().map_err(wrong)?;
        paths
            .sync_directory()
            .map_err(|error| files::unusable(&paths.directory, "cannot be synced", error))?;
        let reader = Reader::new(schema::open_whole_reader(&paths.data)?);
        let records = records::Reader::new(schema::open_whole_reader(&paths.data)?);
        lock.remember(&paths)?;
        let thread = |name| (!options.inline).then_some(name);
        let reading = ReadThread::start(reader, thread("duly-reader")).map_err(no_thread)?;
        let records = ReadThread::start(records, thread("duly-records")).map_err(no_thread)?;
        let shared = Arc::new(Shared {
            time,
            shards,
            hub: LocalMembership::with(controls),
            cache: Mutex::new(Cache::new(next_row, options.cache_bytes)),
            pending: Pending::new(options.pending_bytes, options.batch_bytes),
            reading,
            records,
            keep,
            space,
            starts: Mutex::new(starts),
            stop: OnceLock::new(),
            lock: Mutex::new(Some(lock)),
            log: Outage::of("notes of the embedded store"),
            ended: Arc::new(CommitTicket::default()),
            paths,
        });
        let writer = Writer::new(Arc::clone(&shared), committer, options.inline);
        let writing = if options.inline {
            Writing::Inline(Mutex::new(Some(Box::new(writer))))
        } else {
            let thread = std::thread::Builder::new()
                .name("duly-writer".to_owned())
                .spawn(move || writer.run())
                .map_err(no_thread)?;
            Writing::Thread(Mutex::new(Some(thread)))
        };
        Ok(Self { shared, writing })
    }

    /// What was set aside because its bytes were damaged, the latest first, at most 1,000.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn damaged(&self) -> StoreFuture<Vec<DamagedRow>> {
        StoreFuture::new(self.shared.reading.run(|reader| reader.damaged()))
    }

    /// Checks everything that must be so in memory at any time; looks at every event.
    ///
    /// # Errors
    ///
    /// The first thing that is not so.
    pub fn check(&self) -> Result<(), String> {
        self.shared.shards.check()
    }

    /// Without a thread: writes what was decided before anybody waits for it.
    fn write_inline(&self) {
        if let Writing::Inline(writer) = &self.writing {
            let mut writer = writer.lock();
            if let Some(writer) = &mut *writer {
                writer.drain();
            }
        }
    }

    /// Closes the list and lets whoever writes end.
    fn begin_close(&self) {
        self.shared.begin_to_let_go();
        self.shared.pending.close();
        if let Writing::Inline(writer) = &self.writing {
            let writer = writer.lock().take();
            if let Some(mut writer) = writer {
                writer.drain();
                writer.end();
            }
        }
    }
}

/// Reads what the file has, writes what follows from the notes of starts, and begins those anew; it
/// can be repeated.
fn restart(paths: &Paths, window: DedupWindow, now: Timestamp) -> Result<(Recovery, Starts)> {
    let connection = schema::open_writer(&paths.data)?;
    let wrong = |error| files::unusable(&paths.starts, "cannot be used", error);
    let starts = Starts::read(&paths.starts).map_err(wrong)?;
    let data = &paths.data;
    let recovery = recovery::recover(data, connection, starts, window, now)?;
    // Only now: what the notes said is in the file.
    let starts = Starts::begin(&paths.starts).map_err(wrong)?;
    Ok((recovery, starts))
}

impl Store for EmbeddedStore {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        let decided = self.shared.decide(bucket, op);
        self.shared.sweep();
        let Decision {
            response,
            wait,
            node,
        } = match decided {
            Ok(decided) => decided,
            Err(error) => {
                // Also of what is refused: what had expired has ended.
                self.write_inline();
                return StoreFuture::ready(Err(error));
            }
        };
        let found = self.shared.find(response);
        self.write_inline();
        let known = match (found, wait) {
            (Ok(response), None) => return StoreFuture::ready(Ok(response)),
            (Ok(response), Some((ticket, part))) => {
                return StoreFuture::new(async move { ticket.wait(part).await.map(|()| response) });
            }
            // Nothing that waits for the writer carries a body.
            (Err(known), _) => *known,
        };
        let (shared, bucket) = (Arc::clone(&self.shared), bucket.clone());
        let is_fetch = matches!(known.reply, Reply::Fetched(_));
        let load = move |reader: &mut Reader| shared.load(reader, known, &bucket, node);
        let loaded = self.shared.reading.run(load);
        self.write_inline();
        StoreFuture::new(async move {
            let loaded = loaded.await;
            if is_fetch {
                loaded.map_err(bodies::at_fetch)
            } else {
                loaded
            }
        })
    }

    fn durability(&self) -> Durability {
        Durability::Disk
    }

    fn now_us(&self) -> u64 {
        if self.shared.time.take_jump() {
            self.shared.shards.wake_all();
        }
        self.shared.time.now_us()
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        let membership = self.shared.hub.alone(&me, self.shared.shards.used());
        StoreFuture::ready(Ok(membership))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        StoreFuture::ready(Ok(self.shared.hub.controls()))
    }

    fn control_of(&self, queue: &QueueName) -> StoreFuture<Option<Control>> {
        StoreFuture::ready(Ok(self.shared.hub.control_of(queue)))
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        let kept = self.shared.set(queue, setting);
        self.write_inline();
        StoreFuture::new(async move { kept?.wait(CommitPart::Rest).await })
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn check_store(&self, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        self.shared.check(task)
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        StoreFuture::ready(Ok(self.shared.shards.keys()))
    }

    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        let buckets = self.shared.shards.keys_of(queue);
        StoreFuture::ready(Ok(KnownBuckets::all(buckets)))
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result<()> {
        self.shared.shards.watch(watcher)
    }

    fn starting(&self, _queue: &QueueName, deliveries: &[&Delivery]) -> Result<()> {
        self.shared.note_starts(deliveries)
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        Some(Arc::clone(&self.shared) as _)
    }

    fn erase_records(&self, places: Vec<Cursor>) -> StoreFuture<bool> {
        let erased = self.shared.erase(places);
        self.write_inline();
        StoreFuture::new(async move {
            erased?.wait(CommitPart::Rest).await?;
            Ok(true)
        })
    }

    fn close(&self) -> StoreFuture<()> {
        self.begin_close();
        StoreFuture::new(Arc::clone(&self.shared.ended).wait(CommitPart::Rest))
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// Writes what was decided, and waits until it is on disk and the file is free.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.begin_close();
        if let Writing::Thread(thread) = &self.writing {
            let thread = thread.lock().take();
            if thread.is_some_and(|thread| thread.join().is_err()) {
                panics::reported(|| {
                    tracing::error!("writer thread of the embedded store panicked");
                });
            }
        }
    }
}
