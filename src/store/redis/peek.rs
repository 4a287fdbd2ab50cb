//! Encoding of a read of one page of events.

use crate::core::op::{BATCH_MAX, PeekBy, PeekCursor};
use crate::store::redis::encode::{Call, CallContext};
use crate::store::redis::keys::BucketKeys;
use crate::store::redis::scripts;

impl CallContext<'_> {
    /// Reads a page of the events that have not ended: of all, or of those with a key.
    pub(super) fn peek(
        &self,
        keys: &BucketKeys,
        by: &PeekBy,
        from: Option<&PeekCursor>,
        limit: usize,
    ) -> Call {
        let find = |kind: &str, name: &str| {
            let mut call = self.call(&scripts::FIND, keys);
            call.command.arg(kind).arg(name);
            call
        };
        let mut call = match by {
            PeekBy::All => self.call(&scripts::PEEK, keys),
            PeekBy::Key(key) => find("k", key),
            PeekBy::Unique(key) => find("u", key),
        };
        let from = from.map_or(&[][..], PeekCursor::as_bytes);
        call.command.arg(from).arg(limit.clamp(1, BATCH_MAX));
        call
    }
}
