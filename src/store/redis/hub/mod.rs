//! The state that all processes of a store share, and its notifications.

pub(in crate::store::redis) mod eviction_watch;
pub(crate) mod members;
pub(crate) mod notifications;
pub(in crate::store::redis) mod origin;
pub(crate) mod registry;
pub(crate) mod settings;
pub(in crate::store::redis) mod shared_keys;

use crate::store::redis::link::script::Script;

/// Returns the scripts on keys that all nodes share.
pub(in crate::store::redis) fn scripts() -> impl Iterator<Item = &'static Script> {
    let all = [&members::POLL_MEMBERS, &registry::REGISTER, &settings::SET];
    all.into_iter().map(|script| &**script)
}
