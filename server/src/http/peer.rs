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

/// Runs a part of a request in a task of its own, for the same client.
pub(super) fn inherited<F: Future>(part: F) -> impl Future<Output = F::Output> {
    let peer = socket();
    async move {
        match peer {
            Some(peer) => PEER.scope(peer, part).await,
            None => part.await,
        }
    }
}

/// Returns the address of the client, if the running task serves one.
pub(crate) fn address() -> Option<IpAddr> {
    socket().map(|peer| peer.ip())
}

/// As [`address`], with the port.
pub(crate) fn socket() -> Option<SocketAddr> {
    PEER.try_with(|peer| *peer).ok()
}
