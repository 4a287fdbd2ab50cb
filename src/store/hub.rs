//! Membership and runtime settings of a store that lives in this process.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use crate::core::membership::{Member, MemberInfo, Membership};
use crate::error::Result;
use crate::event::QueueName;
use crate::record::NodeId;
use crate::store::control::{CONTROLS_MAX, Control, Setting, too_many_controls};

/// A member that has not polled for this long, by the store's clock, is removed from the
/// membership.
const FORGOTTEN_AFTER_US: u64 = 60_000_000;

/// The members of an in-process store and its runtime settings.
#[derive(Debug, Default)]
pub(crate) struct LocalMembership(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Each member, with the time of its last poll.
    members: BTreeMap<NodeId, (Member, u64)>,
    controls: BTreeMap<QueueName, Control>,
    /// Incremented by every change of a setting.
    version: u64,
}

impl LocalMembership {
    /// Creates a registry with the settings that a file has kept.
    #[cfg(feature = "embedded")]
    pub(crate) fn with(controls: BTreeMap<QueueName, Control>) -> Self {
        Self(Mutex::new(State {
            controls,
            ..State::default()
        }))
    }

    /// Records a membership poll by `me`; `listed` is the number of buckets that were ever used.
    pub(crate) fn call(&self, me: MemberInfo, now_us: u64, listed: u64) -> Membership {
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
                host: me.host,
            };
            members.insert(me.node, (member, now_us));
        }
        Membership {
            members: members.values().map(|(member, _)| member.clone()).collect(),
            buckets_version: listed,
            controls_version: state.version,
        }
    }

    /// Returns the reply to a membership poll in a store with one node.
    pub(crate) fn alone(&self, me: &MemberInfo, listed: u64) -> Membership {
        Membership {
            buckets_version: listed,
            controls_version: self.lock().version,
            ..Membership::alone(me)
        }
    }

    pub(crate) fn controls(&self) -> BTreeMap<QueueName, Control> {
        self.lock().controls.clone()
    }

    pub(crate) fn control_of(&self, queue: &QueueName) -> Option<Control> {
        self.lock().controls.get(queue).copied()
    }

    /// Applies a setting after `keep` has stored the queue's new settings; changes are serialised.
    pub(crate) fn set<T>(
        &self,
        queue: &QueueName,
        setting: Setting,
        keep: impl FnOnce(Control) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let before = state.controls.get(queue).copied();
        let control = before.unwrap_or_default().with(setting);
        let is_added = before.is_none() && control != Control::default();
        if is_added && state.controls.len() >= CONTROLS_MAX {
            return Err(too_many_controls());
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
        self.0.lock()
    }
}
