//! `duly demo`: a made-up shop on an embedded store in a temporary folder, and its dashboard.

mod handlers;
mod shop;

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use duly::config::Settings;
use duly::{Bus, ErrorKind};
use duly_dashboard::{Dashboard, Role};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli;
use crate::demo::shop::Shop;

/// How long handlers and requests may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// What a demo is given.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// The address of the dashboard; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7788")]
    listen: SocketAddr,
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
        seconds,
        seed,
    }: Demo,
) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| format!("the demo cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr()?;
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let bus = handlers::register(Bus::builder().settings(Settings::default()).store_url(url));
    let bus = bus.start().await?;
    let shop = Shop::open(&bus, seed)?;
    shop.fill().await?;
    let closing = CancellationToken::new();
    let dashboard = Dashboard::new(bus.clone())
        .open(Role::Admin)
        .until(closing.clone().cancelled_owned());
    let serving = axum::serve(listener, dashboard.router())
        .with_graceful_shutdown(closing.clone().cancelled_owned());
    let serving = tokio::spawn(serving.into_future());
    announce(address)?;
    let time_is_over = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = shop.run() => ended.map_err(Failed::from),
        stopped = cli::stop_signal() => stopped.map_err(Failed::from),
        () = time_is_over => Ok(()),
    };
    closing.cancel();
    // A connection that is still open then is cut by the end of the process.
    let _ = tokio::time::timeout(GRACE, serving).await;
    match bus.shutdown(GRACE).await {
        // A handler of the demo did not end in time; nobody misses its outcome.
        Err(error) if error.kind() == ErrorKind::TimedOut => {}
        closed => closed?,
    }
    ended
}

/// Says where to look, and at what.
fn announce(address: SocketAddr) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "A made-up shop runs. Its dashboard: http://{address}/dashboard\n\n\
         Look at:\n  \
         invoices        late: one slow worker, and more comes than it handles\n  \
         payments        cards are declined: dead letters, with the reason, to be revived\n  \
         newsletter      waits for its rate of 5 a second\n  \
         cart-reminders  what falls due in the next hour, with a peak\n\n\
         It keeps everything in a temporary folder, which goes when it ends: press Ctrl-C."
    )?;
    out.flush()
}
