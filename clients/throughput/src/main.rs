//! How many jobs a second does the official client of lmstfy for Rust publish, and consume and
//! acknowledge? `../throughput.sh` runs it beside the clients of duly.

use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use lmstfy_client::api::Client;

/// Runs `many` calls, so many at a time; returns how many a second.
async fn rate<F, W>(many: usize, at_once: usize, work: W) -> f64
where
    F: std::future::Future<Output = ()> + Send + 'static,
    W: Fn() -> F + Send + Sync + 'static,
{
    let (begin, left, work) = (Instant::now(), Arc::new(AtomicUsize::new(many)), Arc::new(work));
    let tasks = (0..at_once).map(|_| {
        let (left, work) = (Arc::clone(&left), Arc::clone(&work));
        tokio::spawn(async move {
            let take = |left: usize| left.checked_sub(1);
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                work().await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a task ends");
    }
    many as f64 / begin.elapsed().as_secs_f64()
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, token, many, at_once] = &arguments[..] else {
        eprintln!("usage: lmstfy-throughput HOST PORT TOKEN JOBS AT-ONCE");
        exit(2);
    };
    let (port, many) = (port.parse().expect("a port"), many.parse().expect("a number"));
    let at_once = at_once.parse().expect("a number");
    let client = Arc::new(Client::new("shop", token, host, port, 0, 0));
    let publisher = Arc::clone(&client);
    let published = rate(many, at_once, move || {
        let client = Arc::clone(&publisher);
        async move {
            let body = b"{\"order\":7}".to_vec();
            let published = client.publish("official".into(), String::new(), body, 0, 3, 0);
            published.await.expect("a job is published");
        }
    });
    let published = published.await;
    let consumed = rate(many, at_once, move || {
        let client = Arc::clone(&client);
        async move {
            let jobs = client.consume("official".into(), 60, 5).await.expect("a job is there");
            let id = jobs[0].job_id.clone();
            client.ack("official".into(), id).await.expect("it is acknowledged");
        }
    });
    println!("{published:.0} {:.0}", consumed.await);
}
