//! The roll call: says that this node is there, and brings what the others say and what was set.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;

use crate::core::attendance::Attendance;
use crate::core::step::Input;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::controls::Controls;
use crate::flow::inbox::Inbox;
use crate::flow::lanes::Lanes;
use crate::store::{Presence, Store};

/// After this long without an answer a call counts as unanswered: others may think by then that
/// this node is gone, so it rather calls again.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was set of queues, and which buckets there are: read from the store when it has changed.
pub(crate) struct Orders {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) controls: Arc<Controls>,
    pub(crate) lanes: Arc<Lanes>,
}

impl Orders {
    /// Reads them, and does as they say.
    ///
    /// # Errors
    ///
    /// When the store cannot be read; everything stays as it is.
    pub(crate) async fn read(&self) -> Result<()> {
        let controls = in_time(self.store.controls()).await?;
        let buckets = in_time(self.store.buckets()).await?;
        self.controls.replace(controls);
        self.lanes.follow(&buckets);
        Ok(())
    }
}

/// Calls the roll of a shared store, whenever the node's machines say so.
///
/// They say so only while they run and can keep what the node holds. So a node whose mover is
/// stuck falls silent, though its runtime is well.
pub(crate) struct RollCall {
    orders: Arc<Orders>,
    inbox: Arc<Inbox>,
    me: Presence,
    /// One call at a time, so that the last one is the last.
    calls: Mutex<()>,
    /// The version of the orders that were read last; locked while they are read.
    version: Mutex<Option<u64>>,
    /// Who takes part, as the node's machines see it.
    attendance: std::sync::Mutex<Option<Attendance>>,
    /// Whether this node answers for what nobody else does.
    stands_in: AtomicBool,
}

impl RollCall {
    pub(crate) fn new(orders: Arc<Orders>, inbox: Arc<Inbox>, me: Presence) -> Self {
        Self {
            orders,
            inbox,
            me,
            calls: Mutex::default(),
            version: Mutex::default(),
            attendance: std::sync::Mutex::default(),
            stands_in: AtomicBool::default(),
        }
    }

    /// Who takes part from now on; `None` while the node does not know.
    pub(crate) fn attend(&self, attendance: Option<Attendance>) {
        *self
            .attendance
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = attendance;
    }

    /// Who takes part.
    pub(crate) fn attendance(&self) -> Option<Attendance> {
        let attendance = self.attendance.lock();
        let attendance = attendance.unwrap_or_else(PoisonError::into_inner).clone();
        match self.stands_in.load(Ordering::Relaxed) {
            true => attendance.map(Attendance::standing_in),
            false => attendance,
        }
    }

    /// Calls once, and reads the orders if there are others.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    pub(crate) async fn call(&self) -> Result<()> {
        let called = {
            let _one = self.calls.lock().await;
            in_time(self.orders.store.roll_call(self.me.clone())).await
        };
        let roll = match called {
            Ok(roll) => roll,
            Err(error) => {
                self.inbox.add(Input::NotRolled);
                return Err(error);
            }
        };
        self.stands_in.store(roll.stands_in, Ordering::Relaxed);
        let members = roll.members;
        self.inbox.add(Input::Rolled { members });
        let Ok(mut version) = self.version.try_lock() else {
            return Ok(()); // they are being read, and the next call looks again
        };
        if *version != Some(roll.version) {
            self.orders.read().await?;
            // What changes while they are read changes the version again.
            *version = Some(roll.version);
        }
        Ok(())
    }

    /// As [`call`](Self::call), where nobody waits for it.
    pub(crate) async fn call_again(self: Arc<Self>) {
        if let Err(error) = self.call().await {
            tracing::warn!(%error, "the roll call was not answered");
        }
    }

    /// Says that this node has stopped and holds nothing any more.
    pub(crate) async fn leave(&self) {
        let _one = self.calls.lock().await;
        let me = Presence {
            leaves: true,
            ..self.me.clone()
        };
        if let Err(error) = in_time(self.orders.store.roll_call(me)).await {
            tracing::debug!(%error, "nobody heard that this node has left");
        }
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_elapsed| Error::new(ErrorKind::Unknown, "the store did not answer in time");
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}
