//! TLS: certificate verification.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// Creates a connector that verifies a server's certificate against the authorities of a file, or
/// those of the machine.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) when there is no authority.
pub(super) fn connector(roots: Option<&Path>) -> Result<MakeRustlsConnect> {
    match roots {
        Some(file) => of_file(file),
        None => of_machine(),
    }
}

fn of_file(file: &Path) -> Result<MakeRustlsConnect> {
    let wrong = |what: String| Error::invalid(format!("sslrootcert {}: {what}", file.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file);
    for certificate in certificates.map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("it has no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Creates a connector for the authorities of the machine. The package uses the process's default
/// cipher provider, and panics if there is none or an ambiguous one, so this installs one unless
/// the program has chosen its own.
fn of_machine() -> Result<MakeRustlsConnect> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only if another thread was faster, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let (connector, _unreadable) = MakeRustlsConnect::with_native_certs().map_err(|_| {
        Error::invalid(
            "this machine has no root certificates: install some (`ca-certificates`), or name a \
             file with sslrootcert=",
        )
    })?;
    Ok(connector)
}
