//! A receiver of webhooks: a real HTTP server that keeps what it gets, and responds as it is told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::world::until;

/// A request that has come.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) at: Instant,
    /// When it came, in milliseconds since the epoch.
    pub(super) at_ms: u64,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        let value = value.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        value.to_str().expect("a text")
    }

    pub(super) fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub(super) fn attempt(&self) -> u16 {
        self.header("duly-attempt").parse().expect("a number")
    }

    /// Whether a signature is of this secret, as a receiver of Standard Webhooks checks it.
    pub(super) fn is_signed_by(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("its prefix"));
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.expect("base64")).expect("a key");
        mac.update(format!("{}.{}.", self.id(), self.header("webhook-timestamp")).as_bytes());
        mac.update(&self.body);
        let expected = STANDARD.encode(mac.finalize().into_bytes());
        let mut signatures = self.header("webhook-signature").split(' ');
        signatures.any(|signature| signature == format!("v1,{expected}"))
    }
}

/// What a receiver responds with.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A status.
    Status(u16),
    /// A status, headers and a body.
    Full(u16, Vec<(&'static str, String)>, String),
    /// A status, and a body without an end.
    Endless(u16),
    /// Nothing until [`Receiver::release`].
    Held(u16),
}

/// A receiver.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    received: Mutex<Vec<Received>>,
    /// The next responses, and the one when there are no more.
    answers: Mutex<(VecDeque<Answer>, Answer)>,
    in_flight: Mutex<(usize, usize)>,
    released: Semaphore,
}

impl Receiver {
    /// Starts a receiver that responds with 200.
    pub(crate) async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub(super) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            received: Mutex::default(),
            answers: Mutex::new((VecDeque::new(), Answer::Status(200))),
            in_flight: Mutex::default(),
            released: Semaphore::new(0),
        });
        let router = Router::new()
            .fallback(receive)
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?key=hidden", self.address)
    }

    /// Responds so to the next requests, before the others.
    pub(super) fn next(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.answers.lock().unwrap().0.extend(answers);
    }

    /// Responds so to all other requests.
    pub(crate) fn always(&self, answer: Answer) {
        self.shared.answers.lock().unwrap().1 = answer;
    }

    /// Lets held requests go on.
    pub(super) fn release(&self, many: usize) {
        self.shared.released.add_permits(many);
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// The requests that run now, and the most that ran at the same time.
    pub(crate) fn in_flight(&self) -> (usize, usize) {
        *self.shared.in_flight.lock().unwrap()
    }

    /// Waits for so many requests, and returns those that have come.
    pub(crate) async fn wait_for(&self, many: usize) -> Vec<Received> {
        until("requests come", async || self.received().len() >= many).await;
        self.received()
    }
}

/// A request that runs.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn new(shared: Arc<Shared>) -> Self {
        {
            let mut in_flight = shared.in_flight.lock().unwrap();
            in_flight.0 += 1;
            in_flight.1 = in_flight.1.max(in_flight.0);
        }
        Self(shared)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.lock().unwrap().0 -= 1;
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let running = InFlight::new(Arc::clone(&shared));
    let answer = {
        let mut answers = shared.answers.lock().unwrap();
        let next = answers.0.pop_front();
        next.unwrap_or_else(|| answers.1.clone())
    };
    shared.received.lock().unwrap().push(Received {
        headers,
        body,
        at: Instant::now(),
        at_ms: now_ms(),
    });
    let of = |status| StatusCode::from_u16(status).expect("a status");
    let response = match answer {
        Answer::Status(status) => of(status).into_response(),
        Answer::Held(status) => {
            shared.released.acquire().await.expect("open").forget();
            of(status).into_response()
        }
        Answer::Full(status, headers, body) => {
            let mut response = (of(status), body).into_response();
            for (name, value) in headers {
                let value = value.parse().expect("a value");
                response.headers_mut().insert(name, value);
            }
            response
        }
        Answer::Endless(status) => {
            let chunk = Bytes::from(vec![b'x'; 16 << 10]);
            let chunks = futures_util::stream::repeat_with(move || {
                Ok::<_, std::convert::Infallible>(chunk.clone())
            });
            (of(status), Body::from_stream(chunks)).into_response()
        }
    };
    drop(running);
    response
}

pub(super) fn now_ms() -> u64 {
    use duly::time::{Clock, SystemClock};
    SystemClock::new().now().as_millis()
}
