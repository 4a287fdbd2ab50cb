//! TLS clients.

use std::path::PathBuf;

use redis::{Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, TlsCertificates};

use crate::store::redis::link::url::Tls;

/// Creates a client that trusts the certificates of `tls`.
///
/// The package uses the process's default cipher provider, and panics if there is none or an
/// ambiguous one, so this installs one unless the program has chosen its own.
pub(super) fn client(info: ConnectionInfo, tls: &Tls) -> RedisResult<Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: tls.ca.as_ref().map(read).transpose()?,
    };
    Client::build_with_tls(info, certificates)
}

fn read(path: &PathBuf) -> RedisResult<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        RedisError::from((
            ErrorKind::InvalidClientConfig,
            "the file of root certificates cannot be read",
            format!("{}: {error}", path.display()),
        ))
    })
}
