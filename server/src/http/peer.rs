//! The client of the connection that the running task serves.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use axum::middleware::Next;
use axum::response::Response;
use ipnet::IpNet;
use tokio_util::sync::CancellationToken;

use super::connections::{Idle, Use};

/// Where a proxy says whom a request is from: each adds the one that it has it from.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

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

/// Serves a request of known proxies for the client that they name.
pub(crate) async fn forwarded(
    State(proxies): State<Arc<[IpNet]>>,
    request: Request,
    next: Next,
) -> Response {
    let served = PEER.try_with(Clone::clone).ok();
    let Some((peer, of)) = served.filter(|_| !proxies.is_empty()) else {
        return next.run(request).await;
    };
    let client = client(peer, request.headers(), &proxies);
    PEER.scope((client, of), next.run(request)).await
}

/// Returns the last one of whom no known proxy is: what is before it anybody may have written.
fn client(peer: SocketAddr, headers: &HeaderMap, proxies: &[IpNet]) -> SocketAddr {
    let is_proxy = |client: &SocketAddr| {
        let address = client.ip().to_canonical();
        proxies.iter().any(|network| network.contains(&address))
    };
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    // Of a line that is no text as a whole, the end may be what a proxy has added.
    let hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    let mut client = peer;
    for hop in hops {
        let hop = std::str::from_utf8(hop).unwrap_or_default().trim();
        let address = hop.parse().map(|address| SocketAddr::new(address, 0));
        match address.or_else(|_| hop.parse()) {
            Ok(address) if is_proxy(&client) => client = address,
            _ => break,
        }
    }
    client
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

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn known_proxies_name_their_client() {
        let proxies = ["10.0.0.0/8", "::1/128"].map(|network| network.parse().unwrap());
        for (peer, lines, expected) in [
            ("10.0.0.1:80", &["203.0.113.7"][..], "203.0.113.7"),
            ("[::ffff:10.0.0.1]:80", &["203.0.113.7:4711"], "203.0.113.7"),
            ("10.0.0.1:80", &["2001:db8::7, 10.2.0.1"], "2001:db8::7"),
            (
                "[::1]:80",
                &["192.0.2.1", "[2001:db8::7]:80, 10.2.0.1"],
                "2001:db8::7",
            ),
            // What the client has written itself is before what the proxy has added.
            ("10.0.0.1:80", &["10.9.9.9, 203.0.113.7"], "203.0.113.7"),
            ("10.0.0.1:80", &["192.0.2.1", "203.0.113.7"], "203.0.113.7"),
            // Nobody else is believed.
            ("203.0.113.9:80", &["192.0.2.1"], "203.0.113.9"),
            ("10.0.0.1:80", &[], "10.0.0.1"),
            ("10.0.0.1:80", &["203.0.113.7, unknown"], "10.0.0.1"),
            ("10.0.0.1:80", &["203.0.113.7, "], "10.0.0.1"),
            // What it has written may be no text.
            (
                "10.0.0.1:80",
                &["caf\u{e9}, 203.0.113.7, 10.2.0.1"],
                "203.0.113.7",
            ),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                let line = HeaderValue::from_bytes(line.as_bytes()).unwrap();
                headers.append(FORWARDED_FOR, line);
            }
            let client = client(peer.parse().unwrap(), &headers, &proxies);
            let expected: IpAddr = expected.parse().unwrap();
            assert_eq!(client.ip(), expected, "{peer} {lines:?}");
        }
    }
}
