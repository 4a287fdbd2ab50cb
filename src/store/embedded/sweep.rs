//! The sweep of buckets that are not used any more.

use crate::core::op::StoreOp;
use crate::store::embedded::change_recorder::ChangeRecorder;
use crate::store::embedded::pending::Chunk;
use crate::store::embedded::shared::Shared;
use crate::store::embedded::ticket::CommitPart;
use crate::store::shards::WakeRule;

impl Shared {
    /// Now and then has unused buckets forget what is old.
    pub(super) fn sweep(&self) {
        let now_us = self.time.now_us();
        for key in self.shards.sweep(now_us) {
            let mut recorder = ChangeRecorder::new(&self.cache);
            self.shards.change_known(&key, WakeRule::Swept, |bucket| {
                let swept = bucket.apply(now_us, StoreOp::SWEEP, &mut recorder);
                if swept.is_ok() && !recorder.changes.is_empty() {
                    // If the list is closed, the next start forgets it.
                    let _ = self.pending.submit(Chunk {
                        bucket: Some(key.clone()),
                        changes: recorder.changes,
                        part: CommitPart::Rest,
                    });
                }
            });
        }
    }
}
