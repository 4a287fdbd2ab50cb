//! Settlements that wait for the next call of their group.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::mem;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::core::op::{BATCH_MAX, Settlement};
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::record::NodeId;

/// The most settlements of one bucket and holder that may wait.
const WAITING_MAX: usize = 100_000;
/// One call settles what one holder has leased of one bucket.
pub(in crate::bus) type Group = (BucketKey, NodeId);

/// The settlements that wait; a group is here while one of its calls is on its way.
#[derive(Debug, Default)]
pub(in crate::bus) struct Settles(Mutex<HashMap<Group, VecDeque<Waiting>>>);

/// A settlement that waits for its turn.
#[derive(Debug)]
pub(in crate::bus) struct Waiting {
    pub(in crate::bus) settlement: Settlement,
    pub(in crate::bus) reply: oneshot::Sender<Result<bool>>,
}

impl Settles {
    pub(in crate::bus) fn groups(&self) -> MutexGuard<'_, HashMap<Group, VecDeque<Waiting>>> {
        // Every change under the lock is one step.
        self.0.lock()
    }

    /// Adds a settlement; returns whether its group is new, so that somebody has to send it.
    pub(in crate::bus) fn add(&self, group: &Group, waiting: Waiting) -> Result<bool> {
        let mut groups = self.groups();
        let Some(others) = groups.get_mut(group) else {
            groups.insert(group.clone(), VecDeque::from([waiting]));
            return Ok(true);
        };
        if others.len() >= WAITING_MAX {
            return Err(Error::new(
                ErrorKind::Full,
                format!("{WAITING_MAX} settlements of this bucket wait already; call again later"),
            ));
        }
        others.push_back(waiting);
        Ok(false)
    }

    /// Takes what goes in the next call: each event once. Nothing: the group is over.
    pub(in crate::bus) fn take(&self, group: &Group) -> Vec<Waiting> {
        let mut groups = self.groups();
        let Some(waiting) = groups.get_mut(group) else {
            return Vec::new();
        };
        let (mut taken, mut ids, mut later) = (Vec::new(), BTreeSet::new(), VecDeque::new());
        for each in mem::take(waiting) {
            if taken.len() < BATCH_MAX && ids.insert(each.settlement.id) {
                taken.push(each);
            } else {
                later.push_back(each);
            }
        }
        *waiting = later;
        if taken.is_empty() {
            groups.remove(group);
        }
        taken
    }
}
