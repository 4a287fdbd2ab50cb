//! A listener: accepts a bounded number of connections, serves HTTP/1.1 on each, and stops within
//! a grace period.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use super::connections::{Connection, Connections};
use super::peer;
use crate::settings::LimitSettings;

/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 100;
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many connections the kernel keeps until they are accepted.
const BACKLOG: u32 = 4096;
/// The pause after an error of `accept`, which is often a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often such errors are logged, with their number.
const ACCEPT_LOGGED_EVERY: Duration = Duration::from_secs(10);
/// How long a stop waits for the rest of a head.
const HEAD_MAX: Duration = Duration::from_millis(500);

/// A socket that is bound, and serves nothing yet.
#[derive(Debug)]
pub(crate) struct Socket {
    name: &'static str,
    address: SocketAddr,
    listener: TcpListener,
}

/// A listener that serves; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    closing: DropGuard,
    serving: JoinHandle<()>,
}

/// What every connection of a listener has in common.
struct Service {
    name: &'static str,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: LimitSettings,
    connections: Arc<Connections>,
    /// Cancelled when the grace period is over.
    aborted: CancellationToken,
}

impl Socket {
    /// Binds an address.
    pub(crate) fn bind(name: &'static str, address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        let bound = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
        let listener = bound.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{name} listener at {address}: {error}"),
            )
        })?;
        Ok(Self {
            name,
            address: listener.local_addr()?,
            listener,
        })
    }

    /// Begins to serve; `limits.connections` are the places of the listener.
    pub(crate) fn serve(
        self,
        router: Router,
        tls: Option<TlsAcceptor>,
        limits: LimitSettings,
    ) -> Listener {
        let Self {
            name,
            address,
            listener,
        } = self;
        let closing = CancellationToken::new();
        let service = Arc::new(Service {
            name,
            router,
            tls,
            limits,
            connections: Connections::new(limits.connections),
            aborted: CancellationToken::new(),
        });
        let serving = tokio::spawn(accept(listener, service, closing.clone()));
        tracing::info!(listener = name, %address, "listening");
        Listener {
            address,
            closing: closing.drop_guard(),
            serving,
        }
    }
}

impl Listener {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, and lets requests that run end within the grace period.
    pub(crate) async fn stop(self) {
        drop(self.closing);
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "listener failed");
        }
    }
}

async fn accept(listener: TcpListener, service: Arc<Service>, closing: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let mut errors = AcceptErrors::default();
    loop {
        let next = async {
            let accepted = listener.accept().await;
            (accepted, service.connections.open().await)
        };
        let (accepted, place) = tokio::select! {
            next = next => next,
            () = closing.cancelled() => break,
        };
        match (accepted, place) {
            (Ok((stream, peer)), Some(place)) => {
                let service = Arc::clone(&service);
                let watcher = graceful.watcher();
                tokio::spawn(async move {
                    let of = place.in_use();
                    let connection = service.open(stream, peer, watcher, place);
                    peer::serving(peer, of, connection).await;
                });
            }
            (Err(error), _) => {
                errors.add(service.name, &error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            (Ok(_), None) => break, // places are given out for as long as there is a listener
        }
    }
    drop(listener);
    let grace = service.limits.grace();
    let stopped = async {
        let stopped = graceful.shutdown();
        tokio::pin!(stopped);
        if timeout(HEAD_MAX, &mut stopped).await.is_err() {
            // What is there by now of a head is not the whole of one.
            service.connections.end_idlest(usize::MAX);
            stopped.await;
        }
    };
    if timeout(grace, stopped).await.is_err() {
        let listener = service.name;
        tracing::warn!(listener, ?grace, "requests did not end in time");
    }
    service.aborted.cancel();
}

/// Errors of `accept`, logged in a bounded number of lines.
#[derive(Debug, Default)]
struct AcceptErrors {
    count: u64,
    logged: Option<Instant>,
}

impl AcceptErrors {
    fn add(&mut self, listener: &'static str, error: &io::Error) {
        self.count += 1;
        let is_recent = |logged: Instant| logged.elapsed() < ACCEPT_LOGGED_EVERY;
        if self.logged.is_none_or(|logged| !is_recent(logged)) {
            let count = std::mem::take(&mut self.count);
            tracing::warn!(listener, %error, count, "accept failed");
            self.logged = Some(Instant::now());
        }
    }
}

impl Service {
    /// Serves a connection until it ends, or has to.
    async fn open(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        watcher: Watcher,
        connection: Connection,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "connection failed");
            return;
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(Duration::from_secs(self.limits.write_timeout_s)));
        let stream = Box::pin(stream);
        let connection = Arc::new(connection);
        let serving = async {
            match &self.tls {
                None => self.serve(stream, peer, watcher, &connection).await,
                Some(tls) => match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                    Ok(Ok(stream)) => self.serve(stream, peer, watcher, &connection).await,
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "tls handshake failed"),
                    Err(_) => tracing::debug!(%peer, "tls handshake timed out"),
                },
            }
        };
        tokio::select! {
            () = serving => {}
            () = connection.ended() => {}
            () = self.aborted.cancelled() => {}
        }
    }

    async fn serve<S>(
        &self,
        stream: S,
        peer: SocketAddr,
        watcher: Watcher,
        connection: &Arc<Connection>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (router, connection) = (self.router.clone(), Arc::downgrade(connection));
        let service = service_fn(move |request: Request<Incoming>| {
            // It is there for as long as requests are read from it.
            let serving = connection.upgrade().map(|connection| connection.serves());
            let response = router.clone().oneshot(request);
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(match serving {
                    Some(serving) => serving.with(response),
                    None => response,
                })
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(self.limits.header_timeout_s))
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%peer, %error, "connection failed");
        }
    }
}
