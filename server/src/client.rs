//! HTTP clients: of webhooks, and of the commands of an operator.
//!
//! They trust the certificates of the system. A container without any has those of Mozilla, which
//! are compiled in; `http://` needs none in any case.

use std::sync::LazyLock;

use reqwest::{Certificate, Client, ClientBuilder};

/// Whether the system has certificates of authorities.
static HAS_CERTIFICATES: LazyLock<bool> = LazyLock::new(|| Client::builder().build().is_ok());

/// Returns a builder that knows whom to trust.
pub fn builder() -> ClientBuilder {
    // The client takes the provider of the process; another that is there is fine as well.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    if *HAS_CERTIFICATES {
        Client::builder()
    } else {
        let compiled_in = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
        let compiled_in = compiled_in.filter_map(|der| Certificate::from_der(der).ok());
        Client::builder().tls_certs_merge(compiled_in)
    }
}
