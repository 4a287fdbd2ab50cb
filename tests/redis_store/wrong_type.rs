//! Keys of ours that somebody overwrote with a text.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::When;
use duly::core::op::StoreOp;
use duly::record::Query;
use duly::store::Store;

use crate::kit::{Bare, fresh, until};
use crate::servers::{Redis, shared};

struct Overwritten<'a> {
    server: &'a Redis,
    key: String,
    aside: String,
}

impl<'a> Overwritten<'a> {
    fn new(server: &'a Redis, prefix: &str, part: &str) -> Self {
        let key = format!("{prefix}:{{letters:0}}:{part}");
        let aside = format!("{key}:aside");
        server.cli(&["RENAME", &key, &aside]); // where it is there
        assert_eq!(server.cli(&["SET", &key, "somebody's"]), "OK");
        Self { server, key, aside }
    }

    /// As it was before.
    fn put_right(self) {
        self.server.cli(&["DEL", &self.key]);
        self.server.cli(&["RENAME", &self.aside, &self.key]);
        assert_ne!(self.server.cli(&["TYPE", &self.key]), "string");
    }
}

/// Events are pushed, moved, fetched and settled before, while and after a key is not ours.
async fn loses_nothing(part: &str) {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let mut ids = BTreeSet::new();
    for number in 0..30 {
        let id = bare.new_id();
        let when = match number % 3 {
            0 => When::from(Duration::from_millis(1)),
            _ => When::Now,
        };
        bare.push(id, when).await.unwrap();
        ids.insert(id);
    }
    let first = bare.fetch(1, 5).await.unwrap();
    let second = bare.fetch(2, 5).await.unwrap();
    assert_eq!((first.len(), second.len()), (5, 5));
    bare.ack(2, &second[..2]).await.unwrap();
    let due_us = bare.store.now_us() + 2_000;
    until("the delayed ones are due", async || {
        bare.store.now_us() > due_us
    })
    .await;

    let overwritten = Overwritten::new(server, &prefix, part);
    let (now, later) = (bare.new_id(), bare.new_id());
    let answers = [
        bare.push(now, When::Now).await.err(),
        bare.push(later, Duration::from_millis(1)).await.err(),
        bare.apply(StoreOp::MoveDue { limit: 5 }).await.err(),
        bare.fetch(3, 5).await.err(),
        bare.ack(1, &first).await.err(),
    ];
    assert!(
        answers.iter().any(Option::is_some),
        "{part}: nobody noticed"
    );
    overwritten.put_right();

    // Every operation can be repeated, whatever had become of it.
    bare.push(now, When::Now).await.expect(part);
    bare.push(later, Duration::from_millis(1))
        .await
        .expect(part);
    ids.extend([now, later]);
    let acked = bare.ack(1, &first).await.expect(part);
    assert!(acked.into_iter().all(|so| so), "{part}: {answers:?}");
    let mut request = 0;
    let mut ended: BTreeSet<_> = second[..2].iter().chain(&first).copied().collect();
    until(&format!("all are handled after {part}"), async || {
        bare.apply(StoreOp::MoveDue { limit: 1_000 })
            .await
            .expect(part);
        request += 1;
        let held = bare.fetch(request, 1_000).await.expect(part);
        let settled = bare.ack(request, &held).await.expect(part);
        let settled = held.iter().zip(settled).filter(|(_, so)| *so);
        ended.extend(settled.map(|(id, _)| *id));
        ended.len() >= ids.len() || request > 500
    })
    .await;
    assert_eq!(ended, ids, "{part}: {answers:?}");

    // Whatever came of its outcome, the record is there: it is written first.
    let query = Query {
        limit: Some(Query::LIMIT_MAX),
        ..Query::default()
    };
    let page = duly::testing::records(&bare.store, query)
        .await
        .expect(part);
    let recorded: BTreeSet<_> = page.items.into_iter().map(|record| record.id).collect();
    assert_eq!(recorded, ids, "{part}: {answers:?}");
}

/// A test for each key that an event passes on its way.
macro_rules! of_each {
    ($($part:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $part() {
            loses_nothing(stringify!($part)).await;
        })+
    };
}

of_each!(meta, body, delay, ready, state, held, nodes, past, outbox);
