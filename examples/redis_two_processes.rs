//! What becomes of the work when one of two processes on one Redis queue is killed?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::collections::BTreeSet;
use std::error::Error;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duly::prelude::*;
use duly::record::Record;
use tokio::time::{Instant, sleep};

const PARCELS: usize = 400;

#[delay_event(queue = "parcels", buckets = 32, workers = 4)]
async fn ship(_parcel: Event<usize>) -> Result<(), Failure> {
    sleep(Duration::from_millis(30)).await;
    Ok(())
}

/// A process that is killed when this is dropped, as by `kill -9`.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait()); // it may have ended before
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(url) = std::env::args().nth(1) {
        let _consumer = Bus::builder().store_url(url).start().await?;
        return std::future::pending().await; // it works until it is killed
    }
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("redis.sock");
    let mut redis = Command::new("redis-server");
    let redis = redis.args(["--port", "0", "--save", "", "--unixsocket"]);
    let redis = redis.arg(&socket).stdout(Stdio::null()).spawn();
    let _redis = Killed(redis.map_err(|error| format!("redis-server cannot be run: {error}"))?);
    let limit = Instant::now() + Duration::from_secs(14);
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < limit, "redis-server does not answer");
        sleep(Duration::from_millis(10)).await;
    }

    let url = format!("redis+unix://{}", socket.display());
    let consumer = || Command::new(std::env::current_exe()?).arg(&url).spawn();
    let (_stays, goes) = (Killed(consumer()?), Killed(consumer()?));
    let bus = Bus::builder().store_url(&url).publish_only();
    let (bus, mut sent) = (bus.start().await?, BTreeSet::new());
    for parcel in 0..PARCELS {
        let delay = Duration::from_millis(1_000 + parcel as u64 * 8);
        sent.insert(bus.queue::<ship>().push(parcel, delay).await?.id());
    }
    println!("{PARCELS} parcels on one queue, and two processes that ship them.");
    sleep(Duration::from_millis(2_500)).await;
    drop(goes);

    let (shipped, held) = loop {
        let page = bus.records().queue("parcels").limit(1_000).page().await?;
        let records: (Vec<_>, Vec<_>) = page.items.into_iter().partition(Record::is_final);
        if records.0.len() >= PARCELS {
            break records;
        }
        assert!(Instant::now() < limit, "parcels are lost");
        sleep(Duration::from_millis(50)).await;
    };
    let ids: BTreeSet<_> = shipped.iter().map(|it| it.id).collect();
    assert_eq!(ids, sent, "each parcel that was sent is shipped");
    let killed = held.first().ok_or("nothing was in its hands")?.node;
    let first = shipped.iter().filter(|it| it.node == killed).count();
    println!(
        "One is killed when it has shipped {first}, with {} in its hands.",
        held.len()
    );
    println!(
        "The other ships the {} that are left. None is lost.",
        PARCELS - first
    );
    assert!(0 < first && first < PARCELS, "both have worked");
    Ok(bus.shutdown(Duration::from_secs(1)).await?)
}
