//! The client of the connection that the running task serves.

use std::net::{IpAddr, SocketAddr};

use tokio_util::sync::CancellationToken;

use super::connections::{Idle, Use};

tokio::task_local! {
    /// The address of the client, and its connection.
    static PEER: (SocketAddr, Use);
}

/// Runs what serves the connection of a client.
pub(super) async fn serving<F: Future>(peer: SocketAddr, of: Use, connection: F) -> F::Output {
    PEER.scope((peer, of), connection).await
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
    PEER.try_with(|(_, connection)| connection.end()).ok()
}

/// Notes that the connection serves nothing until what is returned is dropped, if the running task
/// serves one.
pub(super) fn idle() -> Option<Idle> {
    PEER.try_with(|(_, connection)| connection.idle()).ok()
}
