//! The state that callers, the writer and the readers share; operations are decided here.

use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use crate::core::engine::Bucket;
use crate::core::op::{Response, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, Payload, QueueName};
use crate::outage::Outage;
use crate::record::{Cursor, NodeId};
use crate::sqlite::records;
use crate::store::clock::StoreTime;
use crate::store::control::Setting;
use crate::store::embedded::cache::Cache;
use crate::store::embedded::change::{Change, Changes};
use crate::store::embedded::change_recorder::ChangeRecorder;
use crate::store::embedded::file::{Lock, Paths};
use crate::store::embedded::pending::{Chunk, Pending};
use crate::store::embedded::reader::{ReadThread, Reader};
use crate::store::embedded::retention::SharedKeep;
use crate::store::embedded::space::Space;
use crate::store::embedded::starts::{self, Start, Starts};
use crate::store::embedded::stop::StopReason;
use crate::store::embedded::ticket::{self, CommitPart, CommitTicket};
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
    pub(super) reading: ReadThread<Reader>,
    /// Reads records, whose pages take longer.
    pub(super) records: ReadThread<records::Reader>,
    pub(super) keep: SharedKeep,
    pub(super) space: Space,
    pub(super) starts: Mutex<Starts>,
    pub(super) stop: OnceLock<Arc<StopReason>>,
    pub(super) lock: Mutex<Option<Lock>>,
    /// Starts and releases that cannot be noted.
    pub(super) log: Outage,
    /// Resolved when the last byte is written and every file is closed.
    pub(super) ended: Arc<CommitTicket>,
}

/// An answer whose bodies are still to be found, and what must be on disk before it may be given.
pub(super) struct Decision {
    pub(super) response: Response<i64>,
    pub(super) wait: Option<(Arc<CommitTicket>, CommitPart)>,
    /// Who fetched, if it was a fetch.
    pub(super) node: NodeId,
}

impl Shared {
    /// Lets the engine decide, and hands what is to be remembered to the writer.
    pub(super) fn decide(&self, key: &BucketKey, op: StoreOp) -> Result<Decision> {
        self.admit(&op)?;
        let part_of_op = match op {
            StoreOp::Push(_) => CommitPart::Pushes,
            _ => CommitPart::Rest,
        };
        let mut part = part_of_op;
        let must_wait = op.waits();
        let node = match &op {
            StoreOp::Fetch(fetch) => fetch.node,
            _ => NodeId::default(),
        };
        let released = starts::released(&op);
        let rule = WakeRule::of(&op);
        let now_us = self.time.now_us();
        let mut recorder = ChangeRecorder::new(&self.cache);
        let mut noted = None;
        let decide = |bucket: &mut Bucket<i64>| {
            let response = bucket.apply(now_us, op, &mut recorder);
            let mut changes = recorder.changes;
            // Also of one that is refused: what had expired has ended.
            if !released.is_empty() {
                noted = Some(self.hand_back(bucket, &released));
            }
            let wait = if changes.is_empty() {
                // It may rest on what others decided and nobody has written yet.
                must_wait.then(|| self.pending.newest()).flatten()
            } else {
                let is_addition = |change: &Change| matches!(change, Change::Added { .. });
                if changes.list.is_empty() || !changes.list.iter().all(is_addition) {
                    // A push with which something ends is never refused: that cannot be undone.
                    part = CommitPart::Rest;
                } else if part == CommitPart::Pushes
                    && let Some(window) = changes.window.take()
                {
                    // Nor can this be: a watermark that was lowered stays so. But it needs no
                    // payload, which the disk may have no room for.
                    let window = Changes {
                        window: Some(window),
                        ..Changes::default()
                    };
                    self.submit(Some(key.clone()), window, CommitPart::Rest)?;
                }
                let ticket = self.submit(Some(key.clone()), changes, part)?;
                Some(ticket).filter(|_| must_wait)
            };
            Ok(Decision {
                response: response?,
                wait: wait.map(|ticket| (ticket, part)),
                node,
            })
        };
        let decision = match part_of_op {
            CommitPart::Pushes => self.shards.change(key, rule, decide),
            CommitPart::Rest => self.shards.change_known(key, rule, decide),
        };
        if let Some(noted) = noted {
            self.handed_back(noted);
        }
        decision
    }

    /// Sets one thing of a queue; it is kept once the ticket is resolved.
    pub(super) fn set(&self, queue: &QueueName, setting: Setting) -> Result<Arc<CommitTicket>> {
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
            self.submit(None, changes, CommitPart::Rest)
        })
    }

    /// Erases what records hold; it is done once the ticket is resolved.
    pub(super) fn erase(&self, places: Vec<Cursor>) -> Result<Arc<CommitTicket>> {
        if self.stop.get().is_some() {
            return Err(self.why_closed());
        }
        let changes = Changes {
            list: vec![Change::Erased(places)],
            ..Changes::default()
        };
        self.submit(None, changes, CommitPart::Rest)
    }

    /// Hands the writer changes; those of a bucket with it locked.
    fn submit(
        &self,
        bucket: Option<BucketKey>,
        changes: Changes,
        part: CommitPart,
    ) -> Result<Arc<CommitTicket>> {
        let ticket = self.pending.submit(Chunk {
            bucket,
            changes,
            part,
        });
        ticket.ok_or_else(|| self.why_closed())
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
            }
            StoreOp::Update { payload, .. } => fits(payload)?,
            StoreOp::EditAndRevive(edit) => fits(&edit.payload)?,
            StoreOp::Rewrite(rewritings) => {
                rewritings.iter().try_for_each(|one| fits(&one.payload))?;
            }
            _ => return Ok(()),
        }
        // What brings a payload would take the room that is kept for the outcomes of handlers.
        if self.space.is_full() {
            return Err(ticket::full());
        }
        if self.pending.has_room() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Full,
            "the disk is slower than the calls and too many payloads wait to be written; call \
             again in a moment",
        ))
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

    /// Returns what is wrong when the path of a file does not lead to it any more, or it was cut.
    pub(super) fn moved(&self) -> Option<String> {
        let mut lock = self.lock.lock();
        lock.as_mut().and_then(Lock::moved)
    }

    /// The log was copied into the data file.
    pub(super) fn copied(&self) {
        if let Some(lock) = self.lock.lock().as_mut() {
            lock.copied();
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.time.now()
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
