//! What a store that lives in this process knows of its nodes and of what was set.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::core::roll::{Member, Presence, Roll};
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::record::NodeId;
use crate::store::control::{Control, Setting};

/// A member that has not called for so long, by the store's clock, is taken off the roll.
const FORGOTTEN_AFTER_US: u64 = 60_000_000;
/// Of how many queues something may be set.
const CONTROLS_MAX: usize = 10_000;

/// The roll and the controls.
#[derive(Debug, Default)]
pub(crate) struct Hub(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// With each member when it called last.
    members: BTreeMap<NodeId, (Member, u64)>,
    controls: BTreeMap<QueueName, Control>,
    /// Counts what was set.
    version: u64,
}

impl Hub {
    /// A hub in which this was set before.
    #[cfg(feature = "embedded")]
    pub(crate) fn with(controls: BTreeMap<QueueName, Control>) -> Self {
        Self(Mutex::new(State {
            controls,
            ..State::default()
        }))
    }

    /// A call by `me`; `listed` is the number of buckets that were ever used.
    pub(crate) fn call(&self, me: Presence, now_us: u64, listed: u64) -> Roll {
        let mut state = self.lock();
        let members = &mut state.members;
        members.retain(|_, (_, last_us)| now_us.saturating_sub(*last_us) < FORGOTTEN_AFTER_US);
        if me.leaves || me.queues.is_empty() {
            members.remove(&me.node);
        } else {
            let known = members.get(&me.node);
            let member = Member {
                node: me.node,
                beat: known.map_or(0, |(known, _)| known.beat) + 1,
                queues: me.queues,
            };
            members.insert(me.node, (member, now_us));
        }
        Roll {
            members: members.values().map(|(member, _)| member.clone()).collect(),
            buckets_version: listed,
            controls_version: state.version,
        }
    }

    /// As [`call`](Self::call) where there is nobody else.
    pub(crate) fn alone(&self, me: &Presence, listed: u64) -> Roll {
        Roll {
            buckets_version: listed,
            controls_version: self.lock().version,
            ..Roll::alone(me)
        }
    }

    pub(crate) fn controls(&self) -> BTreeMap<QueueName, Control> {
        self.lock().controls.clone()
    }

    /// Sets one thing, once `keep` has kept what the queue's control is then; nobody else sets
    /// anything meanwhile.
    pub(crate) fn set<T>(
        &self,
        queue: &QueueName,
        setting: Setting,
        keep: impl FnOnce(Control) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let before = state.controls.get(queue).copied();
        let control = before.unwrap_or_default().with(setting);
        if before.is_none() && state.controls.len() >= CONTROLS_MAX {
            return Err(Error::invalid(format!(
                "something is set of {CONTROLS_MAX} queues already; take some of it back"
            )));
        }
        let kept = keep(control)?;
        if control == Control::default() {
            state.controls.remove(queue);
        } else {
            state.controls.insert(queue.clone(), control);
        }
        state.version += 1;
        Ok(kept)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
