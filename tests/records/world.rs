//! What every test on virtual time begins with: a clock, a store on it, and a journal.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::journal::{JournalStatus, RecorderOptions};
use duly::prelude::*;
use duly::records::Numbered;
use duly::store::{MemoryStore, Store};
use duly::testing::{Probe, TestBus, VirtualClock};
use duly::{Annotation, BusBuilder, EventId};
use tracing::subscriber::NoSubscriber;

use crate::records::bad::Bad;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A queue that tries each event once.
pub(crate) const ORDERS: Annotation = Annotation::new("orders").attempts(1);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Carries at once, and looks only at the start: what is not heard of is not carried.
pub(crate) fn prompt() -> RecorderOptions {
    RecorderOptions {
        linger: Duration::ZERO,
        fallback_poll_every: Some(DAY),
        ..RecorderOptions::default()
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) journal: Arc<Bad>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|store| store)
    }

    pub(crate) fn with(make: impl FnOnce(MemoryStore) -> MemoryStore) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as _);
        Self {
            store: Arc::new(make(store)),
            clock,
            journal: Arc::default(),
        }
    }

    pub(crate) fn builder(&self, options: RecorderOptions) -> BusBuilder {
        Bus::builder()
            .only_registered()
            .shared_store(Arc::clone(&self.store))
            .shared_journal(Arc::clone(&self.journal) as _)
            .recorder_options(options)
    }

    /// A bus that handles orders.
    pub(crate) async fn serve(&self, probe: &Probe<u64>) -> (TestBus, Queue<u64>) {
        self.start(self.builder(prompt()).register_as(ORDERS, probe.clone()))
            .await
    }

    pub(crate) async fn start(&self, builder: BusBuilder) -> (TestBus, Queue<u64>) {
        let bus = TestBus::start_on(Arc::clone(&self.clock), builder).await;
        let bus = bus.expect("it starts");
        let queue = bus.queue_named("orders").expect("a legal name");
        (bus, queue)
    }

    /// How many records wait in the store.
    pub(crate) async fn waiting(&self) -> u64 {
        let mut waiting = 0;
        for outbox in self.store.outboxes().await.expect("it is in memory") {
            let page = self.store.read_outbox(&outbox, 0, 0).await;
            let page = page.expect("it is in memory");
            waiting += page.next - page.first;
        }
        waiting
    }

    /// In the journal are the first `many` records, each of them once, and no others.
    pub(crate) async fn has_all(&self, many: u64) {
        let numbers = self.numbers().await;
        let missing = (1..=many).find(|number| !numbers.contains(number));
        assert_eq!((missing, numbers.len() as u64), (None, many));
    }

    /// The numbers in the journal, none of them twice.
    pub(crate) async fn numbers(&self) -> Vec<u64> {
        let all = self.journal.all().await;
        let mut numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        let twice = numbers.windows(2).find(|two| two[0] == two[1]);
        assert_eq!(twice, None, "a number is there twice");
        numbers
    }
}

pub(crate) fn status(bus: &Bus) -> JournalStatus {
    bus.journal_status().expect("there is a journal")
}

pub(crate) fn ids(records: &[Numbered]) -> Vec<EventId> {
    records.iter().map(|(_, record)| record.id).collect()
}

/// What this thread logs while this is held.
pub(crate) struct Said {
    text: Arc<Mutex<Vec<u8>>>,
    _guard: tracing::subscriber::DefaultGuard,
    /// Where there is one subscriber only, a line that another thread reaches first, which has
    /// none, is off for everybody.
    _second: tracing::Dispatch,
}

impl Said {
    pub(crate) fn listen() -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let writer = Arc::clone(&text);
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(move || Pen(Arc::clone(&writer)))
            .finish();
        Self {
            text,
            _second: tracing::Dispatch::new(NoSubscriber::default()),
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    /// The lines of a level that hold these words.
    pub(crate) fn lines(&self, level: &str, words: &str) -> Vec<String> {
        let text = self.text.lock().expect("nobody panics in there");
        let text = String::from_utf8_lossy(&text);
        let is_one = |line: &&str| line.contains(level) && line.contains(words);
        text.lines().filter(is_one).map(ToOwned::to_owned).collect()
    }
}

struct Pen(Arc<Mutex<Vec<u8>>>);

impl io::Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics in there").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A text of so many letters.
pub(crate) fn long(letters: usize) -> String {
    let mut text = String::new();
    for at in 0..letters {
        write!(text, "{}", at % 10).expect("a text takes all");
    }
    text
}
