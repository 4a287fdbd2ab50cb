//! What every test here begins with: a bus on a prefix of its own, and a handler that notes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use duly::event::{BucketId, BucketKey, Envelope, Payload, State};
use duly::prelude::*;
use duly::records::{Cause, NodeId, Query, Record};
use duly::store::operation::{
    AttemptOutcome, FailureReason, Fetch, NewEvent, Operation, Reply, Response, Settlement,
    StartMark, StoreOp,
};
use duly::store::{RedisOptions, RedisStore, Store};
use duly::time::{Timestamp, When};
use duly::{Annotation, BusBuilder, QueueName, Result as Answered, Unique};

use crate::servers;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// One bucket, so that events lie together.
pub(crate) const LETTERS: Annotation = Annotation::new("letters").buckets(1);

/// A server's URL with a prefix that nobody else uses, and the prefix.
pub(crate) fn fresh(url: &str) -> (String, String) {
    let prefix = servers::prefix();
    (format!("{url}?prefix={prefix}"), prefix)
}

pub(crate) fn builder(url: &str) -> BusBuilder {
    let builder = Bus::builder().only_registered();
    builder.settings(Default::default()).store_url(url)
}

/// A bus that only pushes, to one bucket.
pub(crate) async fn pusher(url: &str) -> (Bus, Queue<String>) {
    pusher_to(url, 1).await
}

/// A bus that only pushes, to so many buckets.
pub(crate) async fn pusher_to(url: &str, buckets: u16) -> (Bus, Queue<String>) {
    let choices = duly::config::QueueChoices {
        buckets: Some(buckets),
        ..Default::default()
    };
    let builder = builder(url).publish_only().queue("letters", choices);
    let bus = builder.start().await.expect("a start");
    let queue = bus.queue_named("letters").expect("a legal name");
    (bus, queue)
}

/// Pushes to a bucket.
#[allow(clippy::disallowed_methods)] // real time: ids are made by it, as a user's are
pub(crate) async fn push_to(queue: &Queue<String>, bucket: u16) -> Answered<EventId> {
    let now = Timestamp::from(SystemTime::now());
    let id = EventId::from_parts(now, BucketId(bucket), fastrand::u64(..));
    let sent = queue.event("a letter".into()).id(id).push().await;
    sent.map(|sent| sent.id())
}

/// How often each event was handled.
#[derive(Clone, Default)]
pub(crate) struct Read(Arc<Mutex<BTreeMap<EventId, usize>>>);

impl Handler for Read {
    type Payload = String;

    async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        *self.0.lock().unwrap().entry(event.id()).or_default() += 1;
        Ok(())
    }
}

impl Read {
    /// Starts a bus that handles.
    pub(crate) async fn start(url: &str) -> (Self, Bus) {
        let read = Self::default();
        let builder = builder(url).register_as(LETTERS, read.clone());
        (read, builder.start().await.expect("a start"))
    }

    pub(crate) fn seen(&self) -> BTreeMap<EventId, usize> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) async fn stop(bus: &Bus) {
    bus.shutdown(PATIENCE).await.expect("a stop");
}

/// Asks again until it is so.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let asked = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    assert!(asked.is_ok(), "not within {PATIENCE:?}: {what}");
}

/// An id as hexadecimal digits, which a command line can carry.
pub(crate) fn hex(id: EventId) -> String {
    id.to_bytes().iter().map(|b| format!("{b:02x}")).collect()
}

/// What a script begins with whose first argument is such an id.
pub(crate) const ID: &str =
    "local id = ARGV[1]:gsub('%x%x', function(h) return string.char(tonumber(h, 16)) end) ";

/// A store, asked without a bus: one bucket and one node.
pub(crate) struct Bare {
    pub(crate) store: RedisStore,
    pub(crate) bucket: BucketKey,
}

pub(crate) const NODE: NodeId = NodeId(7);

impl Bare {
    /// An event with as many attempts as one has unless its queue says otherwise.
    pub(crate) fn plain(&self, id: EventId, when: When) -> NewEvent {
        let payload = Payload::from(&b"\"a letter\""[..]);
        let mut envelope = Envelope::new(id, self.bucket.queue.clone(), payload);
        envelope.attempts = 16;
        NewEvent {
            envelope: Arc::new(envelope),
            when,
            on_taken: Unique::Keep,
        }
    }

    pub(crate) async fn open(url: &str) -> Self {
        Self::open_with(url, RedisOptions::new()).await
    }

    pub(crate) async fn open_with(url: &str, options: RedisOptions) -> Self {
        let queue = QueueName::new("letters").unwrap();
        Self {
            store: RedisStore::open_with(url, options).await.expect("a store"),
            bucket: BucketKey::new(queue, BucketId(0)),
        }
    }

    pub(crate) fn new_id(&self) -> EventId {
        let now = Timestamp::from_micros_up(self.store.now_us());
        EventId::from_parts(now, BucketId(0), fastrand::u64(..) & !128)
    }

    /// Returns so many ids that may share pages.
    pub(crate) fn new_run(&self, count: usize) -> Vec<EventId> {
        let first = self.new_id();
        let id = |at: usize| {
            let (page, place) = (at as u64 / 64, at as u64 % 64);
            let entropy = (((first.entropy() >> 8).wrapping_add(page)) << 8) | (128 + place);
            EventId::from_parts(first.created(), first.bucket(), entropy)
        };
        (0..count).map(id).collect()
    }

    pub(crate) async fn apply(&self, op: StoreOp) -> Answered<Reply> {
        let Response { reply, .. } = self.store.apply(&self.bucket, op).await?;
        Ok(reply)
    }

    pub(crate) async fn typed<R>(&self, op: Operation<R>) -> Answered<R> {
        op.apply(&self.store, &self.bucket).await
    }

    pub(crate) async fn push(&self, id: EventId, when: impl Into<When>) -> Answered<Reply> {
        let when = when.into();
        let payload = Payload::from(&b"\"a letter\""[..]);
        let mut envelope = Envelope::new(id, self.bucket.queue.clone(), payload);
        envelope.delayed = !matches!(when, When::Now);
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when,
            on_taken: Unique::Keep,
        };
        self.apply(StoreOp::Push(vec![event])).await
    }

    /// The ids that are the node's under this request.
    pub(crate) async fn fetch(&self, request: u64, limit: usize) -> Answered<Vec<EventId>> {
        let fetch = Fetch {
            node: NODE,
            request,
            limit,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: None,
            starts: usize::MAX,
        };
        let fetched = self.typed(StoreOp::fetch(fetch)).await?;
        Ok(fetched.deliveries.iter().map(|it| it.id).collect())
    }

    pub(crate) async fn ack(&self, request: u64, ids: &[EventId]) -> Answered<Vec<bool>> {
        let settlements = ids.iter().map(|id| Settlement {
            id: *id,
            request,
            verdict: AttemptOutcome::Ack,
            started_us: 1,
            fetched_us: 1,
        });
        let settle = StoreOp::settle(NODE, settlements.collect(), StartMark::default());
        self.typed(settle).await
    }

    /// All records of an event.
    pub(crate) async fn records(&self, id: EventId) -> Vec<Record> {
        let query = Query {
            id: Some(id),
            ..Query::default()
        };
        let page = duly::testing::records(&self.store, query).await;
        page.expect("records can be read").items
    }

    pub(crate) async fn state(&self, id: EventId) -> State {
        let found = self.typed(StoreOp::get(id)).await.expect("a look");
        found.expect("it is known").state
    }

    /// Pushes an event that is due, changed so.
    pub(crate) async fn push_with(&self, change: impl FnOnce(&mut Envelope)) -> EventId {
        let id = self.new_id();
        let mut envelope = Envelope::new(id, self.bucket.queue.clone(), Payload::default());
        change(&mut envelope);
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when: When::Now,
            on_taken: Unique::Replace,
        };
        let pushed = self.apply(StoreOp::Push(vec![event])).await;
        pushed.expect("a push");
        id
    }

    /// Pushes an event that takes the place of the one with its unique key.
    pub(crate) async fn replace(&self, id: EventId, unique: &str, when: When) -> Answered<Reply> {
        let mut envelope = Envelope::new(id, self.bucket.queue.clone(), Payload::default());
        envelope.unique = Some(unique.to_owned());
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when,
            on_taken: Unique::Replace,
        };
        self.apply(StoreOp::Push(vec![event])).await
    }

    /// Fetches everything and makes dead letters of it.
    pub(crate) async fn bury(&self, request: u64) {
        let held = self.fetch(request, 1_000).await.expect("a fetch");
        let settlements = held.into_iter().map(|id| Settlement {
            id,
            request,
            verdict: AttemptOutcome::Bury(FailureReason {
                cause: Cause::Failed,
                error: None,
            }),
            started_us: 1,
            fetched_us: 1,
        });
        let settlements: Vec<_> = settlements.collect();
        let node = NODE;
        let settle = StoreOp::Settle {
            node,
            settlements,
            started: StartMark::default(),
        };
        self.apply(settle).await.expect("a settle");
    }
}

/// A bus that handles and one that pushes, through a proxy, after one event was handled.
pub(crate) struct Pair {
    pub(crate) proxy: servers::Proxy,
    pub(crate) read: Read,
    pub(crate) handling: Bus,
    pub(crate) pushing: Bus,
    pub(crate) queue: Queue<String>,
}

impl Pair {
    pub(crate) async fn before(server: servers::Address) -> Self {
        let proxy = servers::Proxy::before(server);
        let (url, _) = fresh(&proxy.url());
        let (read, handling) = Read::start(&url).await;
        let (pushing, queue) = pusher(&url).await;
        let pair = Self {
            proxy,
            read,
            handling,
            pushing,
            queue,
        };
        let first = pair.push().await.expect("a push");
        pair.until_handled(first).await;
        pair
    }

    pub(crate) async fn push(&self) -> Answered<EventId> {
        let pushed = self.queue.push("a letter".to_owned(), When::Now).await?;
        Ok(pushed.id())
    }

    pub(crate) async fn until_handled(&self, id: EventId) {
        until("it is handled", async || self.read.seen().contains_key(&id)).await;
    }

    pub(crate) async fn stop(&self) {
        stop(&self.pushing).await;
        stop(&self.handling).await;
    }
}

/// What is logged by this process from some time on, by whichever thread.
pub(crate) struct Log(usize);

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Lines;

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Reads it from now on.
    pub(crate) fn here() -> Self {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            let lines = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(|| Lines);
            tracing::subscriber::set_global_default(lines.finish()).expect("it is the first");
        });
        Self(LINES.lock().unwrap().len())
    }

    pub(crate) fn has(&self, words: &str) -> bool {
        let lines = LINES.lock().unwrap();
        String::from_utf8_lossy(&lines[self.0..]).contains(words)
    }
}
