//! Ends what has expired in a bucket where nobody fetches, and the leases that are over, before anybody
//! is shown them.

use crate::core::op::BATCH_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::store::redis::link::managed::{ManagedConnection, ScriptReply};
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::Call;
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::table::script;

script! {
    /// Ends what has expired.
    EXPIRE = "expire", DRAINS, Ending,
        ["bucket", "state", "page", "sweep", "bytes", "body", "ending", "expiring"];
    ExpireArguments {
        /// At most 1000.
        limit: usize,
    }
    reply ExpireReply {
        now: u64,
        more: bool,
        ended: usize,
    }
}

script! {
    /// Takes back the leases that are past their own deadline.
    OVERDUE = "overdue", DRAINS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    OverdueArguments<'a> {
        /// The calling process, which is not notified.
        origin: &'a str,
        /// At most 1000.
        take_max: usize,
    }
    reply OverdueReply {
        now: u64,
        earlier: bool,
        more: bool,
        /// How many events are ready again, and how many are dead.
        ready: usize,
        dead: usize,
    }
}

/// What a script says that is refused for what has expired (`lua/unexpired.lua`).
const EXPIRED: &str = "have expired and are to be ended first";
/// And for leases (`lua/unreaped.lua`).
const LEASED: &str = "are past their deadline and are to be ended first";

/// How often a call is tried: events may go on to expire meanwhile.
const TRIES: usize = 8;
/// The most calls that end events, half a thousand each, before one try.
const PIECES: usize = 4_000;

impl Shared {
    /// Runs a script that is refused while events that have expired or leases that are over are to be
    /// ended: it ends them, and calls again. Also returns whether it may have been executed more than once.
    pub(super) async fn call_unexpired(
        &self,
        bucket: &BucketKey,
        link: &ManagedConnection,
        call: &Call,
    ) -> Result<(ReplyReader, bool)> {
        let mut tries = 1;
        loop {
            let reply = self.run_script(link, call).await;
            let refused = |by: &str| reply.as_ref().is_err_and(|error| is_refused(error, by));
            if tries < TRIES && refused(LEASED) {
                self.end_overdue(bucket, link).await?;
                // What was leased past its expiry, which the call, of an earlier time, does not see.
                self.end_expired(bucket, link).await?;
            } else if tries < TRIES && refused(EXPIRED) {
                self.end_expired(bucket, link).await?;
            } else {
                let ScriptReply { value, is_repeat } = reply?;
                return Ok((ReplyReader::of(call.script.name, value)?, is_repeat));
            }
            tries += 1;
        }
    }

    /// Takes back the leases that are past their deadline.
    pub(super) async fn end_overdue(
        &self,
        bucket: &BucketKey,
        link: &ManagedConnection,
    ) -> Result<()> {
        for _ in 0..PIECES {
            let terms = self.terms(bucket);
            let (origin, take_max) = (terms.origin, BATCH_MAX / 2);
            let call = terms.call(OverdueArguments { origin, take_max });
            let reply = OverdueReply::read(&mut self.call(link, &call).await?)?;
            self.learn(&terms, reply.now);
            terms.keys.taken_back.add(reply.ready, reply.dead);
            if reply.earlier {
                self.tell(bucket);
            }
            if reply.ready + reply.dead > 0 {
                self.outboxes.tell(bucket);
            }
            if !reply.more {
                break;
            }
        }
        Ok(())
    }

    async fn end_expired(&self, bucket: &BucketKey, link: &ManagedConnection) -> Result<()> {
        for _ in 0..PIECES {
            let terms = self.terms(bucket);
            let limit = BATCH_MAX / 2;
            let call = terms.call(ExpireArguments { limit });
            let reply = ExpireReply::read(&mut self.call(link, &call).await?)?;
            self.learn(&terms, reply.now);
            if reply.ended > 0 {
                self.outboxes.tell(bucket);
            }
            if !reply.more {
                break;
            }
        }
        Ok(())
    }
}

fn is_refused(error: &Error, refusal: &str) -> bool {
    error.kind() == ErrorKind::Unavailable && error.to_string().contains(refusal)
}
