//! Ends what has expired in a bucket where nobody fetches, before anybody is shown it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::core::op::SetAside;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::store::redis::decode::ReplyReader;
use crate::store::redis::encode::Call;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::shared::Shared;

/// What a script says that is refused for it (`lua/unexpired.lua`).
const REFUSAL: &str = "are to be ended first";

/// How often a call is tried: events may go on to expire meanwhile.
const TRIES: usize = 8;
/// The most calls that end events, half a thousand each, before one try.
const PIECES: usize = 4_000;
/// The most buckets of which it is known how many have expired: those of one that nobody here
/// fetches from are counted nowhere.
const TOLD_LATER_MAX: usize = 4_096;

/// What this process has ended since its last move or fetch of each bucket, which tells of it.
#[derive(Debug, Default)]
pub(super) struct ToldLater(Mutex<HashMap<BucketKey, SetAside>>);

impl ToldLater {
    fn add(&self, bucket: &BucketKey, ended: SetAside) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < TOLD_LATER_MAX || all.contains_key(bucket) {
            let known = all.entry(bucket.clone()).or_default();
            known.expired += ended.expired;
            known.late += ended.late;
        }
    }

    /// Removes what is to be told of a bucket, and adds it to `aside`.
    pub(super) fn tell(&self, bucket: &BucketKey, aside: &mut SetAside) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.remove(bucket) {
            aside.expired += known.expired;
            aside.late += known.late;
        }
    }
}

impl Shared {
    /// Runs a script that is refused while events that have expired are to be ended: it ends them, and
    /// calls again.
    pub(super) async fn call_unexpired(
        &self,
        bucket: &BucketKey,
        link: &ManagedConnection,
        call: &Call,
    ) -> Result<ReplyReader> {
        let mut tries = 1;
        loop {
            match self.call(link, call).await {
                Err(error) if tries < TRIES && is_refusal(&error) => tries += 1,
                answer => return answer,
            }
            self.end_expired(bucket, link).await?;
        }
    }

    async fn end_expired(&self, bucket: &BucketKey, link: &ManagedConnection) -> Result<()> {
        let keys = self.keys(bucket);
        for _ in 0..PIECES {
            let terms = self.terms();
            let call = terms.expire(&keys);
            let mut parts = self.call(link, &call).await?;
            self.learn(&keys, terms.mono_us, parts.number()?);
            let has_more = parts.is_so()?;
            let ended = SetAside {
                expired: parts.count()?,
                late: parts.count()?,
            };
            if ended != SetAside::default() {
                self.aside.add(bucket, ended);
                self.outboxes.tell(bucket);
            }
            if !has_more {
                break;
            }
        }
        Ok(())
    }
}

fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.to_string().contains(REFUSAL)
}
