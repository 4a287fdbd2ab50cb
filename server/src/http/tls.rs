//! TLS by rustls: certificate and key from PEM files, which are read again when they change.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(10);

/// A certificate chain and its key, as the files have them.
#[derive(Debug)]
pub(crate) struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
}

/// What tells that a file has changed: its time, its length, and which file it is.
type FileStamp = Option<(Option<SystemTime>, u64, u64)>;

impl Certificates {
    /// Reads the files.
    pub(crate) fn open(certificate: &Path, key: &Path) -> io::Result<Arc<Self>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let current = read(certificate, key, &provider)?;
        Ok(Arc::new(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            provider,
            current: RwLock::new(Arc::new(current)),
        }))
    }

    pub(crate) fn acceptor(self: &Arc<Self>) -> io::Result<TlsAcceptor> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&self.certificate, &error))?;
        let resolver = Arc::clone(self);
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again; new connections get what they have now. Files that are wrong change
    /// nothing.
    pub(crate) async fn reload(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let read = move || read(&this.certificate, &this.key, &this.provider);
        let read = tokio::task::spawn_blocking(read).await;
        match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(new) => {
                let mut current = self.current.write();
                let is_new = current.cert != new.cert;
                *current = Arc::new(new);
                tracing::info!(is_new, "certificate read again");
            }
            Err(error) => tracing::error!(%error, "certificate not read again; the old one stays"),
        }
    }

    /// Reads the files again whenever they change.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut seen = self.seen().await;
        loop {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
            let now = self.seen().await;
            if now != seen {
                seen = now;
                self.reload().await;
            }
        }
    }

    async fn seen(&self) -> (FileStamp, FileStamp) {
        let of = async |path: &Path| {
            let metadata = tokio::fs::metadata(path).await.ok()?;
            Some((metadata.modified().ok(), metadata.len(), inode(&metadata)))
        };
        (of(&self.certificate).await, of(&self.key).await)
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read();
        Some(Arc::clone(&current))
    }
}

fn wrong(file: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{}: {why}", file.display()),
    )
}

fn read(certificate: &Path, key: &Path, provider: &CryptoProvider) -> io::Result<CertifiedKey> {
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|error| wrong(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let read = CertifiedKey::from_der(chain, private, provider);
    read.map_err(|error| wrong(certificate, &error))
}
