//! The connections of a listener: which of them serve a request, and which is idle for longest.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// When connections are to end, this share of them ends at once, so that a crowd costs little.
const ENDED_AT_ONCE: usize = 64;

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct Connections {
    max: usize,
    places: Arc<Semaphore>,
    all: Mutex<HashMap<u64, Arc<State>>>,
    /// The next number: of a connection, and of the end of a request.
    next: AtomicU64,
    /// Whether somebody waits for a place, and is notified when a connection becomes idle.
    is_awaited: AtomicBool,
    idled: Notify,
}

#[derive(Debug)]
struct State {
    /// Idle since this number; 0 while a request is served.
    idle_since: AtomicU64,
    /// Cancelled when it has to end.
    ended: CancellationToken,
}

/// A connection, as long as it is open.
#[derive(Debug)]
pub(super) struct Connection {
    number: u64,
    of: Use,
    _place: OwnedSemaphorePermit,
}

/// What a connection is used for, which a request of it may change.
#[derive(Clone, Debug)]
pub(super) struct Use {
    state: Arc<State>,
    connections: Arc<Connections>,
}

/// A request that is served, its response included.
#[derive(Debug)]
pub(super) struct Serving(Use);

/// A pause of a request that is served.
#[derive(Debug)]
pub(super) struct Idle(Use);

impl Connections {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            places: Arc::new(Semaphore::new(max)),
            all: Mutex::default(),
            next: AtomicU64::new(1),
            is_awaited: AtomicBool::new(false),
            idled: Notify::new(),
        })
    }

    /// Returns a place for a new connection; the idlest ones end for it. It waits while each of them
    /// serves a request.
    pub(super) async fn open(self: &Arc<Self>) -> Option<Connection> {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => self.wait().await?,
        };
        let number = self.number();
        let state = Arc::new(State {
            idle_since: AtomicU64::new(number),
            ended: CancellationToken::new(),
        });
        self.lock().insert(number, Arc::clone(&state));
        Some(Connection {
            number,
            of: Use {
                state,
                connections: Arc::clone(self),
            },
            _place: place,
        })
    }

    async fn wait(self: &Arc<Self>) -> Option<OwnedSemaphorePermit> {
        loop {
            let idled = self.idled.notified();
            tokio::pin!(idled);
            idled.as_mut().enable();
            self.is_awaited.store(true, Ordering::SeqCst);
            if !self.is_any_ending() {
                self.end_idlest((self.max / ENDED_AT_ONCE).max(1));
            }
            tokio::select! {
                place = Arc::clone(&self.places).acquire_owned() => {
                    self.is_awaited.store(false, Ordering::SeqCst);
                    return place.ok();
                }
                () = idled => {}
            }
        }
    }

    /// Whether a connection has to end and is still open.
    fn is_any_ending(&self) -> bool {
        let all = self.lock();
        all.values().any(|state| state.ended.is_cancelled())
    }

    /// Ends up to `most` connections that serve nothing, the idlest first.
    pub(super) fn end_idlest(&self, most: usize) {
        let all = self.lock();
        let idle = all.values().filter_map(|state| {
            let since = state.idle_since.load(Ordering::SeqCst);
            (since > 0 && !state.ended.is_cancelled()).then_some((since, state))
        });
        let mut idle: Vec<_> = idle.collect();
        if idle.len() > most && most > 0 {
            idle.select_nth_unstable_by_key(most - 1, |(since, _)| *since);
        }
        for (_, state) in idle.into_iter().take(most) {
            state.ended.cancel();
        }
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<State>>> {
        self.all.lock()
    }
}

impl Connection {
    /// A request begins, and is served until what is returned is dropped.
    pub(super) fn serves(&self) -> Serving {
        self.of.serves();
        Serving(self.of.clone())
    }

    pub(super) fn in_use(&self) -> Use {
        self.of.clone()
    }

    /// Waits until it has to end, as others need its place or the server stops.
    pub(super) async fn ended(&self) {
        self.of.state.ended.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.of.connections.lock().remove(&self.number);
    }
}

impl Use {
    /// Returns what ends the connection.
    pub(super) fn end(&self) -> CancellationToken {
        self.state.ended.clone()
    }

    /// The request that is served waits for what it does not need: others may have the place of the
    /// connection until what is returned is dropped.
    pub(super) fn idle(&self) -> Idle {
        self.idles();
        Idle(self.clone())
    }

    fn serves(&self) {
        self.state.idle_since.store(0, Ordering::SeqCst);
    }

    fn idles(&self) {
        let number = self.connections.number();
        self.state.idle_since.store(number, Ordering::SeqCst);
        if self.connections.is_awaited.load(Ordering::SeqCst) {
            self.connections.idled.notify_waiters();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.idles();
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.0.serves();
    }
}

impl Serving {
    /// The response is a part of it, until its last byte is on its way.
    pub(super) fn with(self, response: Response) -> Response {
        if response.body().is_end_stream() {
            return response;
        }
        response.map(|body| {
            Body::new(Served {
                body,
                _serving: self,
            })
        })
    }
}

/// The body of a response.
struct Served {
    body: Body,
    _serving: Serving,
}

impl http_body::Body for Served {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_idlest_connection_ends_for_a_new_one_and_none_that_serves() {
        let connections = Connections::new(3);
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(connections.open().await.expect("a place"));
        }
        let serving = open[0].serves();
        drop(open[1].serves());
        let has_ended = |connection: &Connection| connection.of.state.ended.is_cancelled();
        let (new, ()) = tokio::join!(connections.open(), async {
            tokio::task::yield_now().await;
            let ended: Vec<bool> = open.iter().map(has_ended).collect();
            assert_eq!(ended, [false, false, true]);
            open.truncate(2);
        });
        let new = new.expect("a place");
        let second = new.serves();
        drop(open[1].serves());
        let third = open[1].serves();
        // Each of them serves: the next waits for the first that does not.
        let (next, ()) = tokio::join!(connections.open(), async {
            tokio::task::yield_now().await;
            assert!(!open.iter().any(has_ended) && !has_ended(&new));
            let idle = open[0].in_use().idle();
            tokio::task::yield_now().await;
            assert!(
                has_ended(&open[0]),
                "its request waits for what it does not need"
            );
            drop((idle, serving));
            open.remove(0);
        });
        let next = next.expect("a place");
        let fourth = next.serves();
        // A pause that is over is none.
        drop(second.0.idle());
        let (last, ()) = tokio::join!(connections.open(), async {
            tokio::task::yield_now().await;
            assert!(![&open[0], &new, &next].into_iter().any(has_ended));
            drop(third);
            tokio::task::yield_now().await;
            assert!(has_ended(&open[0]));
            open.remove(0);
        });
        assert!(last.is_some());
        drop((second, fourth));
    }
}
