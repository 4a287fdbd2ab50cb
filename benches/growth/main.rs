//! A benchmark of growth: what changes with more events, queues, buckets, nodes, larger payloads,
//! and with a cluster; and its pictures.
//!
//! ```text
//! cargo bench --bench growth                          # everything, about half an hour
//! cargo bench --bench growth -- --quick               # the small sizes of each part
//! cargo bench --bench growth -- queues/               # one part
//! cargo bench --bench growth -- pending/redis/100000  # one point of it
//! cargo bench --bench growth -- draw                  # only the pictures
//! ```
//!
//! Parts: pending, queues, buckets, nodes, payloads, cluster. Each point is measured in a process
//! of its own, on a store of its own. What a run measures replaces the same points in
//! `benches/growth/results.tsv`, and all pictures in `src/docs/pictures` are drawn from that file.
//! It asserts no time; it fails if an event was lost or started early.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on its standard output"
)]

mod chart;
mod fixture;
mod measure;
mod pictures;
mod plan;
mod results;
#[path = "../../tests/servers/mod.rs"]
mod servers;

use std::process::{Command, Stdio};

use plan::{Kept, Point};
use results::Results;
use servers::{Cluster, Redis, RedisOptions};
use tokio::runtime::Builder;

/// What goes wrong in a benchmark ends it.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T = (), E = Error> = std::result::Result<T, E>;

/// The word with which this program starts itself to measure.
const CHILD: &str = "child";

fn main() -> Result {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, step, point, url] = &words[..]
        && first == CHILD
    {
        return child(step, &Point::named(point)?, url);
    }
    // `cargo test --benches` runs it without this argument, just to see that it runs.
    let benching = words.iter().any(|word| word == "--bench");
    let quick = words.iter().any(|word| word == "--quick") || !benching;
    let names: Vec<_> = words
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    let mut results = Results::read()?;
    for point in plan::points(quick) {
        let name = point.name();
        if names.is_empty() || names.iter().any(|word| name.contains(&word[..])) {
            measured(&point, &mut results)?;
            if benching {
                results.write()?;
            }
        }
    }
    if benching {
        pictures::draw(&results)?;
    }
    Ok(())
}

/// Measures a point: one process fills the store, the next one opens it and measures.
fn measured(point: &Point, results: &mut Results) -> Result {
    let folder = tempfile::tempdir()?;
    let (mut server, mut cluster) = (None, None);
    let url = match point.kept {
        Kept::Embedded => format!("sqlite:{}", folder.path().join("duly.db").display()),
        Kept::Redis => server.insert(redis()).url(),
        Kept::Cluster => cluster.insert(Cluster::masters(3)).url(),
    };
    let bytes = |server: &Option<Redis>| server.as_ref().map_or(0.0, used_memory);
    let empty = bytes(&server);
    let mut figures = run("fill", point, &url)?;
    if point.pending > 0 && server.is_some() {
        let an_event = (bytes(&server) - empty) / point.pending as f64;
        figures.push(("bytes_an_event".to_owned(), an_event));
    }
    figures.extend(run("measure", point, &url)?);
    println!("{}", point.name());
    for (name, value) in &figures {
        println!("  {name:<20}{value:>14.3}");
    }
    results.replace(point, figures);
    Ok(())
}

/// On a port, as the nodes of a cluster are.
fn redis() -> Redis {
    Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    })
}

fn used_memory(server: &Redis) -> f64 {
    let info = server.cli(&["INFO", "memory"]);
    let mut fields = info.lines().filter_map(|line| line.trim().split_once(':'));
    let field = fields.find(|(name, _)| *name == "used_memory");
    field
        .and_then(|(_, bytes)| bytes.parse().ok())
        .unwrap_or(0.0)
}

/// Runs a step in a process of its own, which prints its figures.
fn run(step: &str, point: &Point, url: &str) -> Result<Vec<(String, f64)>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([CHILD, step, &point.name(), url]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{}: {step} has failed", point.name()).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let figures = text.lines().filter_map(|line| line.split_once('='));
    figures
        .map(|(name, value)| Ok((name.to_owned(), value.parse()?)))
        .collect()
}

fn child(step: &str, point: &Point, url: &str) -> Result {
    let (point, url) = (point.clone(), url.to_owned());
    let is_fill = step == "fill";
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // In a task of the runtime, as an application would be.
    let figures = runtime.block_on(async move {
        let measured = tokio::spawn(async move {
            if is_fill {
                measure::fill(&point, &url).await
            } else {
                measure::all(&point, &url).await
            }
        });
        measured.await?
    });
    for (name, value) in figures? {
        println!("{name}={value}");
    }
    Ok(())
}
