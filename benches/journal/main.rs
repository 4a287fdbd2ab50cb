//! A benchmark of journals: the rate of loads, and the time of a page of each query.
//!
//! ```text
//! cargo bench --bench journal                                # 100,000 records
//! DULY_BENCH_RECORDS=5000000 cargo bench --bench journal     # some minutes, and some GB on disk
//! cargo bench --bench journal -- --quick                     # 20,000 records
//! cargo bench --bench journal -- postgres                    # one journal alone
//! ```
//!
//! It asserts no time. Loading is compared with a bulk insert of the same rows into the same
//! tables, batch by batch in turn, so that both run under the same conditions; the ratio travels,
//! the rates do not. Then each query reads its first page, one in the middle and one of the last,
//! in both orders, and the database's plan is printed.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]

mod contender;
mod load;
mod postgres;
mod prune;
mod queries;
mod records;
#[path = "../../tests/servers/mod.rs"]
mod servers;
mod sqlite;

use contender::Contender;
use tokio::runtime::Builder;

/// What goes wrong in a benchmark ends it.
type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result {
    // `cargo test --benches` runs it without this argument, just to see that it runs.
    let benching = std::env::args().any(|arg| arg == "--bench");
    let quick = std::env::args().any(|arg| arg == "--quick") || !benching;
    let records = match std::env::var("DULY_BENCH_RECORDS") {
        Ok(records) => records.parse()?,
        Err(_) if quick => 20_000,
        Err(_) => 100_000,
    };
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run(records))
}

async fn run(records: u64) -> Result {
    let named = |name: &str| std::env::args().any(|arg| arg == name);
    let all = !named("sqlite") && !named("postgres");
    // One after the other, so that each has the machine for itself.
    if all || named("sqlite") {
        measure(&mut sqlite::Sqlite::open()?, records).await?;
    }
    if all || named("postgres") {
        measure(&mut postgres::Postgres::open().await?, records).await?;
    }
    Ok(())
}

async fn measure(contender: &mut dyn Contender, records: u64) -> Result {
    load::run(contender, records).await?;
    queries::run(contender, records).await?;
    prune::run(contender, records).await
}
