//! `duly demo`: a made-up shop on an embedded store in a temporary folder, with a server.

mod handlers;
mod shop;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use duly::Bus;
use duly::config::Settings;
use duly_server::settings::address;
use duly_server::{Server, Settings as ServerSettings};
use tokio::net::TcpListener;

use crate::demo::shop::Shop;
use crate::signals::Signals;

/// How long handlers and requests may take to end.
const GRACE_S: u64 = 2;
/// The part of the queues' names before the dot.
const NAMESPACE: &str = "shop";

/// What a demo is given.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// The address of the dashboard; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:7788")]
    listen: SocketAddr,
    /// The address of the API; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:7789")]
    api: SocketAddr,
    /// Ends by itself after so many seconds [default: it runs until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// The seed of what customers do
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Runs the shop until its time is over or it is told to stop.
pub(crate) async fn run(
    Demo {
        listen,
        api,
        seconds,
        seed,
    }: Demo,
) -> Result<(), Failed> {
    // Before there is something that it would leave behind.
    let mut signals = Signals::listen_for_end()?;
    let folder = tempfile::tempdir()?;
    for listen in [listen, api] {
        // Says which of them is taken; the server's own error follows if another takes it now.
        TcpListener::bind(listen)
            .await
            .map_err(|error| format!("the demo cannot listen on {listen}: {error}"))?;
    }
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let bus = handlers::register(Bus::builder().settings(Settings::default()).store_url(url));
    let bus = bus.dynamic_queues().start().await?;
    let shop = Shop::open(&bus, seed)?;
    shop.fill().await?;
    let server = Server::start_with(settings(listen, api), bus).await?;
    let token = server.create_token(NAMESPACE, "the demo").await?;
    announce(&server, &token)?;
    let time_is_over = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = shop.run() => ended.map_err(Failed::from),
        _ = signals.next() => Ok(()),
        () = time_is_over => Ok(()),
    };
    // A handler or a request that does not end in time is cut by the end of the process.
    server.stop().await;
    ended
}

/// A server on this bus, whose tokens are in memory.
fn settings(listen: SocketAddr, api: SocketAddr) -> ServerSettings {
    let mut settings = ServerSettings::default();
    settings.api.listen = api;
    settings.admin.listen = listen;
    settings.admin.state = Some("memory:".to_owned());
    settings.limits.grace_s = GRACE_S;
    settings
}

/// Says where to look, at what, and what to try.
fn announce(server: &Server, token: &str) -> std::io::Result<()> {
    let (admin, api) = (server.admin_address(), server.api_address());
    let duly = program();
    let on = format!("--server http://{api} --namespace {NAMESPACE} --token {token}");
    // In one piece, so that a reader of the first line alone ends nothing.
    let text = format!(
        "A made-up shop runs. Its dashboard: http://{admin}/dashboard\n\
         Its API: http://{api}/v1/{NAMESPACE}, with the token {token}\n\n\
         Look at:\n  \
         shop.invoices        late: one slow worker, and more comes than it handles\n  \
         shop.payments        cards are declined: dead letters, with the reason, to be revived\n  \
         shop.newsletter      waits for its rate of 5 a second\n  \
         shop.cart-reminders  what falls due in the next hour, with a peak\n\n\
         Try in another terminal:\n  \
         {duly} top {on}\n  \
         {duly} node list {on}\n  \
         {duly} event list --key customer:ada --limit 5 {on}\n  \
         {duly} dead revive --queue shop.payments --all --dry-run {on}\n  \
         curl -X PUT -H 'X-Token: {token}' -d hello 'http://{api}/api/{NAMESPACE}/mine?delay=60&tries=3'\n\n\
         It keeps everything in a temporary folder, which goes when it ends: press Ctrl-C.\n"
    );
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// How to call this program in a shell: by its name if that finds it.
fn program() -> String {
    let Ok(here) = std::env::current_exe() else {
        return "duly".to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join("duly"));
    let found = found.find(|file| file.is_file());
    let is_same = |file: &Path| file.canonicalize().ok() == here.canonicalize().ok();
    match found {
        Some(file) if is_same(&file) => "duly".to_owned(),
        _ => format!("'{}'", here.display()),
    }
}
