//! The bodies of a reply: from memory, or read from the file.

use std::sync::Arc;

use crate::core::op::{
    AttemptOutcome, DeadPage, Delivery, FetchReport, PeekPage, Reply, Response, Settlement,
    StartMark, StoreOp,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, Envelope};
use crate::metrics::found_damage;
use crate::panics;
use crate::record::NodeId;
use crate::store::embedded::cache::CacheEntry;
use crate::store::embedded::change::Change;
use crate::store::embedded::change_recorder::ChangeRecorder;
use crate::store::embedded::pending::Chunk;
use crate::store::embedded::reader::Reader;
use crate::store::embedded::row::Row;
use crate::store::embedded::shared::Shared;
use crate::store::embedded::sqlite::{self, Failure};
use crate::store::embedded::stop::StopReason;
use crate::store::embedded::ticket::CommitPart;
use crate::store::shards::WakeRule;

/// A body on its way to the caller.
#[derive(Debug)]
pub(super) struct BodyLookup {
    row: Row,
    cached: CacheEntry,
}

impl Shared {
    /// Finds the bodies that are in memory; `Err` when some must be read.
    pub(super) fn find(
        &self,
        response: Response<i64>,
    ) -> std::result::Result<Response, Box<Response<BodyLookup>>> {
        let cache = self.cache.lock();
        let mut whole = true;
        let known = response.reply.try_map(|id, number| {
            let row = Row::new(number, id);
            let cached = cache.get(row);
            whole &= matches!(cached, CacheEntry::Whole(_));
            Ok::<_, std::convert::Infallible>(BodyLookup { row, cached })
        });
        drop(cache);
        let Ok(reply) = known;
        let now_us = response.now_us;
        let response = Response { now_us, reply };
        if !whole {
            return Err(Box::new(response));
        }
        Ok(finish(response))
    }

    /// Reads the bodies that are not in memory; a delivery whose bytes are damaged is set aside.
    ///
    /// A page that cannot be read stops the store: what has bytes there can be neither delivered nor
    /// set aside, and its neighbours would wait behind it.
    pub(super) fn load(
        &self,
        reader: &Reader,
        mut response: Response<BodyLookup>,
        bucket: &BucketKey,
        node: NodeId,
    ) -> Result<Response> {
        match self.read(reader, &mut response.reply, bucket, node) {
            Ok(()) => Ok(finish(response)),
            Err(failure) if failure.is_of_the_file() => {
                let stop = StopReason::new("an event could not be read", failure.error);
                let error = stop.unknown();
                self.stop(stop);
                Err(error)
            }
            Err(failure) => Err(sqlite::at_read(failure)),
        }
    }

    fn read(
        &self,
        reader: &Reader,
        reply: &mut Reply<BodyLookup>,
        bucket: &BucketKey,
        node: NodeId,
    ) -> Result<(), Failure> {
        match reply {
            Reply::Fetched(FetchReport { deliveries, .. }) => {
                for mut delivery in std::mem::take(deliveries) {
                    match fill(reader, &mut delivery.body)? {
                        Ok(()) => deliveries.push(delivery),
                        Err(why) => self.set_aside(bucket, node, &delivery, &why),
                    }
                }
            }
            Reply::Snapshot(Some(snapshot)) => forget_damaged(reader, &mut snapshot.body)?,
            Reply::Peeked(PeekPage { events: all, .. })
            | Reply::Dead(DeadPage { letters: all, .. }) => {
                for event in all {
                    forget_damaged(reader, &mut event.body)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes an event out of circulation whose bytes cannot be believed.
    fn set_aside(
        &self,
        bucket: &BucketKey,
        node: NodeId,
        delivery: &Delivery<BodyLookup>,
        why: &Error,
    ) {
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
        let mut recorder = ChangeRecorder::new(&self.cache);
        recorder.changes.list.push(Change::Damaged {
            row: delivery.body.row,
            why: why.to_string(),
        });
        let is_settled = self.shards.change(bucket, WakeRule::Known, |shard| {
            let settled = shard.apply(now_us, op, &mut recorder);
            // Refused: somebody else has settled it, and its row is gone for that reason.
            let is_settled =
                settled.is_ok_and(|response| response.reply == Reply::Settled(vec![true]));
            if is_settled {
                self.pending.submit(Chunk {
                    bucket: Some(bucket.clone()),
                    changes: recorder.changes,
                    part: CommitPart::Rest,
                });
            }
            is_settled
        });
        if is_settled {
            // Without the lock: a subscriber or a recorder may call the store.
            panics::reported(|| {
                tracing::error!(
                    event = %delivery.id,
                    %why,
                    "damaged event discarded; its bytes are in the table `damaged`"
                );
            });
            found_damage("fetch", 1);
        }
    }
}

/// Reads one body where it is not in memory; `Ok(Err)` says why it cannot be believed.
fn fill(reader: &Reader, known: &mut BodyLookup) -> Result<Result<()>, Failure> {
    let payload = match &known.cached {
        CacheEntry::Whole(_) => return Ok(Ok(())),
        CacheEntry::Updated(payload) => Some(payload.clone()),
        CacheEntry::OnDisk => None,
    };
    Ok(reader.envelope(known.row)?.map(|mut envelope: Envelope| {
        if let Some(payload) = payload {
            envelope.payload = payload;
        }
        known.cached = CacheEntry::Whole(Arc::new(envelope));
    }))
}

/// A look at an event shows no body where it is damaged; a fetch will set it aside.
fn forget_damaged(reader: &Reader, body: &mut Option<BodyLookup>) -> Result<(), Failure> {
    if let Some(known) = body
        && fill(reader, known)?.is_err()
    {
        *body = None;
    }
    Ok(())
}

/// The error of a fetch whose bodies were not read: its events are leased, and its repeat returns them.
pub(super) fn at_fetch(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Closed | ErrorKind::Unknown => error,
        _ => {
            let what = format!("events were leased that could not be read: {error}");
            Error::new(ErrorKind::Unknown, what).because(error)
        }
    }
}

/// An answer all of whose bodies are in memory.
fn finish(response: Response<BodyLookup>) -> Response {
    let reply = response.reply.try_map(|_, known| match known.cached {
        CacheEntry::Whole(envelope) => Ok(envelope),
        CacheEntry::OnDisk | CacheEntry::Updated(_) => Err(()),
    });
    Response {
        now_us: response.now_us,
        // Every body was found or taken out before.
        reply: reply.unwrap_or(Reply::Snapshot(None)),
    }
}
