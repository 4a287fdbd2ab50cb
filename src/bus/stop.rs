//! The stop of a bus: done once, by a thread of its own, whatever becomes of those who wait for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::Instrument;
use tracing::instrument::WithSubscriber;

use crate::bus::inner::Inner;
use crate::bus::program_audit;
use crate::bus::state::stop::StopResult;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Flow;

impl Inner {
    /// Stops the bus, unless it stops or has stopped already, and waits for the end of that.
    pub(super) async fn stop(self: &Arc<Self>, grace: Duration) -> Result<()> {
        let mut ended = self.begin_stop(grace);
        let ended = match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone(),
            Err(_gone) => None,
        };
        match ended {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(Error::new(error.kind(), error.to_string()).because(error)),
            None => Err(Error::new(
                ErrorKind::TimedOut,
                "the bus was stopped half-way, with its runtime; what was not settled is handled \
                 again",
            )),
        }
    }

    /// Begins the stop if nobody has.
    ///
    /// It runs on a thread of its own: its caller may be cancelled, be on a runtime that ends, or
    /// wait on one whose threads all handlers block. On virtual time, which a thread does not see,
    /// it is a task.
    fn begin_stop(self: &Arc<Self>, grace: Duration) -> watch::Receiver<StopResult> {
        let mut begun = self.stop.0.lock();
        if let Some(ended) = &*begun {
            return ended.clone();
        }
        let (ends, ended) = watch::channel(None);
        *begun = Some(ended.clone());
        drop(begun);
        let flow = self.flow.write().take();
        let inner = Arc::clone(self);
        let stopping = Stopping { inner, ends };
        let work = stopping.run(flow, grace);
        let work = work.in_current_span().with_current_subscriber();
        if self.virtual_time {
            self.runtime.spawn(work);
            return ended;
        }
        // A thread that does not start drops what it was given: the work is left for a task then.
        let work = Arc::new(Mutex::new(Some(Box::pin(work))));
        let (runtime, on_thread) = (self.runtime.clone(), Arc::clone(&work));
        let take = |work: &Mutex<Option<_>>| {
            let mut work = work.lock();
            work.take()
        };
        let run = move || {
            let own = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match (own, take(&on_thread)) {
                (Ok(own), Some(work)) => own.block_on(work),
                (Err(_), Some(work)) => drop(runtime.spawn(work)),
                (_, None) => {}
            }
        };
        let thread = std::thread::Builder::new().name("duly-stop".into());
        if thread.spawn(run).is_err()
            && let Some(work) = take(&work)
        {
            self.runtime.spawn(work);
        }
        ended
    }
}

/// A stop under way; dropped half-way, with its runtime, it leaves a bus that is closed.
struct Stopping {
    inner: Arc<Inner>,
    ends: watch::Sender<StopResult>,
}

impl Stopping {
    async fn run(self, flow: Option<Flow>, grace: Duration) {
        let inner = &self.inner;
        let settled = match flow {
            Some(flow) => flow.stop(grace).await,
            None => true,
        };
        program_audit::finish(inner).await;
        if let Some(recorded) = &inner.recorded {
            recorded.stop().await;
        }
        inner.is_closed.store(true, Ordering::Release);
        let closed = inner.close_unless_shared().await;
        let result = match (closed, settled) {
            (Err(error), _) => Err(Arc::new(error)),
            (Ok(()), true) => Ok(()),
            (Ok(()), false) => Err(Arc::new(Error::new(
                ErrorKind::TimedOut,
                "not everything could be settled in time; those events are handled again",
            ))),
        };
        self.ends.send_replace(Some(result));
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        if self.ends.borrow().is_some() {
            return;
        }
        if let Some(recorded) = &self.inner.recorded {
            recorded.abandon();
        }
        self.inner.is_closed.store(true, Ordering::Release);
        let closing = self.inner.close_unless_shared();
        self.inner.runtime.spawn(closing);
    }
}
