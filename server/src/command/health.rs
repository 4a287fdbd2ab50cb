//! `duly health`: whether a server runs, as the health check of a container asks.

use clap::Args;
use reqwest::Method;

use super::error::Result;
use super::http::HttpClient;
use super::output::Output;

#[derive(Args, Debug)]
pub(crate) struct HealthCommand {
    /// The server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7777")]
    server: String,
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
    let http = HttpClient::new(&command.server, None)?;
    let said = http.send(Method::GET, &[path], &[], None).await?;
    Output::new(command.json).value(&said, words)
}
