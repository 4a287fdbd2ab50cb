//! Ends what has expired in a bucket where nobody fetches, before anybody is shown it.

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

/// What a script says that is refused for it (`lua/unexpired.lua`).
const REFUSAL: &str = "are to be ended first";

/// How often a call is tried: events may go on to expire meanwhile.
const TRIES: usize = 8;
/// The most calls that end events, half a thousand each, before one try.
const PIECES: usize = 4_000;

impl Shared {
    /// Runs a script that is refused while events that have expired are to be ended: it ends them, and
    /// calls again. Also returns whether it may have been executed more than once.
    pub(super) async fn call_unexpired(
        &self,
        bucket: &BucketKey,
        link: &ManagedConnection,
        call: &Call,
    ) -> Result<(ReplyReader, bool)> {
        let mut tries = 1;
        loop {
            match self.run_script(link, call).await {
                Err(error) if tries < TRIES && is_refusal(&error) => tries += 1,
                reply => {
                    let ScriptReply { value, is_repeat } = reply?;
                    return Ok((ReplyReader::of(call.script.name, value)?, is_repeat));
                }
            }
            self.end_expired(bucket, link).await?;
        }
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

fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.to_string().contains(REFUSAL)
}
