//! What the callers, the writer and the reader share, and how a caller's operation is decided.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use crate::core::op::{
    Answer, AttemptOutcome, DeadPage, Delivery, Fetched, Peeked, Reply, Settlement, StartMark,
    StoreOp,
};
use crate::core::reference::Bucket;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, Envelope, Payload, QueueName};
use crate::outage::Outage;
use crate::record::NodeId;
use crate::sqlite::records;
use crate::store::clock::StoreTime;
use crate::store::control::Setting;
use crate::store::embedded::cache::{Cache, Cached};
use crate::store::embedded::file::{Lock, Paths};
use crate::store::embedded::gate::{self, Gate, Lane};
use crate::store::embedded::ledger::{Change, Changes, Row, Scribe};
use crate::store::embedded::pending::{Chunk, Pending};
use crate::store::embedded::reader::{Reader, Reading};
use crate::store::embedded::retention::Kept;
use crate::store::embedded::space::Space;
use crate::store::embedded::starts::{self, Start, Starts};
use crate::store::embedded::stop::Stop;
use crate::store::hub::LocalMembership;
use crate::store::shards::{Shards, WakeRule};
use crate::time::Timestamp;

/// The longest payload: far above every sensible one, well below what SQLite can hold.
const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// Everything but the connection that writes.
///
/// Locks are taken in this order: a bucket or the hub, then one of the others; never two of the
/// others.
pub(super) struct Shared {
    pub(super) time: StoreTime,
    pub(super) paths: Paths,
    pub(super) shards: Shards<i64>,
    pub(super) hub: LocalMembership,
    pub(super) cache: Mutex<Cache>,
    pub(super) pending: Pending,
    /// Reads bodies, which a fetch may wait for.
    pub(super) reading: Reading<Reader>,
    /// Reads records, whose pages take longer.
    pub(super) records: Reading<records::Reader>,
    pub(super) keep: Kept,
    pub(super) space: Space,
    pub(super) starts: Mutex<Starts>,
    pub(super) stop: OnceLock<Arc<Stop>>,
    pub(super) lock: Mutex<Option<Lock>>,
    /// Starts and releases that cannot be noted.
    pub(super) log: Outage,
    /// Opened when the last byte is written and every file is closed.
    pub(super) ended: Arc<Gate>,
}

/// An answer whose bodies are still to be found, and what must be on disk before it may be given.
pub(super) struct Decided {
    pub(super) answer: Answer<i64>,
    pub(super) wait: Option<(Arc<Gate>, Lane)>,
    /// Who fetched, if it was a fetch.
    pub(super) node: NodeId,
}

/// A body on its way to the caller.
#[derive(Debug)]
pub(super) struct Known {
    row: Row,
    cached: Cached,
}

impl Shared {
    /// Lets the reference store decide, and hands what is to be remembered to the writer.
    pub(super) fn decide(&self, key: &BucketKey, op: StoreOp) -> Result<Decided> {
        self.admit(&op)?;
        let lane_of_op = match op {
            StoreOp::Push(_) => Lane::Pushes,
            _ => Lane::Rest,
        };
        let mut lane = lane_of_op;
        let must_wait = op.waits();
        let node = match &op {
            StoreOp::Fetch(fetch) => fetch.node,
            _ => NodeId::default(),
        };
        let released = starts::released(&op);
        let news = WakeRule::of(&op);
        let now_us = self.time.now_us();
        let mut scribe = Scribe::new(&self.cache);
        let decide = |bucket: &mut Bucket<i64>| {
            let answer = bucket.apply(now_us, op, &mut scribe);
            let changes = scribe.changes;
            // Also of one that is refused: what had expired has ended.
            if !released.is_empty() {
                self.hand_back(bucket, &released);
            }
            let wait = if changes.is_empty() {
                // It may rest on what others decided and nobody has written yet.
                must_wait.then(|| self.pending.newest()).flatten()
            } else {
                let replaces = |change: &Change| matches!(change, Change::Removed(_));
                if changes.list.iter().any(replaces) {
                    // What takes another's place is never refused: half of it cannot be undone.
                    lane = Lane::Rest;
                }
                let gate = self.pending.submit(Chunk {
                    bucket: Some(key.clone()),
                    changes,
                    lane,
                });
                Some(gate.ok_or_else(|| self.why_closed())?).filter(|_| must_wait)
            };
            Ok(Decided {
                answer: answer?,
                wait: wait.map(|gate| (gate, lane)),
                node,
            })
        };
        match lane_of_op {
            Lane::Pushes => self.shards.change(key, news, decide),
            Lane::Rest => self.shards.change_known(key, news, decide),
        }
    }

    /// Sets one thing of a queue; it is kept when the gate says so.
    pub(super) fn set(&self, queue: &QueueName, setting: Setting) -> Result<Arc<Gate>> {
        if self.stop.get().is_some() {
            return Err(self.why_closed());
        }
        self.hub.set(queue, setting, |control| {
            let changes = Changes {
                list: vec![Change::Controlled {
                    queue: queue.to_string(),
                    control,
                }],
                ..Changes::default()
            };
            self.submit_beside(changes)
        })
    }

    /// Hands the writer changes that are none of an event.
    fn submit_beside(&self, changes: Changes) -> Result<Arc<Gate>> {
        let gate = self.pending.submit(Chunk {
            bucket: None,
            changes,
            lane: Lane::Rest,
        });
        gate.ok_or_else(|| self.why_closed())
    }

    /// Refuses what cannot be done now, before anything of it is.
    fn admit(&self, op: &StoreOp) -> Result<()> {
        if self.stop.get().is_some() || self.pending.is_closed() {
            return Err(self.why_closed());
        }
        let fits = |payload: &Payload| {
            if payload.len() <= PAYLOAD_BYTES_MAX {
                return Ok(());
            }
            Err(Error::invalid(format!(
                "the payload has {} bytes, the embedded store takes at most {PAYLOAD_BYTES_MAX}",
                payload.len()
            )))
        };
        match op {
            StoreOp::Push(events) => {
                events
                    .iter()
                    .try_for_each(|event| fits(&event.envelope.payload))?;
                if self.space.is_full() {
                    return Err(gate::full());
                }
                if !self.pending.has_room() {
                    return Err(Error::new(
                        ErrorKind::Full,
                        "the disk is slower than the pushes and too many wait to be written; push \
                         again in a moment",
                    ));
                }
                Ok(())
            }
            StoreOp::Update { payload, .. } => fits(payload),
            StoreOp::EditAndRevive(edit) => fits(&edit.payload),
            StoreOp::Rewrite(rewritings) => {
                rewritings.iter().try_for_each(|one| fits(&one.payload))
            }
            _ => Ok(()),
        }
    }

    /// Finds the bodies that are in memory; `Err` when some must be read.
    pub(super) fn find(
        &self,
        answer: Answer<i64>,
    ) -> std::result::Result<Answer, Box<Answer<Known>>> {
        let cache = self.cache.lock();
        let mut whole = true;
        let known = answer.reply.try_map(|id, number| {
            let row = Row::new(number, id);
            let cached = cache.get(row);
            whole &= matches!(cached, Cached::Whole(_));
            Ok::<_, std::convert::Infallible>(Known { row, cached })
        });
        drop(cache);
        let Ok(reply) = known;
        let now_us = answer.now_us;
        let answer = Answer { now_us, reply };
        if !whole {
            return Err(Box::new(answer));
        }
        Ok(finish(answer))
    }

    /// Reads the bodies that are not in memory; a delivery whose bytes are damaged is set aside.
    pub(super) fn load(
        &self,
        reader: &Reader,
        mut answer: Answer<Known>,
        bucket: &BucketKey,
        node: NodeId,
    ) -> Result<Answer> {
        match &mut answer.reply {
            Reply::Fetched(Fetched { deliveries, .. }) => {
                for mut delivery in std::mem::take(deliveries) {
                    match fill(reader, &mut delivery.body)? {
                        Ok(()) => deliveries.push(delivery),
                        Err(why) => self.set_aside(bucket, node, &delivery, &why),
                    }
                }
            }
            Reply::Found(Some(snapshot)) => forget_damaged(reader, &mut snapshot.body)?,
            Reply::Peeked(Peeked { events: all, .. })
            | Reply::Dead(DeadPage { letters: all, .. }) => {
                for event in all {
                    forget_damaged(reader, &mut event.body)?;
                }
            }
            _ => {}
        }
        Ok(finish(answer))
    }

    /// Takes an event out of circulation whose bytes cannot be believed.
    fn set_aside(&self, bucket: &BucketKey, node: NodeId, delivery: &Delivery<Known>, why: &Error) {
        let now_us = self.time.now_us();
        let settlement = Settlement {
            id: delivery.id,
            request: delivery.request,
            verdict: AttemptOutcome::Discard(Some(format!("{why}; its bytes were set aside"))),
            started_us: 0,
            fetched_us: now_us,
        };
        let op = StoreOp::Settle {
            node,
            settlements: vec![settlement],
            started: StartMark::default(),
        };
        let mut scribe = Scribe::new(&self.cache);
        scribe.changes.list.push(Change::Damaged {
            row: delivery.body.row,
            why: why.to_string(),
        });
        self.shards.change(bucket, WakeRule::Known, |shard| {
            let settled = shard.apply(now_us, op, &mut scribe);
            // Refused: somebody else has settled it, and its row is gone for that reason.
            if settled.is_ok_and(|answer| answer.reply == Reply::Settled(vec![true])) {
                tracing::error!(event = %delivery.id, %why, "damaged event moved to the dead letters");
                self.pending.submit(Chunk {
                    bucket: Some(bucket.clone()),
                    changes: scribe.changes,
                    lane: Lane::Rest,
                });
            }
        });
    }

    /// What was decided is on disk, and what was pushed takes effect; `ended`, as records say.
    pub(super) fn confirm(&self, chunks: &[Chunk], ended: &[Start]) {
        let now = self.time.now();
        let changes = chunks.iter().map(|chunk| &chunk.changes);
        let with_bodies = changes.filter(|changes| changes.have_bodies);
        let mut cache = self.cache.lock();
        for change in with_bodies.flat_map(|changes| &changes.list) {
            match change {
                Change::Added { row, due, .. } => cache.written(*row, *due, now),
                Change::Updated { row, payload } => cache.updated(*row, payload),
                _ => {}
            }
        }
        drop(cache);
        for chunk in chunks {
            let held = &chunk.changes.held;
            if let Some(bucket) = &chunk.bucket
                && !held.is_empty()
            {
                let confirm = |bucket: &mut Bucket<i64>| bucket.confirm(held);
                self.shards.change(bucket, WakeRule::Tell, confirm);
            }
        }
        if !ended.is_empty() {
            self.starts().ended(ended);
        }
    }

    /// What was pushed found no room, and never was.
    pub(super) fn refuse(&self, chunk: &Chunk) {
        if let Some(bucket) = &chunk.bucket {
            self.shards.change(bucket, WakeRule::Known, |bucket| {
                bucket.forget(&chunk.changes.held);
            });
        }
        let mut cache = self.cache.lock();
        for change in &chunk.changes.list {
            if let Change::Added { row, .. } = change {
                cache.forget(*row);
            }
        }
    }

    pub(super) fn starts(&self) -> MutexGuard<'_, Starts> {
        self.starts.lock()
    }

    /// Returns what is wrong when the path of a file does not lead to it any more.
    pub(super) fn moved(&self) -> Option<String> {
        let lock = self.lock.lock();
        lock.as_ref().and_then(Lock::moved)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.time.now()
    }
}

/// Reads one body where it is not in memory; `Ok(Err)` says why it cannot be believed.
fn fill(reader: &Reader, known: &mut Known) -> Result<Result<()>> {
    let payload = match &known.cached {
        Cached::Whole(_) => return Ok(Ok(())),
        Cached::Updated(payload) => Some(payload.clone()),
        Cached::OnDisk => None,
    };
    Ok(reader.envelope(known.row)?.map(|mut envelope: Envelope| {
        if let Some(payload) = payload {
            envelope.payload = payload;
        }
        known.cached = Cached::Whole(Arc::new(envelope));
    }))
}

/// A look at an event shows no body where it is damaged; a fetch will set it aside.
fn forget_damaged(reader: &Reader, body: &mut Option<Known>) -> Result<()> {
    if let Some(known) = body
        && fill(reader, known)?.is_err()
    {
        *body = None;
    }
    Ok(())
}

/// An answer all of whose bodies are in memory.
fn finish(answer: Answer<Known>) -> Answer {
    let reply = answer.reply.try_map(|_, known| match known.cached {
        Cached::Whole(envelope) => Ok(envelope),
        Cached::OnDisk | Cached::Updated(_) => Err(()),
    });
    Answer {
        now_us: answer.now_us,
        // Every body was found or taken out before.
        reply: reply.unwrap_or(Reply::Found(None)),
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("data", &self.paths.data)
            .field("full", &self.space.is_full())
            .field("stop", &self.stop.get())
            .finish_non_exhaustive()
    }
}
