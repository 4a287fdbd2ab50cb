//! Who sees some queues only learns nothing of the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::journal::{Batch, FoundRecords, Journal, JournalFuture, Keep, MemoryJournal, Pruned};
use duly::prelude::*;
use duly::records::{MinuteQuery, MinuteStats, Query};
use duly::time::Timestamp;
use duly_dashboard::{Role, User};

use crate::find::{ids, next};
use crate::forms::bury;
use crate::replay::form;
use crate::site::{Site, until};

const HOUR: Duration = Duration::from_secs(3_600);
/// As many records as a page of them has.
const PAGE: usize = 50;

fn of_mine(role: Role) -> User {
    User::new("ann", role).only(|queue| queue == "mine")
}

/// Cancels events of a key; returns their ids.
async fn cancelled(bus: &Bus, queue: &str, key: &str, many: u64) -> BTreeSet<String> {
    let queue = bus.queue_named::<u64>(queue).unwrap();
    for number in 0..many {
        let event = queue.event(number).after(HOUR).key(key).keep_payload(true);
        event.push().await.unwrap();
    }
    let ids = queue.cancel_by_key(key).await.unwrap().into_iter();
    ids.map(|(id, _)| id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_others_are_neither_counted_nor_named() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store_url(format!(
        "sqlite:{}",
        folder.path().join("jobs.db").display()
    ));
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let theirs = cancelled(&bus, "theirs", "customer:8", 60).await;
    let mut mine = cancelled(&bus, "mine", "customer:8", PAGE as u64).await;
    let more = cancelled(&bus, "theirs", "customer:8", 60).await;
    let recorded = async || {
        let records = bus.records().limit(1_000).page().await.unwrap().items;
        records.len() == mine.len() + theirs.len() + more.len()
    };
    until("each has its record", recorded).await;
    let site = Site::of_user(bus.clone(), of_mine(Role::Admin)).await;

    for query in ["", "?key=customer:8", "?outcome=cancelled", "?order=oldest"] {
        let page = site.get(&format!("/records{query}")).await;
        assert_eq!((page.status.as_u16(), next(&page)), (200, None), "{query}");
        assert!(page.text.contains("Choose a queue"), "{query}: {page:?}");
        assert_eq!(ids(&page), Vec::<String>::new(), "{query}");
    }
    let page = site.get("/records/export?key=customer:8").await;
    assert_eq!(page.status, 400, "{page:?}");
    assert!(page.headers.get("link").is_none(), "{page:?}");
    // A page is full, and that there is none behind it does not depend on others.
    for (filter, many) in [
        ("key=customer:8", PAGE),
        ("outcome=cancelled", PAGE),
        ("", PAGE),
        ("cause=failed", 0),
        ("error=refused", 0),
        ("node=00000000000000ff", 0),
    ] {
        for order in ["", "oldest"] {
            let page = site
                .get(&format!("/records?queue=mine&{filter}&order={order}"))
                .await;
            assert_eq!(next(&page), None, "{filter} {order}");
            assert_eq!(ids(&page).len(), many, "{filter} {order}");
        }
    }
    let asked = site.get("/act/replay?queue=mine&key=customer:8").await;
    assert!(
        asked.text.contains("50 events would be pushed"),
        "{asked:?}"
    );
    assert!(!asked.text.contains("At least"), "{asked:?}");

    // All of many are found page by page, whatever is between them.
    cancelled(&bus, "mine", "customer:9", 20).await;
    mine.extend(cancelled(&bus, "mine", "customer:8", 30).await);
    let recorded = async || {
        let records = bus.records().queue("mine").limit(1_000).page().await;
        records.unwrap().items.len() == mine.len() + 20
    };
    until("each has its record", recorded).await;
    for order in ["", "oldest"] {
        let first = format!("?queue=mine&key=customer:8&order={order}");
        let (mut seen, mut path) = (BTreeSet::new(), Some(first));
        while let Some(query) = path {
            let page = site.get(&format!("/records{query}")).await;
            let is_of_others = |id: &&String| page.text.contains(*id);
            assert_eq!(theirs.iter().chain(&more).find(is_of_others), None);
            for id in ids(&page) {
                assert!(seen.insert(id), "one is there twice: {page:?}");
            }
            path = next(&page);
        }
        assert_eq!(seen, mine, "{order}");
    }
    let file = site.get("/records/export?queue=mine&key=customer:8").await;
    assert_eq!(file.text.lines().count(), mine.len(), "{file:?}");
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_of_a_namespace_ends_where_its_lines_do() {
    let memory = Site::memory(Role::View).await;
    let add = async |target: &str| {
        let added = memory.bus.add_to_audit("ann", "queue paused", target);
        added.await.unwrap();
    };
    add("shop.close").await;
    for number in 0..60 {
        add(&format!("other.mail{number}")).await;
    }
    let user = User::new("ben", Role::View).only(|queue| queue.starts_with("shop."));
    let user = user.only_schedules_of("shop");
    let site = Site::of_user(memory.bus.clone(), user).await;
    let page = site.get("/audit").await;
    assert!(page.text.contains("/queues/shop.close"), "{page:?}");
    assert_eq!(next(&page), None, "{page:?}");
}

#[delay_event(queue = "theirs", register = false)]
async fn theirs(_: Event<u64>) -> Result<(), Failure> {
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_seen_by_who_sees_a_queue_of_it_and_its_host_by_who_administers() {
    let bus = Bus::builder().settings(Default::default());
    let bus = bus
        .store_url("memory:")
        .only_registered()
        .register(theirs {});
    let bus = bus.start().await.unwrap();
    let nodes = async || bus.nodes().await.unwrap();
    until("it is a node", async || nodes().await.len() == 1).await;
    let host = nodes().await[0].host.clone();
    assert!(!host.is_empty());
    let of_theirs = |role| User::new("ben", role).only(|queue| queue == "theirs");
    for (user, is_seen, has_host) in [
        (of_mine(Role::Admin), false, false),
        (of_theirs(Role::View), true, false),
        (of_theirs(Role::Admin), true, true),
        (User::new("eve", Role::View), true, true),
    ] {
        let site = Site::of_user(bus.clone(), user.clone()).await;
        let page = site.get("/nodes").await.text;
        assert_eq!(page.contains("/records?node="), is_seen, "{user:?}: {page}");
        assert_eq!(page.contains(&*host), has_host, "{user:?}: {page}");
    }
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A journal that counts the records that it takes, and those that its pages have.
#[derive(Clone, Debug, Default)]
struct Counting {
    journal: Arc<MemoryJournal>,
    loaded: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
}

impl Journal for Counting {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        let many = batches.iter().map(|batch| batch.records.len()).sum();
        let (load, loaded) = (self.journal.load(batches), Arc::clone(&self.loaded));
        Box::pin(async move {
            load.await?;
            loaded.fetch_add(many, Ordering::SeqCst);
            Ok(())
        })
    }

    fn page(&self, query: Query) -> JournalFuture<FoundRecords> {
        let (page, read) = (self.journal.page(query), Arc::clone(&self.read));
        Box::pin(async move {
            let page = page.await?;
            read.fetch_add(page.records.len(), Ordering::SeqCst);
            Ok(page)
        })
    }

    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        self.journal.minutes(query)
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        self.journal.prune(keep, now)
    }

    fn close(&self) -> JournalFuture<()> {
        self.journal.close()
    }
}

/// Replays records of which each so many match, a few a second, and counts what is read for each.
async fn replays(user: User, filter: &str, apart: usize) {
    let (journal, all) = (Counting::default(), 600);
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.journal(journal.clone()).store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    for _ in 0..all / 10 {
        cancelled(&bus, "mine", "customer:8", 1).await;
        cancelled(&bus, "mine", "customer:9", 9).await;
    }
    let loaded = async || journal.loaded.load(Ordering::SeqCst) >= all;
    until("all are in the journal", loaded).await;
    let site = Site::of_user(bus.clone(), user).await;
    let asked = site.get(&format!("/act/replay?queue=mine&{filter}")).await;
    journal.read.store(0, Ordering::SeqCst);
    let begun = site.post("/act/replay", &form(&asked, &[])).await;
    assert_eq!(begun.status, 303, "{begun:?}");
    let pushed = async || {
        let stats = bus.stats("mine").await.unwrap();
        stats.ready + stats.scheduled
    };
    until("some are pushed", async || pushed().await >= 5).await;
    let read = journal.read.load(Ordering::SeqCst);
    let pushed = pushed().await;
    assert!(
        read <= (pushed + 1) * apart * 4,
        "{filter}: {read} records were read for {pushed}"
    );
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_replay_reads_few_records_for_each_that_it_pushes() {
    for (filter, apart) in [
        ("", 1),
        ("outcome=cancelled", 1),
        ("key=customer:9", 2),
        ("key=customer:8", 10),
    ] {
        replays(of_mine(Role::Admin), filter, apart).await;
    }
    replays(User::new("eve", Role::Admin), "key=customer:8", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_who_sees_some_queues_is_of_one_at_a_time() {
    let memory = Site::memory(Role::View).await;
    bury(&memory, "mine", 2, "refused").await;
    bury(&memory, "theirs", 3, "refused").await;
    let site = Site::of_user(memory.bus.clone(), of_mine(Role::Admin)).await;
    for span in ["hour", "day", "month", "year"] {
        let page = site.get(&format!("/history?span={span}")).await.text;
        assert!(page.contains("Choose a queue"), "{span}: {page}");
        assert!(!page.contains("<dt>Failed"), "{span}: {page}");
        let own = format!("/history?span={span}&queue=mine");
        let page = site.get(&own).await.text;
        assert!(page.contains("<dt>Failed</dt><dd>2<"), "{span}: {page}");
        let theirs = format!("/history?span={span}&queue=theirs");
        assert_eq!(site.get(&theirs).await.status, 404, "{span}");
        let page = memory.get(&format!("/history?span={span}")).await.text;
        assert!(page.contains("<dt>Failed</dt><dd>5<"), "{span}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_found_by_its_id_though_others_have_used_it() {
    // They have fewer and more records of it than are read at a time.
    for deaths in [1, 120] {
        let memory = Site::memory(Role::View).await;
        let bus = &memory.bus;
        let theirs = bus.queue_named::<u64>("theirs").unwrap();
        let mine = bus.queue_named::<u64>("mine").unwrap();
        let id = mine.new_id();
        theirs.event(1).id(id).push().await.unwrap();
        let letters = || bus.dead_letters().queue("theirs");
        for _ in 0..deaths {
            let lease = theirs.lease(1, Duration::from_secs(60));
            let leased = lease.wait(Duration::from_secs(9)).send().await.unwrap();
            let _ = leased[0].bury("refused").await.unwrap();
            let _ = letters().revive([id]).await.unwrap().finished().unwrap();
        }
        let _ = theirs.cancel(id).await.unwrap();
        mine.event(2).id(id).after(HOUR).push().await.unwrap();
        let _ = mine.cancel(id).await.unwrap();
        let recorded = async || {
            let records = bus.records().queue("mine").page().await;
            records.unwrap().items.len() == 1
        };
        until("it has its record", recorded).await;
        let other = User::new("ben", Role::View).only(|queue| queue == "other");
        for (user, queue) in [
            (of_mine(Role::View), Some("mine")),
            (User::new("eve", Role::View), Some("theirs")),
            (other, None),
        ] {
            let site = Site::of_user(bus.clone(), user).await;
            let found = site.get(&format!("/find?id={id}")).await;
            let to = found.headers.get("location").map(|to| to.to_str().unwrap());
            let page = queue.map(|queue| format!("/jobs/queues/{queue}/events/{id}"));
            assert_eq!(to, page.as_deref(), "{deaths}: {found:?}");
        }
    }
}
