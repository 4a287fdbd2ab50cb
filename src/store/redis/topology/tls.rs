//! Clients that speak TLS.

use std::path::PathBuf;

use redis::{Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, TlsCertificates};

use crate::store::redis::url::Tls;

/// A client that trusts whom `tls` says.
///
/// The package takes the process's default cipher provider, and panics where there is none or
/// several could be meant, so one is installed unless the program has chosen its own.
pub(super) fn client(info: ConnectionInfo, tls: &Tls) -> RedisResult<Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster, and then there is one as well.
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
