//! The client of the connection that the running task serves.

use std::net::{IpAddr, SocketAddr};

tokio::task_local! {
    /// The address of the client.
    static PEER: SocketAddr;
}

/// Runs what serves the connection of a client.
pub(super) async fn serving<F: Future>(peer: SocketAddr, connection: F) -> F::Output {
    PEER.scope(peer, connection).await
}

/// Returns the address of the client, if the running task serves one.
pub(crate) fn address() -> Option<IpAddr> {
    PEER.try_with(SocketAddr::ip).ok()
}
