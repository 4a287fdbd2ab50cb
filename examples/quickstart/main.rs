//! What is duly for? Unpaid orders are closed on time, and every one is accounted for.
//!
//! ```text
//! cargo run --example quickstart             # the orders of examples/data/orders.jsonl
//! cargo run --example quickstart -- my.jsonl # your own: one order a line, as in that file
//! ```
//!
//! Ends by itself within ten seconds. Fails if an event is missing, was early, or ended otherwise
//! than its receipt says.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks"
)]

mod account;
mod orders;
mod report;
mod shop;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use duly::prelude::*;
use tokio::task::JoinSet;

use account::{Account, Sale};
use shop::close_order;

/// The longest that the story may take, from the last push on.
const PATIENCE: Duration = Duration::from_secs(9);

#[tokio::main]
async fn main() -> ExitCode {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/orders.jsonl");
    let file = std::env::args_os().nth(1);
    match run(&file.map_or(shipped.into(), PathBuf::from)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(file: &Path) -> Result<(), Box<dyn Error>> {
    let orders = orders::read(file)?;
    if orders.is_empty() {
        println!("{} holds no orders: nothing to do", file.display());
        return Ok(());
    }

    // One file is all there is to install: it is the store, and it survives a power cut.
    let directory = tempfile::tempdir()?;
    let url = format!("sqlite:{}", directory.path().join("duly.db").display());
    let bus = Bus::builder().store_url(url).start().await?;
    report::opening(orders.len(), bus.durability());

    // Each order is closed after its own delay, unless it is paid before.
    let queue = bus.queue::<close_order>();
    let mut sales = JoinSet::new();
    for order in orders {
        sales.spawn(shop::sell(queue.clone(), order));
    }
    let mut sold: Vec<Sale> = Vec::new();
    while let Some(sale) = sales.join_next().await {
        sold.push(sale??);
    }
    tokio::time::timeout(PATIENCE, until_all_is_over(&bus)).await??;

    let account = Account::of(&sold, account::read(&bus).await?);
    let dead = bus.dead_letters().limit(1_000).page().await?.items.len();
    bus.shutdown(Duration::from_secs(5)).await?;
    report::print(&account, dead);
    Ok(account.verdict()?)
}

/// Waits until nothing waits and nothing runs: what is left then are dead letters.
async fn until_all_is_over(bus: &Bus) -> duly::Result<()> {
    loop {
        let stats = bus.stats("order-close").await?;
        if stats.scheduled + stats.ready + stats.leased == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
