//! Many parked polls: the memory that each takes, and how fast others publish meanwhile.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::future::select_all;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::server::{Client, Server};
use crate::{CONNECTIONS, LATER, quantile};

/// As many polls as the system allows this process and the server to hold, but not more than these.
pub(crate) const POLLS: usize = 20_000;
/// The files that a process needs beside those of its polls.
const FILES_MARGIN: u64 = 500;
/// The polls of one source address: there are some 28,000 ports.
const PER_ADDRESS: usize = 10_000;
/// The queues that the polls wait for.
const QUEUES: usize = 200;

/// Publishes with and without parked polls beside, and prints both.
pub(crate) async fn run(server: &Server, polls: usize, time: Duration) {
    let files = rlimit::increase_nofile_limit(POLLS as u64 + 2 * FILES_MARGIN).unwrap_or(1_024);
    // The server waits with three quarters of its connections for a token.
    let files = usize::try_from(files.saturating_sub(FILES_MARGIN)).unwrap();
    let polls = polls.min(files / 2);
    let before = publish_times(server, time).await;
    let memory = server.memory();
    let parked = park(server, polls).await;
    let grown = server.memory().saturating_sub(memory);
    let beside = publish_times(server, time).await;
    println!(
        "{} parked polls, KiB each: {:.1}",
        parked.len(),
        grown as f64 / 1_024.0 / parked.len() as f64
    );
    for (what, times) in [("none", &before), ("these", &beside)] {
        let (p50, p99) = (quantile(times, 0.5), quantile(times, 0.99));
        let rate = times.len() as f64 / time.as_secs_f64();
        println!("publish beside {what}: {rate:.0}/s, ms: p50 {p50:.2}, p99 {p99:.2}");
    }
    hand_off(server, parked).await;
}

/// Sends polls from several addresses of this machine, and returns when all of them wait.
async fn park(server: &Server, polls: usize) -> Vec<Client> {
    let mut parked = Vec::with_capacity(polls);
    for number in 0..polls {
        let last = u8::try_from(2 + number / PER_ADDRESS).unwrap();
        let source = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
        let mut client = Client::from(source, server.api, server.token.clone()).await;
        let queue = number % QUEUES;
        let path = format!("/api/ns/parked-{queue}?ttr=60&timeout=600");
        client.request("GET", &path, b"").await;
        parked.push(client);
    }
    server.wait_for_polls(polls).await;
    parked
}

/// Publishes on some connections for a while; returns how long each took, sorted, in milliseconds.
async fn publish_times(server: &Server, time: Duration) -> Vec<f64> {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut client = Client::new(server.api, server.token.clone()).await;
        tasks.spawn(async move {
            let path = format!("/api/ns/beside?{LATER}");
            let mut times = Vec::new();
            while times.is_empty() || Instant::now() < end {
                let sent = Instant::now();
                let (status, _) = client.send("PUT", &path, &[b'x'; 64]).await;
                assert_eq!(status, 201);
                times.push(sent.elapsed().as_secs_f64() * 1e3);
            }
            times
        });
    }
    let mut times: Vec<f64> = tasks.join_all().await.concat();
    times.sort_by(f64::total_cmp);
    times
}

/// Jobs for each queue, while all polls are parked: each wakes one of them. The first job of a queue
/// makes the queue known, and is not counted.
async fn hand_off(server: &Server, parked: Vec<Client>) {
    let mut publisher = Client::new(server.api, server.token.clone()).await;
    let mut times = Vec::new();
    let (jobs, are_few) = (parked.len().min(6 * QUEUES), parked.len() <= QUEUES);
    let mut queues: Vec<Vec<Client>> = (0..QUEUES).map(|_| Vec::new()).collect();
    for (number, poller) in parked.into_iter().enumerate() {
        queues[number % QUEUES].push(poller);
    }
    for number in 0..jobs {
        let pollers = &mut queues[number % QUEUES];
        let sent = Instant::now();
        let path = format!("/api/ns/parked-{}?{}", number % QUEUES, crate::DUE);
        // Which of them gets it is up to the server: the one that it has read first.
        let polled = select_all(pollers.iter_mut().map(|poller| Box::pin(poller.reply())));
        let (published, (polled, first, _)) =
            tokio::join!(publisher.send("PUT", &path, b"x"), polled);
        assert_eq!((published.0, polled.0), (201, 200));
        if number >= QUEUES || are_few {
            times.push(sent.elapsed().as_secs_f64() * 1e3);
        }
        pollers.swap_remove(first);
    }
    times.sort_by(f64::total_cmp);
    let (p50, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
    println!("hand-off to one of them, ms: p50 {p50:.2}, p99 {p99:.2}");
}
