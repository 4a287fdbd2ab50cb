//! Settlements of single leases, gathered: those that come while a call to a shared store is on its
//! way go together in the next one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::bus::inner::Inner;
use crate::bus::state::leases::settles::{Group, Waiting};
use crate::core::op::{Settlement, StartMark, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::settle_kind;

/// How long a settlement waits for its reply, longer than any call of a store: only a runtime that
/// nobody drives, or whose threads are all blocked, takes longer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The task that sends a group. If its runtime ends, those that wait are told so.
struct Sender {
    inner: Arc<Inner>,
    group: Group,
    is_over: bool,
}

impl Sender {
    async fn run(mut self) {
        loop {
            // What else can run now may settle as well: then one call is enough for all.
            tokio::task::yield_now().await;
            let taken = self.inner.leases.settles.take(&self.group);
            if taken.is_empty() {
                self.is_over = true;
                return;
            }
            let settlements = taken.iter().map(|it| it.settlement.clone()).collect();
            match self.inner.settle_all(&self.group, settlements).await {
                Ok(held) => {
                    for (at, waiting) in taken.into_iter().enumerate() {
                        // The caller may be gone.
                        let _ = waiting.reply.send(Ok(held.get(at) == Some(&true)));
                    }
                }
                Err(error) => {
                    let error = Arc::new(error);
                    for waiting in taken {
                        let own = Error::new(error.kind(), error.to_string());
                        let _ = waiting.reply.send(Err(own.because(Arc::clone(&error))));
                    }
                }
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.is_over {
            self.inner.leases.settles.groups().remove(&self.group);
        }
    }
}

impl Inner {
    /// Settles a lease; returns whether it stood.
    pub(super) async fn settle_one(
        self: &Arc<Self>,
        group: Group,
        settlement: Settlement,
    ) -> Result<bool> {
        // A store of this process alone gathers by itself.
        if !self.open()?.is_shared() {
            let held = self.settle_all(&group, vec![settlement]).await?;
            return Ok(held == [true]);
        }
        let (reply, replied) = oneshot::channel();
        let is_new = self
            .leases
            .settles
            .add(&group, Waiting { settlement, reply })?;
        if is_new {
            let inner = Arc::clone(self);
            let sender = Sender {
                inner,
                group,
                is_over: false,
            };
            self.runtime.spawn(sender.run());
        }
        let lost = |what: &str| {
            let words = format!("the runtime of the bus {what} the reply; settling again is safe");
            Err(Error::new(ErrorKind::Unknown, words))
        };
        match tokio::time::timeout(REPLY_TIMEOUT, replied).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_gone)) => lost("ended before"),
            Err(_elapsed) => lost("does not run its tasks, which bring"),
        }
    }

    async fn settle_all(
        &self,
        (bucket, node): &Group,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<bool>> {
        let kinds = settlements.iter().map(|it| settle_kind(&it.verdict));
        let kinds: Vec<_> = kinds.collect();
        let settle = StoreOp::settle(*node, settlements, StartMark::default());
        let held = self.apply(bucket, settle).await?;
        let batch = kinds.into_iter().zip(held.iter().copied());
        self.pull_meters
            .report(&bucket.queue, |it| it.settles.settled(batch));
        Ok(held)
    }
}
