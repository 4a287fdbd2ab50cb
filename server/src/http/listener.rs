//! A listener: accepts a bounded number of connections, serves HTTP/1.1 on each, and stops within
//! a grace period.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

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

/// A listener that serves.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    closing: CancellationToken,
    serving: JoinHandle<()>,
}

/// What every connection of a listener has in common.
struct Connections {
    name: &'static str,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: LimitSettings,
    /// Cancelled when the grace period is over.
    aborted: CancellationToken,
}

impl Listener {
    /// Binds an address and begins to serve.
    pub(crate) fn start(
        name: &'static str,
        address: SocketAddr,
        router: Router,
        tls: Option<TlsAcceptor>,
        limits: LimitSettings,
    ) -> io::Result<Self> {
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
        let address = listener.local_addr()?;
        let closing = CancellationToken::new();
        let connections = Arc::new(Connections {
            name,
            router,
            tls,
            limits,
            aborted: CancellationToken::new(),
        });
        let serving = tokio::spawn(accept(listener, connections, closing.clone()));
        tracing::info!(listener = name, %address, "listening");
        Ok(Self {
            address,
            closing,
            serving,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, and lets requests that run end within the grace period.
    pub(crate) async fn stop(self) {
        self.closing.cancel();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "listener failed");
        }
    }
}

async fn accept(listener: TcpListener, connections: Arc<Connections>, closing: CancellationToken) {
    let places = Arc::new(Semaphore::new(connections.limits.connections));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            // The semaphore is never closed; a place taken here is given back by the connection.
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = closing.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connections = Arc::clone(&connections);
                let watcher = graceful.watcher();
                tokio::spawn(async move {
                    peer::serving(peer, connections.open(stream, peer, watcher)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(listener = connections.name, %error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let grace = connections.limits.grace();
    if timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            listener = connections.name,
            ?grace,
            "requests did not end in time"
        );
    }
    connections.aborted.cancel();
}

impl Connections {
    async fn open(&self, stream: TcpStream, peer: SocketAddr, watcher: Watcher) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "connection failed");
            return;
        }
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(Duration::from_secs(self.limits.write_timeout_s)));
        let stream = Box::pin(stream);
        match &self.tls {
            None => self.serve(stream, peer, watcher).await,
            Some(tls) => match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.serve(stream, peer, watcher).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "tls handshake failed"),
                Err(_) => tracing::debug!(%peer, "tls handshake timed out"),
            },
        }
    }

    async fn serve<S>(&self, stream: S, peer: SocketAddr, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = TowerToHyperService::new(self.router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(self.limits.header_timeout_s))
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            ended = watcher.watch(connection) => if let Err(error) = ended {
                tracing::debug!(%peer, %error, "connection failed");
            },
            () = self.aborted.cancelled() => {}
        }
    }
}
