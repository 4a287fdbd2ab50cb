//! Records of which more wait for the journal than are looked at for a page.

use std::sync::Arc;
use std::time::Duration;

use crate::bus::handle::Bus;
use crate::bus::queue::Queue;
use crate::bus::records::Records;
use crate::event::EventId;
use crate::journal::{Batch, Journal, MemoryJournal};
use crate::record::{Format, Record};
use crate::store::{MemoryStore, Outbox, Store};
use crate::testing::ManualClock;
use crate::time::Timestamp;

const MANY: usize = 300;

struct World {
    bus: Bus,
    store: Arc<MemoryStore>,
    journal: Arc<MemoryJournal>,
    /// In the order in which they finished.
    ids: Vec<EventId>,
}

/// A record each 100 ms, every tenth of a quiet queue, and none of them in the journal yet.
async fn world() -> World {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_767_225_600_000)));
    let store = Arc::new(MemoryStore::with_clock(Arc::clone(&clock) as _));
    let builder = Bus::builder().only_registered().publish_only();
    let builder = builder.settings(crate::config::Settings::default());
    let bus = builder.shared_store(Arc::clone(&store) as _).start().await;
    let bus = bus.unwrap();
    let loud: Queue<u64> = bus.queue_named("loud").unwrap();
    let quiet: Queue<u64> = bus.queue_named("quiet").unwrap();
    let mut ids = Vec::new();
    for at in 0..MANY {
        let queue = if at % 10 == 0 { &quiet } else { &loud };
        let event = queue.event(at as u64).after(Duration::from_secs(60));
        let sent = event.keep_payload(true).push().await.unwrap();
        let _ = queue.cancel(sent.id()).await.unwrap();
        ids.push(sent.id());
        clock.advance(Duration::from_millis(100));
    }
    World {
        bus,
        store,
        journal: Arc::default(),
        ids,
    }
}

impl World {
    fn records(&self) -> Records {
        Records {
            journal: Some(Arc::clone(&self.journal) as _),
            ..self.bus.records()
        }
        .waiting_max(50)
    }

    /// Carries the oldest records.
    async fn carry(&self, many: usize) {
        let page = self.store.read_outbox(&Outbox::Store, 0, many).await;
        let page = page.unwrap();
        let outbox = "store".to_owned();
        let records = page.records;
        self.journal
            .load(vec![Batch { outbox, records }])
            .await
            .unwrap();
        self.store
            .trim_outbox(&Outbox::Store, page.last)
            .await
            .unwrap();
    }

    async fn stream(&self, records: Records, carried: usize) -> Vec<EventId> {
        let (mut stream, mut found) = (records.limit(20).stream(), Vec::new());
        while let Some(record) = stream.next().await {
            found.push(record.unwrap().id);
            self.carry(carried).await;
        }
        found
    }
}

#[tokio::test]
async fn a_stream_has_each_record_once_while_the_journal_is_behind() {
    for carried in [0, 1, 3] {
        let world = world().await;
        let found = world.stream(world.records(), carried).await;
        assert_eq!(found, world.ids, "{carried} at a time");
    }
    let world = world().await;
    let mut found = world.stream(world.records().newest_first(), 1).await;
    found.reverse();
    assert_eq!(found, world.ids);
}

#[tokio::test]
async fn a_quiet_queue_is_shown_while_the_journal_is_behind() {
    let world = world().await;
    let quiet: Vec<EventId> = world.ids.iter().copied().step_by(10).collect();
    let wanted = world.records().queue("quiet");
    assert_eq!(world.stream(wanted.clone(), 0).await, quiet);
    let waiting = world.stream(wanted.only_waiting(), 0).await;
    assert_eq!(waiting, quiet);
}

#[tokio::test]
async fn an_export_and_a_replay_have_each_record_once_while_the_journal_is_behind() {
    let world = world().await;
    world.carry(40).await;
    let mut file = Vec::new();
    let wanted = world.records().limit(20);
    let many = wanted.clone().export(Format::JsonLines, &mut file).await;
    assert_eq!(many.unwrap(), MANY as u64);
    let lines = file
        .split(|byte| *byte == b'\n')
        .filter(|it| !it.is_empty());
    let found = lines.map(|line| serde_json::from_slice::<Record>(line).unwrap().id);
    assert_eq!(found.collect::<Vec<_>>(), world.ids);

    let replay = world.bus.replay("while the journal is behind");
    let (mut pushed, mut after) = (0, None);
    loop {
        let page = wanted.clone().after(after).page().await.unwrap();
        pushed += replay.push(&page.items).await.unwrap().pushed;
        world.carry(30).await;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pushed, MANY as u64);
}

#[tokio::test]
async fn the_first_record_is_found_however_many_pages_have_none() {
    let world = world().await;
    world.carry(20).await;
    for newest_first in [false, true] {
        let mut has_short_pages = false;
        for id in world.ids.iter().step_by(30) {
            let mut records = world.records().id(*id);
            if newest_first {
                records = records.newest_first();
            }
            let page = records.clone().page().await.unwrap();
            has_short_pages |= page.items.is_empty() && page.next.is_some();
            let first = records.first().await.unwrap();
            assert_eq!(first.map(|it| it.id), Some(*id));
        }
        assert!(has_short_pages);
    }
    let none = world.records().id(EventId::from_bytes([7; 16])).first();
    assert_eq!(none.await.unwrap(), None);
}
