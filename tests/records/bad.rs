//! A journal that does badly where a test says so.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::journal::{Batch, FoundRecords, Journal, JournalFuture, Keep, MemoryJournal, Pruned};
use duly::records::{Cursor, MinuteQuery, MinuteStats, Numbered, Query};
use duly::time::Timestamp;
use duly::{Error, ErrorKind};

/// What becomes of what is asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Works,
    /// Nothing happens, and the answer says so.
    Fails,
    /// Nothing happens, and no answer ever comes.
    Hangs,
    /// It is done, and the answer is lost.
    LosesAnswers,
    /// It is done, and takes so long.
    Takes(Duration),
    /// The next takes so long, and all after it work.
    OneTakes(Duration),
    Panics,
}

/// A journal in memory, and a way to it on which things go wrong.
#[derive(Debug, Default)]
pub(crate) struct Bad {
    journal: Arc<MemoryJournal>,
    state: Mutex<State>,
    /// How many loads are under way, and how many there were at most.
    under_way: Arc<AtomicUsize>,
    most_under_way: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// After how long the next load is done.
    load_waits: Option<Duration>,
    /// How many records each load brought.
    loads: Vec<usize>,
    /// The names of the outboxes.
    outboxes: BTreeSet<String>,
    /// The names of those whose records are refused.
    refused: BTreeSet<String>,
    prunes: usize,
    is_closed: bool,
}

impl Bad {
    pub(crate) fn now(&self, mode: Mode) {
        self.state.lock().expect("no test panics in there").mode = mode;
    }

    /// The next load is done after so long.
    #[allow(dead_code)] // those of the bus need it
    pub(crate) fn next_load_waits(&self, span: Duration) {
        let mut state = self.state.lock().expect("no test panics in there");
        state.load_waits = Some(span);
    }

    /// Whatever has records of these outboxes is refused.
    #[allow(dead_code)] // those of the bus need it not
    pub(crate) fn refuse(&self, outboxes: impl IntoIterator<Item = String>) {
        let mut state = self.state.lock().expect("no test panics in there");
        state.refused = outboxes.into_iter().collect();
    }

    /// How many records each load brought, also those that failed.
    pub(crate) fn loads(&self) -> Vec<usize> {
        self.state
            .lock()
            .expect("no test panics in there")
            .loads
            .clone()
    }

    /// How many loads were under way at a time, at most.
    pub(crate) fn most_under_way(&self) -> usize {
        self.most_under_way.load(Ordering::SeqCst)
    }

    pub(crate) fn outboxes(&self) -> Vec<String> {
        let state = self.state.lock().expect("no test panics in there");
        state.outboxes.iter().cloned().collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state
            .lock()
            .expect("no test panics in there")
            .is_closed
    }

    pub(crate) fn prunes(&self) -> usize {
        self.state.lock().expect("no test panics in there").prunes
    }

    /// Everything in it, whatever its mode is.
    pub(crate) async fn all(&self) -> Vec<Numbered> {
        let mut all: Vec<Numbered> = Vec::new();
        loop {
            let after = all.last().map(Cursor::of);
            let limit = Some(Query::LIMIT_MAX);
            let query = Query {
                after,
                limit,
                ..Query::default()
            };
            let found = self.journal.page(query).await.expect("it is in memory");
            all.extend(found.records);
            if found.next.is_none() {
                return all;
            }
        }
    }

    fn met<T: Send + 'static>(
        &self,
        answer: impl FnOnce() -> JournalFuture<T>,
    ) -> JournalFuture<T> {
        let mut state = self.state.lock().expect("no test panics in there");
        let mode = state.mode;
        if matches!(mode, Mode::OneTakes(_)) {
            state.mode = Mode::Works;
        }
        drop(state);
        let away = |kind| Box::pin(async move { Err(Error::new(kind, "the journal is away")) });
        match mode {
            Mode::Works => answer(),
            Mode::Fails => away(ErrorKind::Unavailable),
            Mode::Hangs => Box::pin(std::future::pending()),
            Mode::LosesAnswers => {
                drop(answer());
                away(ErrorKind::Unknown)
            }
            Mode::Takes(span) | Mode::OneTakes(span) => {
                let answer = answer();
                Box::pin(async move {
                    tokio::time::sleep(span).await;
                    answer.await
                })
            }
            // Without a word to the console.
            Mode::Panics => std::panic::resume_unwind(Box::new("on purpose")),
        }
    }
}

impl Journal for Bad {
    fn load(&self, batches: Vec<Batch>) -> JournalFuture<()> {
        let mut state = self.state.lock().expect("no test panics in there");
        state
            .loads
            .push(batches.iter().map(|it| it.records.len()).sum());
        let names = batches.iter().map(|it| it.outbox.clone());
        state.outboxes.extend(names);
        let waits = state.load_waits.take();
        let is_refused = |it: &Batch| state.refused.contains(&it.outbox);
        if batches.iter().any(is_refused) {
            let error = Error::new(ErrorKind::Invalid, "the journal takes in no such records");
            return Box::pin(async move { Err(error) });
        }
        drop(state);
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_under_way.fetch_max(under_way, Ordering::SeqCst);
        let ends = Ends(Arc::clone(&self.under_way));
        let journal = Arc::clone(&self.journal);
        let load = move || -> JournalFuture<()> {
            match waits {
                None => journal.load(batches),
                Some(span) => Box::pin(async move {
                    tokio::time::sleep(span).await;
                    journal.load(batches).await
                }),
            }
        };
        let answer = self.met(load);
        Box::pin(async move {
            let _ends = ends;
            answer.await
        })
    }

    fn page(&self, query: Query) -> JournalFuture<FoundRecords> {
        self.met(|| self.journal.page(query))
    }

    fn minutes(&self, query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        self.met(|| self.journal.minutes(query))
    }

    fn prune(&self, keep: Keep, now: Timestamp) -> JournalFuture<Pruned> {
        self.state.lock().expect("no test panics in there").prunes += 1;
        self.met(|| self.journal.prune(keep, now))
    }

    fn erase(&self, places: Vec<Cursor>) -> JournalFuture<()> {
        self.met(|| self.journal.erase(places))
    }

    fn close(&self) -> JournalFuture<()> {
        self.state
            .lock()
            .expect("no test panics in there")
            .is_closed = true;
        self.met(|| self.journal.close())
    }
}

/// One load is under way less once this is dropped.
struct Ends(Arc<AtomicUsize>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
