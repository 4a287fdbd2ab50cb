//! What happens to the work when one of two processes on a Redis queue is killed?

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::collections::BTreeSet;
use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duly::prelude::*;
use duly::records::Record;
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
    let url = format!("redis+unix://{}", socket.display());
    let mut redis = Command::new("redis-server");
    let redis = redis.args(["--port", "0", "--save", "", "--unixsocket"]);
    let redis = redis.arg(&socket).stdout(Stdio::null()).spawn();
    let _redis = Killed(redis.map_err(|error| format!("redis-server cannot be run: {error}"))?);
    let limit = Instant::now() + Duration::from_secs(14);
    while !socket.exists() && Instant::now() < limit {
        sleep(Duration::from_millis(10)).await;
    }
    let consumer = || Command::new(std::env::current_exe()?).arg(&url).spawn();
    let (_stays, goes) = (Killed(consumer()?), Killed(consumer()?));
    let bus = Bus::builder().store_url(&url).publish_only();
    let (bus, mut sent) = (bus.start().await?, BTreeSet::new());
    for parcel in 0..PARCELS {
        let delay = Duration::from_millis(1_000 + parcel as u64 * 8);
        // What has keys lies in many buckets, so that both have some at any time.
        let event = bus.queue::<ship>().event(parcel).key(parcel.to_string());
        sent.insert(event.after(delay).push().await?.id());
    }
    println!("{PARCELS} parcels on one queue, and two processes that ship them.");
    sleep(Duration::from_millis(2_500)).await;
    drop(goes);
    let (shipped, held) = loop {
        let page = bus.records().queue("parcels").limit(1_000).page().await?;
        let (ends, held): (Vec<_>, Vec<_>) = page.items.into_iter().partition(Record::is_final);
        if ends.len() >= PARCELS || Instant::now() > limit {
            break (ends, held);
        }
        sleep(Duration::from_millis(50)).await;
    };
    let ids: BTreeSet<_> = shipped.iter().map(|record| record.id).collect();
    assert_eq!(ids, sent, "every parcel is shipped");
    let killed = held.first().ok_or("nothing was in its hands")?.node;
    let first = shipped.iter().filter(|it| it.node == killed).count();
    assert!(0 < first && first < PARCELS, "both have worked");
    let (held, rest) = (held.len(), PARCELS - first);
    println!("One is killed after {first}, with {held} more in its hands.");
    println!("The other ships all the rest, {rest}. None is lost.");
    Ok(bus.shutdown(Duration::from_secs(1)).await?)
}
