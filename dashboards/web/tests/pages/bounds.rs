//! Ten thousand queues: pages ask the store for a bounded number of things.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use duly::event::{BucketId, BucketKey};
use duly::store::operation::{NewEvent, Reply, Response, StoreOp};
use duly::store::{Control, Durability, MemoryStore, Setting, Store, StoreFuture, Watcher};
use duly::{Bus, Error, ErrorKind, QueueName};
use duly_dashboard::Role;

use crate::forms::bury;
use crate::site::{Site, until};

const QUEUES: usize = 10_000;

/// A store that counts its calls, with many queues that are empty.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    store: MemoryStore,
    calls: Arc<AtomicUsize>,
    /// How many events its pages had.
    read: Arc<AtomicUsize>,
    /// How many queues it claims to have; 0: those that it has.
    queues: usize,
    /// Which calls fail after so many of them.
    fails: Option<fn(&StoreOp) -> bool>,
    after: usize,
    failing: AtomicUsize,
    /// The queue whose events are never read to their end.
    silent: Option<&'static str>,
}

impl Counted {
    /// A store of which some calls fail, after so many of them.
    pub(crate) fn failing(fails: fn(&StoreOp) -> bool, after: usize) -> Self {
        Self {
            fails: Some(fails),
            after,
            ..Self::default()
        }
    }

    /// A store that never reads the events of a queue to their end.
    pub(crate) fn silent(queue: &'static str) -> Self {
        Self {
            silent: Some(queue),
            ..Self::default()
        }
    }
}

impl Store for Counted {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let is_one = self.fails.is_some_and(|fails| fails(&op));
        if is_one && self.failing.fetch_add(1, Ordering::Relaxed) >= self.after {
            let error = Error::new(ErrorKind::Unavailable, "its disk is on holiday");
            return StoreFuture::new(std::future::ready(Err(error)));
        }
        let (answer, read) = (self.store.apply(bucket, op), Arc::clone(&self.read));
        let is_silent = self.silent == Some(&*bucket.queue);
        StoreFuture::new(async move {
            let answer = answer.await?;
            if is_silent && matches!(answer.reply, Reply::Peeked(_)) {
                std::future::pending::<()>().await;
            }
            let events = match &answer.reply {
                Reply::Peeked(page) => page.events.len(),
                Reply::Dead(page) => page.letters.len(),
                _ => 0,
            };
            read.fetch_add(events, Ordering::Relaxed);
            Ok(answer)
        })
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Response> {
        self.store.push_durably(bucket, events, wanted)
    }

    fn now_us(&self) -> u64 {
        self.store.now_us()
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.store.controls()
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        self.store.set(queue, setting)
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.queues == 0 {
            return self.store.buckets();
        }
        let names = (0..self.queues).map(|number| format!("queue-{number:05}"));
        let keys = names.map(|name| BucketKey::new(name.parse().unwrap(), BucketId(0)));
        let keys = keys.collect();
        StoreFuture::new(async move { Ok(keys) })
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> duly::Result<()> {
        self.store.watch(watcher)
    }

    fn close(&self) -> StoreFuture<()> {
        self.store.close()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_ten_thousand_queues_every_page_is_bounded() {
    let calls = Arc::new(AtomicUsize::new(0));
    let store = Counted {
        calls: Arc::clone(&calls),
        queues: QUEUES,
        ..Counted::default()
    };
    let bus = Bus::builder().settings(Default::default()).store(store);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let site = Site::of(bus, Role::Admin).await;
    let whole = async {
        while !site
            .get("/queues")
            .await
            .text
            .contains("50 of 10\u{202f}000</span>")
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), whole)
        .await
        .unwrap();
    let says_why = async {
        while !site.get("/").await.text.contains("more than 500 queues") {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), says_why)
        .await
        .unwrap();
    let first = site.get("/").await.text;
    assert!(!first.contains("Attempts a minute"), "none was counted");
    for (path, most) in [
        ("/", 0),
        ("/queues?page=150&sort=name", 0),
        ("/queues?q=99", 0),
        ("/queues/queue-00042", 20),
        ("/dead", 60),
        ("/records", 60),
        ("/nodes", 0),
    ] {
        // A round of the sampler, at most 5,000 queues, may fall into the page.
        let mut fewest = usize::MAX;
        for _ in 0..5 {
            let before = calls.load(Ordering::Relaxed);
            let page = site.get(path).await;
            let asked = calls.load(Ordering::Relaxed) - before;
            assert_eq!(page.status, 200, "{path}");
            assert!(
                page.text.len() < 100_000,
                "{path} has {} bytes",
                page.text.len()
            );
            assert!(page.text.matches("<tr>").count() <= 51, "{path}");
            assert!(asked <= most + 5_500, "{path} made {asked} calls");
            fewest = fewest.min(asked);
        }
        assert!(
            fewest <= most,
            "{path} made {fewest} calls, at most {most} are expected"
        );
    }
    let page = site.get("/queues?sort=name&page=150").await;
    assert!(page.text.contains("queue-07450") && !page.text.contains("queue-07500"));
}

/// Returns, of each page, the fewest calls of the store and the fewest events that it read.
async fn costs_with(events: u64) -> Vec<(String, usize, usize)> {
    let (calls, read) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let store = Counted {
        calls: Arc::clone(&calls),
        read: Arc::clone(&read),
        ..Counted::default()
    };
    let bus = Bus::builder().settings(Default::default()).store(store);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<u64>("mail").unwrap();
    for from in (0..events).step_by(1_000) {
        let delay = Duration::from_secs(600 + from);
        let sent = queue.push_many(from..from + 1_000, delay).await.unwrap();
        assert_eq!(sent.len(), 1_000);
    }
    let id = queue.push(7, Duration::from_secs(60)).await.unwrap().id();
    let site = Site::of(bus, Role::Admin).await;
    let mut costs = Vec::new();
    for path in [
        "/".to_owned(),
        "/queues".to_owned(),
        "/queues/mail".to_owned(),
        format!("/queues/mail/events/{id}"),
        format!("/find?id={id}"),
        "/dead".to_owned(),
        "/dead?queue=mail".to_owned(),
        "/records".to_owned(),
        "/nodes".to_owned(),
        "/act/revive-all?queue=mail".to_owned(),
    ] {
        let (mut fewest, mut least) = (usize::MAX, usize::MAX);
        for _ in 0..8 {
            let (before, begun) = (calls.load(Ordering::Relaxed), read.load(Ordering::Relaxed));
            let page = site.get(&path).await;
            assert!(page.status.as_u16() < 400, "{path}: {}", page.status);
            fewest = fewest.min(calls.load(Ordering::Relaxed) - before);
            least = least.min(read.load(Ordering::Relaxed) - begun);
        }
        costs.push((path.replace(&id.to_string(), "ID"), fewest, least));
    }
    costs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_asks_for_more_when_there_are_more_events() {
    let (few, many) = (costs_with(1_000).await, costs_with(100_000).await);
    assert_eq!(few, many, "page, calls, events read");
    let most = many.iter().map(|(_, _, read)| *read).max();
    assert!(most <= Some(20), "{many:?}");
    let listed = many.iter().find(|(path, ..)| path == "/queues/mail");
    assert!(
        listed.is_some_and(|(_, calls, read)| *calls > 0 && *read > 0),
        "{many:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_dead_letter_is_on_a_page_however_many_queues_have_some() {
    let site = Site::memory(Role::View).await;
    for number in 0..430 {
        let error = if number < 429 { "refused" } else { "a timeout" };
        bury(&site, &format!("tenant-{number:03}"), 1, error).await;
    }
    for (query, many) in [("", 430), ("error=a+timeout", 1), ("error=never", 0)] {
        let (mut found, mut pages, mut next) = (0, 0, format!("?{query}"));
        loop {
            let page = site.get(&format!("/dead{next}")).await.text;
            // Of many pages no one says that there is none: the others may have some.
            assert!(!page.contains("No dead letter matches."), "{query}: {page}");
            let said = page.contains("No further dead letter matches.");
            found += page.matches("<th scope=\"row\">").count();
            pages += 1;
            let Some((before, _)) = page.split_once("\" rel=\"next\"") else {
                let is_empty = !page.contains("<th scope=\"row\">");
                assert_eq!(said, is_empty, "{query}: {page}");
                break;
            };
            assert!(!said, "{query}: {page}");
            let (_, to) = before.rsplit_once("href=\"").unwrap();
            next = to.replace("&#38;", "&");
        }
        assert_eq!(found, many, "{query}");
        assert!(pages <= 12, "{query} has {pages} pages");
    }
    let page = site.get("/dead?queue=tenant-007&error=never").await.text;
    assert!(page.contains("No dead letter matches."), "{page}");
}

/// A sweep at a low rate asks for one event at a time: it does not read one at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_events_among_many_are_found_in_few_calls() {
    let store = Counted::default();
    let calls = Arc::clone(&store.calls);
    let bus = Bus::builder().settings(Default::default()).store(store);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<String>("mail").unwrap();
    let mut events: Vec<String> = (0..2_000).map(|number| format!("day {number}")).collect();
    for at in [700, 701, 702, 1_990] {
        events[at] = format!("needle {at}");
    }
    let sent = queue.push_many(events, Duration::from_secs(600)).await;
    assert_eq!(sent.unwrap().len(), 2_000);
    for (limit, most) in [(1, 150), (2, 150), (100, 80)] {
        let before = calls.load(Ordering::Relaxed);
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let events = bus.events().contains("needle").limit(limit).after(after);
            let page = events.page().await.unwrap();
            assert!(page.items.len() <= limit, "{limit}");
            found.extend(page.items.iter().map(|event| event.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let made = calls.load(Ordering::Relaxed) - before;
        assert!(made <= most, "{limit}: {made} calls");
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 4, "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_what_was_found_scans_once_also_while_a_sweep_is_under_way() {
    let store = Counted::default();
    let read = Arc::clone(&store.read);
    let bus = Bus::builder().settings(Default::default()).store(store);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<String>("mail").unwrap();
    let events = (0..200).map(|number| format!("day {number}"));
    let sent = queue.push_many(events, Duration::from_secs(600)).await;
    assert_eq!(sent.unwrap().len(), 200);
    let site = Site::of(bus, Role::Admin).await;
    let path = "/find?queue=mail&in=text&q=day";
    let live = async || {
        let request = site.request(reqwest::Method::GET, path);
        Site::send(request.header("x-live", "1")).await.text
    };
    let goes_on = "id=\"sweeps-now\" data-current>";
    let still = live().await;
    assert!(
        still.contains("data-still") && !still.contains(goes_on),
        "{still}"
    );
    let asked = site.get("/act/cancel-all?queue=mail&in=text&q=day").await;
    let fields = [
        ("queue", "mail"),
        ("in", "text"),
        ("q", "day"),
        ("rate", "0.001"),
    ];
    let fields = [&fields[..], &[("csrf", asked.csrf())]].concat();
    let begun = site.post("/act/cancel-all", &fields).await;
    assert_eq!(begun.status, 303, "{}", begun.text);
    until("it waits for its second event", async || {
        live().await.contains("<strong>1</strong> so far, running")
    })
    .await;
    let before = read.load(Ordering::Relaxed);
    let page = live().await;
    assert!(
        page.contains("data-still") && page.contains(goes_on),
        "{page}"
    );
    assert_eq!(read.load(Ordering::Relaxed), before, "it scans anew");
    let page = site.get(path).await.text;
    assert!(
        page.contains("data-still") && page.contains(goes_on),
        "{page}"
    );
    assert!(read.load(Ordering::Relaxed) > before);
}

#[tokio::test]
async fn an_export_is_bounded_in_bytes_and_goes_on() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<String>("mail").unwrap();
    let many = 1_000;
    // As a list of its bytes each is some 200 KiB.
    let events = (0..many).map(|_| queue.event("x".repeat(60_000)).keep_payload(true));
    let sent = queue.push_many(events, Duration::from_secs(3_600)).await;
    for id in sent.unwrap().iter().map(duly::Receipt::id) {
        let cancelled = queue.cancel(id).await.unwrap();
        assert_eq!(cancelled, duly::CancelOutcome::Cancelled);
    }
    let mut next = Some("/records/export?queue=mail".to_owned());
    let (mut files, mut ids) = (0, BTreeSet::new());
    while let Some(path) = next {
        let file = site.get(&path).await;
        assert!(file.text.len() < 40 << 20, "{}", file.text.len());
        for line in file.text.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            ids.insert(record["id"].as_str().unwrap().to_owned());
        }
        files += 1;
        let link = file.headers.get("link").map(|link| link.to_str().unwrap());
        let link = link.map(|link| link.split(['<', '>']).nth(1).unwrap());
        next = link.map(|link| link.strip_prefix("/jobs").unwrap().to_owned());
    }
    assert_eq!(ids.len(), many);
    assert!(files > 3, "{files}");
}
