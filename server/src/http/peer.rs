//! The client of the connection that the running task serves.

use std::net::{IpAddr, SocketAddr};

use tokio_util::sync::CancellationToken;

tokio::task_local! {
    /// The address of the client, and what ends its connection.
    static PEER: (SocketAddr, CancellationToken);
}

/// Runs what serves the connection of a client, which `end` ends.
pub(super) async fn serving<F: Future>(
    peer: SocketAddr,
    end: CancellationToken,
    connection: F,
) -> F::Output {
    PEER.scope((peer, end), connection).await
}

/// Runs a part of a request in a task of its own, for the same client.
pub(super) fn inherited<F: Future>(part: F) -> impl Future<Output = F::Output> {
    let peer = PEER.try_with(Clone::clone).ok();
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
    PEER.try_with(|(peer, _)| *peer).ok()
}

/// Returns what ends the connection, if the running task serves one.
pub(crate) fn connection() -> Option<CancellationToken> {
    PEER.try_with(|(_, end)| end.clone()).ok()
}
