//! Ends what has expired in a bucket where nobody fetches, before anybody is shown it.

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
            if parts.count()? > 0 {
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
