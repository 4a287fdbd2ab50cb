//! A relay at rest, which hears nothing of the commits of other processes: it asks at little cost, and
//! a whole read of the outbox follows each commit.

use std::sync::Arc;

use duly_outbox::{Relay, RelayOptions};
use parking_lot::Mutex;
use tokio_postgres::NoTls;

use crate::servers::{Proxy, shared_postgres};
use crate::world::{Seen, TestDatabase, bus, eventually};

/// What a relay has asked for; by its first words.
const NEWS: &str = "news";
const WHOLE: &str = "whole";
const COMMITTED: &str = "committed";

/// Requests of a relay, and commits between them.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<&'static str>>>);

impl Requests {
    fn read(&self, piece: &[u8]) {
        let text = String::from_utf8_lossy(piece);
        let mut requests = self.0.lock();
        if text.contains("pg_sequence_last_value") {
            requests.push(NEWS);
        } else if text.contains("pg_control_system") {
            requests.push(WHOLE);
        } else if text.contains("as waiting") {
            // To count what waits it reads the state first, as for a whole read.
            let last = requests.iter().rposition(|it| *it == WHOLE);
            last.map(|last| requests.remove(last));
        }
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Waits until it has asked for news so many times in a row, with whole reads between some.
    async fn until_at_rest(&self) {
        self.take();
        let is_at_rest = async || {
            let mut requests = self.0.lock();
            if requests.ends_with(&[WHOLE; 3]) {
                requests.clear();
            }
            requests.iter().filter(|it| **it == NEWS).count() >= 12
        };
        eventually("the relay is at rest", is_at_rest).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_another_process_is_seen_at_the_next_question() {
    assert!(RelayOptions::default().idle_poll <= RelayOptions::default().busy_poll);
    let (database, seen) = (TestDatabase::new().await, Seen::default());
    let bus = bus("memory:", &seen).await;
    let proxy = Proxy::before(shared_postgres().address());
    let port = database
        .url
        .rsplit_once('/')
        .unwrap()
        .0
        .rsplit_once(':')
        .unwrap()
        .1;
    let url = database.url.replacen(port, &proxy.port().to_string(), 1);
    let requests = Requests::default();
    let log = requests.clone();
    proxy.on_request(move |piece| {
        log.read(piece);
        None
    });
    let options = RelayOptions::default();
    let relay = Relay::tokio_postgres(&bus, url.parse().unwrap(), NoTls, options);
    let relay = relay.await.unwrap();
    let mut others = [database.client().await, database.client().await];
    // Each inserts at once or rests before its commit, alone or beside one that is open or rolled back.
    for case in 0..4_u64 {
        let [first, second] = &mut others;
        let beside = second.transaction().await.unwrap();
        let push = |number: u64| format!("select duly_push('orders', '{{\"number\": {number}}}')");
        if case >= 2 {
            beside.batch_execute(&push(1_000 + case)).await.unwrap();
        }
        requests.until_at_rest().await;
        let tx = first.transaction().await.unwrap();
        tx.batch_execute(&push(case)).await.unwrap();
        if case % 2 == 1 {
            requests.until_at_rest().await;
        }
        tx.commit().await.unwrap();
        requests.0.lock().push(COMMITTED);
        seen.reach(usize::try_from(case).unwrap() + 1).await;
        let log = requests.take();
        let after = log.iter().position(|it| *it == COMMITTED).unwrap();
        let asked = log[after..].iter().position(|it| *it == NEWS);
        let next = asked.and_then(|asked| log[after..].get(asked + 1));
        assert!(next.is_none_or(|next| *next == WHOLE), "{case}: {log:?}");
        beside.rollback().await.unwrap();
    }
    // What it asks most of the time is of little cost.
    requests.until_at_rest().await;
    let log = requests.take();
    let last = &log[log.len() - 10..];
    assert!(
        last.iter().filter(|it| **it == WHOLE).count() <= 3,
        "{log:?}"
    );
    relay.stop().await;
}
