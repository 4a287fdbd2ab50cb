//! Ends what has expired in a bucket where nobody fetches, and the leases that are over, before anybody
//! is shown them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::RedisError;

use crate::core::op::BATCH_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::metrics::found_damage;
use crate::store::redis::link::fault::{self, is_of_the_data};
use crate::store::redis::link::managed::{ManagedConnection, ScriptReply, maybe_applied};
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::{Call, CallContext, us};
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
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back", "taken"];
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
        ended: usize,
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

/// For how long calls go on beside what could not be ended, before it is tried again.
const GOES_ON_FOR: Duration = Duration::from_secs(10);

/// What is over, though nobody has ended it.
#[derive(Clone, Copy, Debug)]
enum Over {
    /// Leases past their deadline.
    Leases,
    /// Events that have expired.
    Events,
}

impl Shared {
    /// Runs a script that is refused while events that have expired or leases that are over are to be
    /// ended: it ends them, and calls again. Also returns whether it may have been executed more than once.
    ///
    /// Where what is stored cannot be ended, the call goes on beside it: one broken key fails no more
    /// than what needs it. `terms` are then those of the call that was executed: what its reply says of
    /// the time is compared with them.
    pub(super) async fn call_unexpired<'a>(
        &'a self,
        terms: &mut CallContext<'a>,
        link: &ManagedConnection,
        made: impl Fn(&CallContext<'_>) -> Result<Call>,
    ) -> Result<(ReplyReader, bool)> {
        let bucket = terms.bucket;
        let (mut call, mut is_repeat) = (made(terms)?, false);
        for _ in 1..TRIES {
            let reply = self.run_script(bucket, link, &call).await;
            let refused = |by: &str| reply.as_ref().is_err_and(|error| is_refused(error, by));
            let is_ended = if refused(LEASED) {
                // What was leased past its expiry, which the call, of an earlier time, does not see.
                let are_leases_ended = self.end_overdue(bucket, link).await?;
                self.end_expired(bucket, link).await? && are_leases_ended
            } else if refused(EXPIRED) {
                self.end_expired(bucket, link).await?
            } else {
                if reply.is_ok() && !terms.goes_on() {
                    self.unended.succeeded(bucket); // nothing is over, whoever has ended it
                }
                return read(&call, reply, is_repeat);
            };
            // One that was executed before may have been refused as well, or not.
            is_repeat |= reply.is_err_and(|error| error.kind() == ErrorKind::Unknown);
            if !is_ended {
                *terms = self.terms(bucket);
                call = made(terms)?;
            }
        }
        let reply = self.run_script(bucket, link, &call).await;
        read(&call, reply, is_repeat)
    }

    /// Takes back the leases that are past their deadline. Returns whether they could be.
    pub(super) async fn end_overdue(
        &self,
        bucket: &BucketKey,
        link: &ManagedConnection,
    ) -> Result<bool> {
        self.end(Over::Leases, bucket, link).await
    }

    async fn end_expired(&self, bucket: &BucketKey, link: &ManagedConnection) -> Result<bool> {
        self.end(Over::Events, bucket, link).await
    }

    /// Ends what is over, piece by piece. Returns false where what is stored fails it: that is said, and
    /// calls on this bucket go on beside it for a while.
    async fn end(&self, over: Over, bucket: &BucketKey, link: &ManagedConnection) -> Result<bool> {
        for _ in 0..PIECES {
            match self.end_some(over, bucket, link).await {
                Ok(more) => {
                    self.unended.succeeded(bucket);
                    if !more {
                        break;
                    }
                }
                Err(error) if is_of_the_data(&error) => {
                    self.unended.failed(bucket.clone(), &error);
                    found_damage("reap", 1);
                    let until = self.mono_us() + us(GOES_ON_FOR);
                    let keys = self.keys(bucket);
                    keys.goes_on_until.store(until, Ordering::Relaxed);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Ends one piece of it; returns whether there is more.
    async fn end_some(
        &self,
        over: Over,
        bucket: &BucketKey,
        link: &ManagedConnection,
    ) -> Result<bool> {
        const PIECE: usize = BATCH_MAX / 2;
        let terms = self.terms(bucket);
        let call = match over {
            Over::Leases => terms.call(OverdueArguments {
                origin: &terms.origin,
                take_max: PIECE,
            }),
            Over::Events => terms.call(ExpireArguments { limit: PIECE }),
        };
        let mut parts = self.call(bucket, link, &call).await?;
        let (now, is_earlier, ended, more) = match over {
            Over::Leases => {
                let reply = OverdueReply::read(&mut parts)?;
                (reply.now, reply.earlier, reply.ended, reply.more)
            }
            Over::Events => {
                let reply = ExpireReply::read(&mut parts)?;
                (reply.now, false, reply.ended, reply.more)
            }
        };
        self.learn(&terms, now);
        if is_earlier {
            self.tell(bucket);
        }
        if ended > 0 {
            self.outboxes.tell(bucket);
        }
        Ok(more)
    }
}

/// Reads a reply; `was_sent`: the call may have been executed before.
fn read(call: &Call, reply: Result<ScriptReply>, was_sent: bool) -> Result<(ReplyReader, bool)> {
    let reply = reply.map_err(|error| maybe_applied(error, was_sent));
    let ScriptReply { value, is_repeat } = reply?;
    let parts = ReplyReader::of(call.script.name, value)?;
    Ok((parts, is_repeat || was_sent))
}

/// Returns whether a script was refused so. Of one that was sent again nothing more is known: it is of
/// another kind.
fn is_refused(error: &Error, refusal: &str) -> bool {
    let said = fault::cause_of(error).and_then(RedisError::detail);
    said.is_some_and(|said| said.contains(refusal))
}
