//! The hint of a push to the relays of its process: look soon.

use std::sync::LazyLock;

use tokio::sync::watch;

/// The number of pushes of this process, as far as it tells one from the next.
static PUSHES: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::channel(0).0);

/// Notes that a transaction of this process has an event, which is visible after its commit.
pub(crate) fn pushed() {
    PUSHES.send_modify(|pushes| *pushes = pushes.wrapping_add(1));
}

/// Watches the pushes of this process.
pub(crate) fn watch() -> watch::Receiver<u64> {
    PUSHES.subscribe()
}
