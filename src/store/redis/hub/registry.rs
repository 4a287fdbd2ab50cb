//! The registry of buckets: an append-only list on the servers, cached in each process.
//!
//! Each entry begins with a random token, drawn by its writer. A reader that finds the last entry
//! that it knows at its index knows everything before it as well, and reads only what is new.
//! Otherwise the server lost a tail of writes in a failover: the reader reads the whole list, and
//! writes the known buckets that the list lacks again.

mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use redis::Value;
use tokio::sync::watch;
use tokio::time::Instant;

pub(in crate::store::redis) use self::writer::ensure;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, QueueName};
use crate::outage::Outage;
use crate::store::contract::KnownBuckets;
use crate::store::redis::hub::shared_keys::{SharedKeys, is_away};
use crate::store::redis::script::reader::{ReplyReader, unreadable};
use crate::store::redis::script::table::script;

/// The page size of reads.
const PAGE: usize = 1_000;
/// How long to wait for the list where cached data will do.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// The pause before the list is read again after a timeout.
const RESTS: Duration = Duration::from_secs(5);
const TOKEN: usize = 8;

script! {
    /// Adds buckets to the registry.
    REGISTER = "register", DRAINS, Hub, [];
    RegisterArguments<'a> {
        /// A random token of 8 bytes.
        token: &'a [u8],
    }
    each RegisteredBucket {
        /// As the list has it: its queue, ":" and its number.
        bucket: String,
    }
    reply RegisterReply {}
}

/// The cached registry of this process.
pub(in crate::store::redis) struct Registry {
    hub: Arc<SharedKeys>,
    /// The list as of the last read.
    listed: tokio::sync::Mutex<CachedList>,
    /// Buckets in the list: read there, or written by this process.
    known: RwLock<BTreeSet<BucketKey>>,
    /// The number of buckets that each consumer of a queue serves by its settings.
    configured: RwLock<Configured>,
    writing: Mutex<WriterState>,
    /// The number of write attempts.
    attempts: watch::Sender<u64>,
    outage: Outage,
    /// The outage log of reads of the whole list.
    listing: Outage,
    /// Until when cached data is used where it will do, because the list did not respond.
    rests_until: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Configured {
    queues: BTreeMap<QueueName, u16>,
    others: u16,
}

/// The list as far as it was read; all of its buckets are known.
#[derive(Default)]
struct CachedList {
    buckets: BTreeSet<BucketKey>,
    /// The index after the last entry, and that entry.
    len: usize,
    last: Option<Vec<u8>>,
    /// When the last complete read began.
    read_from: Option<Instant>,
}

/// The state of the writer.
#[derive(Default)]
struct WriterState {
    /// Buckets still to be written.
    missing: BTreeSet<BucketKey>,
    /// The connection on which the list was last compared with the known buckets: another one may
    /// lead to a server that lacks some.
    compared_on: u64,
    must_compare: bool,
    /// Whether the writer task is running.
    is_running: bool,
    /// Why the last attempt failed, or that it is slow.
    trouble: Option<(ErrorKind, Arc<str>)>,
}

impl Registry {
    pub(in crate::store::redis) fn new(hub: Arc<SharedKeys>) -> Self {
        Self {
            hub,
            listed: tokio::sync::Mutex::default(),
            known: RwLock::default(),
            configured: RwLock::default(),
            writing: Mutex::default(),
            attempts: watch::Sender::new(0),
            outage: Outage::of("registry of buckets"),
            listing: Outage::of("list of buckets"),
            rests_until: Mutex::default(),
        }
    }

    /// Sets the configured number of buckets of each queue, and of any other queue.
    pub(in crate::store::redis) fn configure(
        &self,
        queues: &BTreeMap<QueueName, u16>,
        others: u16,
    ) {
        let mut configured = self.configured.write();
        configured.queues.extend(queues.clone());
        configured.others = others;
    }

    /// Returns whether every consumer of its queue serves the bucket, even if it is not in the
    /// list.
    fn is_configured(&self, bucket: &BucketKey) -> bool {
        let configured = self.configured.read();
        let many = configured.queues.get(&bucket.queue);
        bucket.bucket.0 < *many.unwrap_or(&configured.others)
    }

    fn is_known(&self, bucket: &BucketKey) -> bool {
        let known = self.known.read();
        known.contains(bucket)
    }

    fn note<'a>(&self, buckets: impl IntoIterator<Item = &'a BucketKey>) {
        let mut known = self.known.write();
        known.extend(buckets.into_iter().cloned());
    }

    /// Returns the known buckets, sorted.
    pub(in crate::store::redis) fn known(&self) -> Vec<BucketKey> {
        let known = self.known.read();
        known.iter().cloned().collect()
    }

    /// Returns how many buckets are known.
    pub(in crate::store::redis) fn count(&self) -> usize {
        let known = self.known.read();
        known.len()
    }

    /// Returns the known buckets of a queue, sorted.
    fn known_of(&self, queue: &QueueName) -> Vec<BucketKey> {
        let known = self.known.read();
        let at = |bucket| BucketKey::new(queue.clone(), BucketId(bucket));
        known.range(at(0)..=at(u16::MAX)).cloned().collect()
    }

    /// Returns the known buckets that the list lacks.
    fn unlisted(&self, listed: &CachedList) -> Vec<BucketKey> {
        let known = self.known.read();
        if known.len() == listed.buckets.len() {
            return Vec::new(); // whatever is listed is known
        }
        known.difference(&listed.buckets).cloned().collect()
    }

    /// Returns the known and the configured buckets, sorted.
    fn known_or_configured(&self) -> Vec<BucketKey> {
        let mut buckets = BTreeSet::from_iter(self.known());
        let configured = self.configured.read();
        for (queue, many) in &configured.queues {
            let named = (0..*many).map(|bucket| BucketKey::new(queue.clone(), BucketId(bucket)));
            buckets.extend(named);
        }
        buckets.into_iter().collect()
    }

    /// Returns whether reads of the list are paused after a timeout.
    fn rests(&self) -> bool {
        self.rests_until()
            .is_some_and(|until| Instant::now() < until)
    }

    fn rests_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.rests_until.lock()
    }

    fn writing(&self) -> MutexGuard<'_, WriterState> {
        self.writing.lock()
    }
}

/// Returns every bucket in the list, sorted; reads only new entries.
///
/// # Errors
///
/// When the server cannot be read.
pub(in crate::store::redis) async fn read(registry: &Arc<Registry>) -> Result<Vec<BucketKey>> {
    let listed = up_to_date(registry).await?;
    Ok(listed.buckets.iter().cloned().collect())
}

/// Returns the list as it was after the call began: callers that wait for one another share a read.
/// Writes the known buckets that it lacks again.
async fn up_to_date(registry: &Arc<Registry>) -> Result<tokio::sync::MutexGuard<'_, CachedList>> {
    let listing = Instant::now();
    let mut listed = registry.listed.lock().await;
    if listed.read_from.is_some_and(|from| from > listing) {
        return Ok(listed);
    }
    let from = Instant::now();
    // Every bucket known before the read must be in the list.
    let mut lost = registry.unlisted(&listed);
    let is_anew = read_new(registry, &mut listed).await?;
    if is_anew {
        lost = registry.unlisted(&listed);
    } else {
        lost.retain(|bucket| !listed.buckets.contains(bucket));
    }
    listed.read_from = Some(from);
    if !lost.is_empty() {
        writer::write(registry, lost);
    }
    Ok(listed)
}

/// Returns every bucket in the list, or the known and configured ones while the server is
/// unavailable.
///
/// # Errors
///
/// When the server cannot be read, and no bucket is known.
pub(in crate::store::redis) async fn known(registry: &Arc<Registry>) -> Result<KnownBuckets> {
    let away = read_if_there(registry).await?;
    Ok(match away {
        None => KnownBuckets::all(registry.known()),
        Some(away) => KnownBuckets::some(registry.known_or_configured(), away),
    })
}

/// Returns the buckets of a queue, as [`known`].
///
/// # Errors
///
/// As [`known`].
pub(in crate::store::redis) async fn known_of(
    registry: &Arc<Registry>,
    queue: &QueueName,
) -> Result<KnownBuckets> {
    let Some(away) = read_if_there(registry).await? else {
        return Ok(KnownBuckets::all(registry.known_of(queue)));
    };
    let mut known = registry.known_or_configured();
    known.retain(|bucket| bucket.queue == *queue);
    Ok(KnownBuckets::some(known, away))
}

/// Reads the list; returns why that failed if the server is away and buckets are known.
async fn read_if_there(registry: &Arc<Registry>) -> Result<Option<Error>> {
    let late = || Error::new(ErrorKind::Unavailable, "the server does not respond");
    let patience = if registry.rests() {
        Duration::ZERO
    } else {
        PATIENCE
    };
    let read = async { up_to_date(registry).await.map(drop) };
    let read = tokio::time::timeout(patience, read).await;
    let error = match read.unwrap_or_else(|_| Err(late())) {
        Ok(()) => {
            registry.listing.succeeded(&());
            return Ok(None);
        }
        Err(error) if !is_away(&error) => return Err(error),
        Err(error) => error,
    };
    if !patience.is_zero() {
        *registry.rests_until() = Some(Instant::now() + RESTS);
    }
    let known = registry.known_or_configured();
    let words = format!(
        "the registry of buckets is unavailable: {} of them are known here, and there may be others",
        known.len()
    );
    let away = Error::new(ErrorKind::Unavailable, words).because(error);
    if known.is_empty() {
        return Err(away);
    }
    registry.listing.failed((), &away);
    Ok(Some(away))
}

/// Reads what is new in the list; returns whether all of it was read.
async fn read_new(registry: &Registry, listed: &mut CachedList) -> Result<bool> {
    let hub = &registry.hub;
    let mut is_anew = listed.last.is_none();
    loop {
        let from = listed.len - usize::from(listed.last.is_some());
        let mut command = redis::cmd("LRANGE");
        command.arg(hub.key("registry"));
        command.arg(from).arg(from + PAGE - 1);
        let value = hub.send(&command).await?;
        let mut page = read_page(value)?;
        let is_last = page.len() < PAGE;
        if let Some(last) = &listed.last {
            if page.first().is_none_or(|(entry, _)| entry != last) {
                if std::mem::replace(&mut is_anew, true) {
                    let words = "the registry of buckets changed while it was read";
                    return Err(Error::new(ErrorKind::Unavailable, words));
                }
                *listed = CachedList::default();
                continue;
            }
            page.remove(0);
        }
        registry.note(page.iter().map(|(_, bucket)| bucket));
        for (entry, bucket) in page {
            listed.last = Some(entry);
            listed.len += 1;
            listed.buckets.insert(bucket);
        }
        if is_last {
            return Ok(is_anew);
        }
    }
}

/// Decodes entries of the list, each with its bucket.
pub fn read_page(value: Value) -> Result<Vec<(Vec<u8>, BucketKey)>> {
    let mut parts = ReplyReader::of("register", value)?;
    let mut page = Vec::new();
    while !parts.is_empty() {
        let entry = parts.bytes()?;
        let bucket = bucket_of(&entry).ok_or_else(|| unreadable("register"))?;
        page.push((entry, bucket));
    }
    Ok(page)
}

fn bucket_of(entry: &[u8]) -> Option<BucketKey> {
    bucket_named(std::str::from_utf8(entry.get(TOKEN..)?).ok()?)
}

/// Returns the bucket of a name as in the list, `queue:number`.
pub(in crate::store::redis) fn bucket_named(name: &str) -> Option<BucketKey> {
    let (queue, bucket) = name.rsplit_once(':')?;
    let queue = QueueName::new(queue).ok()?;
    Some(BucketKey::new(queue, BucketId(bucket.parse().ok()?)))
}

/// Returns a random token: equal tokens mean equal content, also after a failover.
pub(in crate::store::redis) fn token() -> [u8; TOKEN] {
    fastrand::u64(1..).to_be_bytes()
}
