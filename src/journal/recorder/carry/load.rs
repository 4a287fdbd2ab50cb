//! A load, and what the journal refuses of it.

use crate::error::{Error, ErrorKind, Result};
use crate::journal::contract::Batch;
use crate::journal::recorder::answered;
use crate::journal::recorder::carry::pass::{Carrier, LEAST, Outboxes, Trouble};
use crate::store::Outbox;

impl Carrier {
    /// Carries some outboxes together, and each alone if the journal refuses that: it may refuse the
    /// records of one of them for ever, and no other one is to wait for those.
    pub(super) async fn carry_some(&self, outboxes: &[(Outbox, u64)]) -> Result<Outboxes, Trouble> {
        let mut refused = match self.carry(outboxes).await {
            Err(Trouble::Journal(error)) if is_refusal(&error) => error,
            carried => {
                if carried.is_ok() {
                    let succeeded = |(outbox, _): &(Outbox, u64)| self.refusals.succeeded(outbox);
                    outboxes.iter().for_each(succeeded);
                }
                return carried;
            }
        };
        let mut behind = Outboxes::new();
        if let [(only, _)] = outboxes {
            self.note_refusal(only, &refused);
        } else {
            for one in outboxes {
                match self.carry(std::slice::from_ref(one)).await {
                    Ok(left) => {
                        self.refusals.succeeded(&one.0);
                        behind.extend(left);
                    }
                    Err(Trouble::Journal(error)) if is_refusal(&error) => {
                        self.note_refusal(&one.0, &error);
                        refused = error;
                    }
                    Err(trouble) => return Err(trouble),
                }
            }
        }
        if self.progress().has_loaded {
            return Ok(behind);
        }
        // Of nothing that it was given has it taken in any: it is the journal.
        Err(Trouble::Journal(refused))
    }

    fn note_refusal(&self, outbox: &Outbox, error: &Error) {
        self.refusals.failed(outbox.clone(), error);
        self.fails(outbox.clone(), error);
    }

    pub(super) async fn load(&self, batches: Vec<Batch>, many: usize) -> Result<()> {
        let load = async { self.journal.load(batches).await };
        let loaded = answered(self.options.patience, load).await;
        match &loaded {
            Ok(()) => {
                self.progress().has_loaded = true;
                self.status.recorded(many as u64, self.now());
            }
            Err(_) => {
                let mut progress = self.progress();
                progress.share = (progress.share / 2).max(LEAST); // it may be too much for it
            }
        }
        loaded
    }
}

/// Whether the journal has answered, and that what it was given cannot be taken in.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Conflict, Corrupt, Invalid, NotFound};
    matches!(error.kind(), Conflict | Corrupt | Invalid | NotFound)
}
