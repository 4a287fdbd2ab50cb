//! A respawn by one server while another one ends the same job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use serde_json::json;

use crate::servers::{Fault, Proxy, Redis, prefix};
use crate::world::{World, until};

/// The job dies, and another server puts it back, after the look at it and before its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_republish_ends_what_a_respawn_puts_back_meanwhile() {
    let redis = Redis::plain();
    let proxy = Proxy::before(redis.address());
    let end = format!("?prefix={}", prefix());
    let url = format!("{}{end}", proxy.url());
    let world = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    let url = format!("{}{end}", redis.url());
    let mut other = World::start_at(tempfile::tempdir().unwrap(), url, "").await;
    other.token = world.token.clone();
    let path = "/api/ns/q?tries=1";
    let old = world.publish(path, "old").await;
    world.consume("/api/ns/q?timeout=20&ttr=0").await;
    let dead = async || other.get("/api/ns/q/deadletter").await.is(200)["deadletter_size"].clone();
    until("the job is dead", async || dead().await == 1).await;

    // What follows the push of the new job waits.
    let (is_pushed, waits) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(true)),
    );
    let (pushed, held) = (Arc::clone(&is_pushed), Arc::clone(&waits));
    proxy.on_request(move |piece| {
        if pushed.load(SeqCst) {
            return held.load(SeqCst).then_some(Fault::Wait);
        }
        let is_push = piece.windows(12).any(|it| it == b"in place of ");
        pushed.fetch_or(is_push, SeqCst);
        None
    });
    let republish = async {
        let new = world.put(&format!("/api/ns/q/job/{old}"), "new").await;
        new.is(201)["job_id"].clone()
    };
    let respawn = async {
        until("the new job is there", async || other.size("q").await == 1).await;
        let respawned = other.put("/api/ns/q/deadletter?limit=9", "").await.is(200);
        assert_eq!(respawned["count"], 1);
        assert_eq!(other.size("q").await, 2);
        waits.store(false, SeqCst);
    };
    let (new, ()) = tokio::join!(republish, respawn);
    assert!(is_pushed.load(SeqCst));
    assert_eq!((other.size("q").await, dead().await), (1, json!(0)));
    let job = other.consume("/api/ns/q?timeout=20&ttr=60").await;
    assert_eq!(job["job_id"], new);
}

/// How a job is ended while a respawn of it is on its way.
#[derive(Clone, Copy, Debug)]
enum End {
    Republish,
    Delete,
}

/// Pieces of requests that wait, and all behind them on their connections.
#[derive(Clone, Debug, Default)]
struct Held {
    is_there: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Held {
    /// Holds a piece; what happens to it once it is let go.
    fn before(proxy: &Proxy, piece: &'static [u8], then: Option<Fault>) -> Self {
        let held = Self::default();
        let Self { is_there, is_over } = held.clone();
        proxy.on_request(move |it| {
            let is_it = it.windows(piece.len()).any(|it| it == piece);
            is_there.fetch_or(is_it, SeqCst);
            match is_over.load(SeqCst) {
                _ if !is_it => None,
                false => Some(Fault::Wait),
                true => then,
            }
        });
        held
    }

    async fn is_there(&self) {
        until("it is on its way", async || self.is_there.load(SeqCst)).await;
    }

    fn let_go(&self) {
        self.is_over.store(true, SeqCst);
    }
}

/// Ends a job once another server has found it dead, and goes on with a piece of its respawn; with
/// a piece of the end, that comes after the whole of the respawn.
async fn end_beside_a_respawn(
    end: End,
    piece: &'static [u8],
    of_end: Option<(&'static [u8], Option<Fault>)>,
) {
    let redis = Redis::plain();
    let proxies = [(); 2].map(|()| Proxy::before(redis.address()));
    let prefix = format!("?prefix={}", prefix());
    let [world, mut other] = {
        let url = |at: usize| format!("{}{prefix}", proxies[at].url());
        let world = World::start_at(tempfile::tempdir().unwrap(), url(0), "").await;
        let other = World::start_at(tempfile::tempdir().unwrap(), url(1), "").await;
        [world, other]
    };
    other.token = world.token.clone();
    let old = other.publish("/api/ns/q?tries=1", "old").await;
    other.consume("/api/ns/q?timeout=20&ttr=0").await;
    let dead = async || other.get("/api/ns/q/deadletter").await.is(200)["deadletter_size"].clone();
    until("the job is dead", async || dead().await == 1).await;

    let of_respawn = Held::before(&proxies[0], piece, None);
    let of_end = of_end.map(|(piece, then)| Held::before(&proxies[1], piece, then));
    let respawn = async {
        let put = world.put("/api/ns/q/deadletter?limit=9", "").await;
        of_end.iter().for_each(Held::let_go);
        put.is(200)["count"].clone()
    };
    let ends = async {
        of_respawn.is_there().await;
        let path = format!("/api/ns/q/job/{old}");
        let new = match end {
            End::Republish => Some(other.put(&path, "new").await.is(201)["job_id"].clone()),
            End::Delete => {
                other.delete(&path).await.is(204);
                None
            }
        };
        of_respawn.let_go();
        new
    };
    let between = async {
        if let Some(of_end) = &of_end {
            of_end.is_there().await;
            of_respawn.let_go();
        }
    };
    let (respawned, new, ()) = tokio::join!(respawn, ends, between);
    let left = [respawned, json!(other.size("q").await), dead().await];
    assert_eq!(
        left,
        [json!(0), json!(new.iter().len()), json!(0)],
        "{end:?}"
    );
    if let Some(new) = new {
        let job = other.consume("/api/ns/q?timeout=20&ttr=60").await;
        assert_eq!(job["job_id"], new);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_puts_nothing_back_that_was_ended_before_its_push() {
    for end in [End::Republish, End::Delete] {
        end_beside_a_respawn(end, b"lmstfy-id", None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_puts_nothing_back_that_was_ended_before_its_note() {
    for end in [End::Republish, End::Delete] {
        end_beside_a_respawn(end, b"HSETNX", None).await;
    }
}

/// As an argument, as scripts have the word, too.
const REMOVAL: &[u8] = b"\r\nHDEL\r\n";

/// Its note is there when the respawn looks for it, and goes then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_respawn_pushes_until_its_note_goes_is_ended() {
    for end in [End::Republish, End::Delete] {
        end_beside_a_respawn(end, b"lmstfy-id", Some((REMOVAL, None))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_respawn_pushes_is_ended_though_its_note_cannot_go() {
    let fails = Some((REMOVAL, Some(Fault::CutBefore)));
    end_beside_a_respawn(End::Republish, b"lmstfy-id", fails).await;
}

/// Its note is set aside, and it is another job that was ended meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_respawn_replaces_a_note_that_cannot_be_read_and_ends_no_job_for_it() {
    let redis = Redis::plain();
    let proxy = Proxy::before(redis.address());
    let end = format!("?prefix={}", prefix());
    let url = |address: String| format!("{address}{end}");
    let folder = || tempfile::tempdir().unwrap();
    let world = World::start_at(folder(), url(proxy.url()), "").await;
    let mut other = World::start_at(folder(), url(redis.url()), "").await;
    other.token = world.token.clone();
    let dead = async |queue: &str| {
        let publish = format!("/api/ns/{queue}/bulk?tries=1");
        let bulk = other.put(&publish, "[1,2]").await.is(201);
        let lease = format!("/api/ns/{queue}?count=2&timeout=20&ttr=0");
        other.consume(&lease).await;
        other.wait_for_dead(queue, 2).await;
        [0, 1].map(|at| bulk["job_ids"][at].as_str().unwrap().to_owned())
    };
    // What makes the table of notes.
    dead("first").await;
    let first = other.put("/api/ns/first/deadletter?limit=9", "").await;
    assert_eq!(first.is(200)["count"], 2);
    let [kept, gone] = dead("q").await;
    let notes = redis.cli(&["--scan", "--pattern", "*:respawned"]);
    let of_kept = format!("default/ns/q/{kept}");
    redis.cli(&["HSET", &notes, &of_kept, "what nobody can read"]);

    let held = Held::before(&proxy, b"lmstfy-id", None);
    let respawn = async { world.put("/api/ns/q/deadletter?limit=9", "").await.is(200) };
    let ends = async {
        held.is_there().await;
        other.delete(&format!("/api/ns/q/job/{gone}")).await.is(204);
        held.let_go();
    };
    let (respawned, ()) = tokio::join!(respawn, ends);
    assert_eq!(respawned["count"], 1);
    assert_eq!(other.size("q").await, 1);
    let note = redis.cli(&["HGET", &notes, &of_kept]);
    assert!(!note.contains("nobody"), "{note}");
    other.get(&format!("/api/ns/q/job/{kept}")).await.is(200);
}
