//! The registry of buckets: a list on the servers that only grows, cached here.
//!
//! Each entry begins with a random token, drawn by whoever wrote it. So a reader that finds the
//! last entry that it knows at its place knows everything before it as well, and reads only what is
//! new; one that does not find it talks to a server that lost a tail of writes in a failover, and
//! reads all anew. Buckets that this process knows and the list lacks are then written again.

mod writer;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::time::Instant;

pub(super) use self::writer::ensure;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketId, BucketKey, QueueName};
use crate::outage::Outage;
use crate::store::KnownBuckets;
use crate::store::redis::answer::{Parts, unreadable};
use crate::store::redis::hub;
use crate::store::redis::shared::Shared;

/// How many entries are read at once.
const PAGE: usize = 1_000;
/// How long is waited for the list where what is known will do.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// For how long it is not asked again where it did not answer.
const RESTS: Duration = Duration::from_secs(5);
/// The length of a token.
const TOKEN: usize = 8;

/// What this process knows of the registry.
pub(super) struct Registry {
    /// The list as it was read last.
    listed: tokio::sync::Mutex<Listed>,
    /// Buckets that are in the list: read there, or written by this process.
    known: RwLock<HashSet<BucketKey>>,
    /// How many buckets of a queue whoever consumes it serves by its settings.
    configured: RwLock<Configured>,
    writing: Mutex<Writing>,
    /// Counts attempts to write.
    attempts: watch::Sender<u64>,
    outage: Outage,
    /// The same of reading all of it.
    asked: Outage,
    /// Until when what is known will do where it does: the list did not answer just now.
    rests_until: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Configured {
    queues: BTreeMap<QueueName, u16>,
    others: u16,
}

#[derive(Default)]
struct Listed {
    buckets: Vec<BucketKey>,
    /// The last entry.
    last: Option<Vec<u8>>,
}

/// What the writer has to do.
#[derive(Default)]
struct Writing {
    /// Buckets that have to be written.
    missing: BTreeSet<BucketKey>,
    /// On which connection the list was compared last with what is known: another one may lead to a
    /// server that lacks some of it.
    compared_on: u64,
    must_compare: bool,
    /// Whether a task is at work.
    is_running: bool,
    /// Why the last attempt failed, or that it takes long.
    trouble: Option<(ErrorKind, Arc<str>)>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            listed: tokio::sync::Mutex::default(),
            known: RwLock::default(),
            configured: RwLock::default(),
            writing: Mutex::default(),
            attempts: watch::Sender::new(0),
            outage: Outage::of("registry of buckets"),
            asked: Outage::of("list of buckets"),
            rests_until: Mutex::default(),
        }
    }
}

impl Registry {
    /// Notes how many buckets the settings give to each queue, and to any other.
    pub(super) fn configure(&self, queues: &BTreeMap<QueueName, u16>, others: u16) {
        let mut configured = self.configured.write();
        let configured = configured.as_mut().unwrap_or_else(|error| error.get_mut());
        configured.queues.extend(queues.clone());
        configured.others = others;
    }

    /// Whether a bucket is served by whoever consumes its queue, also where it is not in the list.
    fn is_configured(&self, bucket: &BucketKey) -> bool {
        let configured = self.configured.read();
        let configured = configured.unwrap_or_else(PoisonError::into_inner);
        let many = configured.queues.get(&bucket.queue);
        bucket.bucket.0 < *many.unwrap_or(&configured.others)
    }

    fn is_known(&self, bucket: &BucketKey) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.contains(bucket)
    }

    fn note<'a>(&self, buckets: impl IntoIterator<Item = &'a BucketKey>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(buckets.into_iter().cloned());
    }

    /// The buckets that are known, sorted.
    pub(super) fn known(&self) -> Vec<BucketKey> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<_> = known.iter().cloned().collect();
        known.sort_unstable();
        known
    }

    /// These and those that the settings name, sorted.
    fn known_or_configured(&self) -> Vec<BucketKey> {
        let mut buckets = BTreeSet::from_iter(self.known());
        let configured = self.configured.read();
        let configured = configured.unwrap_or_else(PoisonError::into_inner);
        for (queue, many) in &configured.queues {
            let named = (0..*many).map(|bucket| BucketKey::new(queue.clone(), BucketId(bucket)));
            buckets.extend(named);
        }
        buckets.into_iter().collect()
    }

    /// Whether the list did not answer just now.
    fn rests(&self) -> bool {
        self.rests_until()
            .is_some_and(|until| Instant::now() < until)
    }

    fn rests_until(&self) -> MutexGuard<'_, Option<Instant>> {
        let until = self.rests_until.lock();
        until.unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every bucket in the list, sorted; reads what is new.
///
/// # Errors
///
/// When the server cannot be read.
pub(super) async fn read(shared: &Arc<Shared>) -> Result<Vec<BucketKey>> {
    let before = shared.registry.known();
    let mut listed = shared.registry.listed.lock().await;
    read_new(shared, &mut listed).await?;
    shared.registry.note(&listed.buckets);
    let mut buckets = listed.buckets.clone();
    drop(listed);
    buckets.sort_unstable();
    // What was known before the list was read has to be in it.
    let is_lost = |bucket: &BucketKey| buckets.binary_search(bucket).is_err();
    let lost: Vec<_> = before.into_iter().filter(is_lost).collect();
    if !lost.is_empty() {
        writer::write(shared, lost);
    }
    Ok(buckets)
}

/// Every bucket in the list; while the server is away those that are known or that the settings name.
///
/// # Errors
///
/// When the server cannot be read, and nothing is known.
pub(super) async fn known(shared: &Arc<Shared>) -> Result<KnownBuckets> {
    let registry = &shared.registry;
    let late = || Error::new(ErrorKind::Unavailable, "the server does not answer");
    let patience = match registry.rests() {
        true => Duration::ZERO,
        false => PATIENCE,
    };
    let read = tokio::time::timeout(patience, read(shared)).await;
    let error = match read.unwrap_or_else(|_| Err(late())) {
        Ok(buckets) => {
            registry.asked.succeeded(&());
            return Ok(KnownBuckets::all(buckets));
        }
        Err(error) if !hub::is_away(&error) => return Err(error),
        Err(error) => error,
    };
    if !patience.is_zero() {
        *registry.rests_until() = Some(Instant::now() + RESTS);
    }
    let known = registry.known_or_configured();
    let words = format!(
        "the registry of buckets is away: {} of them are known here, and there may be others",
        known.len()
    );
    let away = Error::new(ErrorKind::Unavailable, words).because(error);
    if known.is_empty() {
        return Err(away);
    }
    registry.asked.failed((), &away);
    Ok(KnownBuckets::some(known, away))
}

async fn read_new(shared: &Shared, listed: &mut Listed) -> Result<()> {
    let mut is_anew = listed.last.is_none();
    loop {
        let from = listed.buckets.len() - usize::from(listed.last.is_some());
        let mut command = redis::cmd("LRANGE");
        command.arg(hub::key(shared, "registry"));
        command.arg(from).arg(from + PAGE - 1);
        let value = shared.send(&shared.links.hub, &command).await?;
        let mut page = read_page(value)?;
        let is_last = page.len() < PAGE;
        if let Some(last) = &listed.last {
            if page.first().is_none_or(|(entry, _)| entry != last) {
                if std::mem::replace(&mut is_anew, true) {
                    let words = "the registry of buckets changed while it was read";
                    return Err(Error::new(ErrorKind::Unavailable, words));
                }
                *listed = Listed::default();
                continue;
            }
            page.remove(0);
        }
        for (entry, bucket) in page {
            listed.last = Some(entry);
            listed.buckets.push(bucket);
        }
        if is_last {
            return Ok(());
        }
    }
}

/// Entries of the list, each with the bucket that it names.
pub fn read_page(value: Value) -> Result<Vec<(Vec<u8>, BucketKey)>> {
    let mut parts = Parts::of("register", value)?;
    let mut page = Vec::new();
    while !parts.is_empty() {
        let entry = parts.bytes()?;
        let bucket = bucket_of(&entry).ok_or_else(|| unreadable("register"))?;
        page.push((entry, bucket));
    }
    Ok(page)
}

fn bucket_of(entry: &[u8]) -> Option<BucketKey> {
    let name = std::str::from_utf8(entry.get(TOKEN..)?).ok()?;
    let (queue, bucket) = name.rsplit_once(':')?;
    let queue = QueueName::new(queue).ok()?;
    Some(BucketKey::new(queue, BucketId(bucket.parse().ok()?)))
}

/// A random token: an equal one means equal content, also after a failover.
pub(super) fn token() -> [u8; TOKEN] {
    fastrand::u64(1..).to_be_bytes()
}
