//! A server that died while it wrote what a script changed to its append-only file.

use std::fs;
use std::ops::Range;
use std::time::Duration;

use duly::EventId;
use duly::store::RedisStore;

use crate::redis_faults::number;
use crate::redis_faults::pair::{Pusher, Worker};
use crate::redis_faults::server;
use crate::servers::Redis;

/// How many cuts are made when nobody says otherwise.
const CUTS: u64 = 6;
const EVENTS: usize = 120;

/// Treated as `src/docs/operations.md` says, a file that ends within a script is as if the script
/// had never begun: at the next start of the server, and at the start after that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_torn_within_a_script_loses_only_what_was_never_answered() {
    let mut redis = server();
    let ids = work(&redis).await;
    redis.kill();
    let file = redis.append_only_file();
    let whole = fs::read(&file).expect("the server has written");
    let scripts = scripts(&whole);
    assert!(scripts.len() > EVENTS, "only {} scripts", scripts.len());

    for _ in 0..number("DULY_REDIS_KILLS").unwrap_or(CUTS) {
        let script = &scripts[fastrand::usize(scripts.len() / 4..scripts.len())];
        let cut = fastrand::usize(script.start + 1..script.end);
        println!("cut at {cut}, within {script:?} of {}", whole.len());
        fs::write(&file, &whole[..cut]).expect("a file");
        redis.restart();
        let is_answered = |id: &&EventId| holds(&whole[..script.start], &id.to_bytes());
        let mut answered: Vec<EventId> = ids.iter().filter(is_answered).copied().collect();
        let pusher = Pusher::start(&redis.url()).await;
        is_sound(&redis, &pusher, &answered).await;
        let delay = Duration::ZERO;
        answered.push(pusher.push(delay).await.expect("it is accepted"));
        pusher.stop().await;

        redis.restart();
        let pusher = Pusher::start(&redis.url()).await;
        is_sound(&redis, &pusher, &answered).await;
        pusher.stop().await;
    }
}

/// Pushes events of which half are handled, and answers their ids.
async fn work(redis: &Redis) -> Vec<EventId> {
    let pusher = Pusher::start(&redis.url()).await;
    let worker = Worker::start(&redis.url()).await;
    let mut ids = Vec::new();
    for nth in 0..EVENTS {
        let delay = Duration::from_secs(nth as u64 % 2 * 3_600);
        ids.push(pusher.push(delay).await.expect("it is accepted"));
    }
    let patience = Duration::from_secs(30);
    assert!(worker.has_seen(EVENTS / 2, patience).await);
    worker.stop().await;
    pusher.stop().await;
    ids
}

/// The store is of one piece, and knows each event that it has answered for.
async fn is_sound(redis: &Redis, pusher: &Pusher, answered: &[EventId]) {
    let store = RedisStore::open(&redis.url()).await;
    let wrong = store.expect("the store opens").audit_whole().await;
    let mut wrong = wrong.expect("the store answers");
    // The nodes of the file are gone; how long ago is no matter.
    wrong.retain(|it| !it.contains("has been silent for"));
    assert_eq!(wrong, Vec::<String>::new());
    for id in answered {
        let found = pusher.queue.get(*id).await.expect("the store answers");
        assert!(found.is_some(), "{id} is lost");
    }
}

/// Where each script lies in the file that wrote more than one command.
fn scripts(file: &[u8]) -> Vec<Range<usize>> {
    const BEGIN: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
    const END: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
    let begins = places(file, BEGIN);
    let ends = places(file, END).map(|at| at + END.len());
    begins.zip(ends).map(|(begin, end)| begin..end).collect()
}

fn places(bytes: &[u8], wanted: &[u8]) -> impl Iterator<Item = usize> {
    let windows = bytes.windows(wanted.len()).enumerate();
    windows.filter_map(move |(at, window)| (window == wanted).then_some(at))
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    places(bytes, wanted).next().is_some()
}
