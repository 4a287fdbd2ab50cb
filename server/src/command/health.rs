//! `duly health`: whether a server runs, as the health check of a container asks.

use std::net::SocketAddr;

use clap::Args;
use duly_server::Settings;
use duly_server::settings::Overrides;
use reqwest::Method;

use super::error::{CommandError, Result};
use super::http::HttpClient;
use super::output::Output;

#[derive(Args, Debug)]
pub(crate) struct HealthCommand {
    /// The server [default: that of `duly serve` with this environment in this folder]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Also asks whether its stores and its shared state can be used
    #[arg(long)]
    ready: bool,
    /// Writes JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(super) async fn run(command: HealthCommand) -> Result<()> {
    let (path, words) = if command.ready {
        ("readyz", "the server is ready")
    } else {
        ("healthz", "the server runs")
    };
    let http = match &command.server {
        Some(url) => HttpClient::new(url, None)?,
        None => HttpClient::of_this_machine(own_listener()?)?,
    };
    let said = http.send(Method::GET, &[path], &[], None).await?;
    Output::new(command.json).value(&said, words)
}

/// Returns the address of a listener of the server: that of the API, or of the admin interface where
/// the API speaks TLS, whose certificate has a name that is not known here.
fn own_listener() -> Result<SocketAddr> {
    let settings = Settings::load(None, Overrides::default());
    let settings = settings.map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(match settings.api.tls_certificate {
        Some(_) => settings.admin.listen,
        None => settings.api.listen,
    })
}
