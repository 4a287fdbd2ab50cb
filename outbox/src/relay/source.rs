//! The interface of a relay to an outbox.

use std::time::Duration;

use duly::__outbox::PlainEvent;
use duly::Result;
use duly::time::Timestamp;
use futures_util::future::BoxFuture;

/// The most rows of a page.
pub(crate) const PAGE_MAX: usize = 1_000;
/// The most bytes of a page of more than one row.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// What takes long comes less often than it would: it has a part of the time that is one of so many.
/// Beside a snapshot that is held for long, the database walks over all rows that were deleted since.
const PART: u32 = 20;
/// But it comes as often as this: one call that took long says little about the next.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Returns how long after the begin of something that takes so long it comes again.
pub(crate) fn paced(every: Duration, took: Duration) -> Duration {
    every.max((PART * took).min(PAUSE_MAX))
}

/// The most groups of deferred rows that a relay knows.
pub(crate) const GROUPS_MAX: usize = 10_000;
/// How long other relays leave deferred rows alone that one has taken.
pub(crate) const CLAIM: Duration = Duration::from_secs(30);

/// An outbox, as a relay reads it.
///
/// Before a row is returned by [`take`](Self::take) the outbox has stored that it may have been
/// pushed; it is passed by [`close`](Self::close), and not before.
pub(crate) trait Source: Send + 'static {
    /// Checks that the tables are there; the error names what is missing.
    fn check(&mut self) -> BoxFuture<'_, Result<()>>;

    /// Returns whether rows may have become visible since rows were last taken, if a query tells that
    /// for less than [`take`](Self::take) costs. It may overlook some, which are then taken later.
    fn has_news(&mut self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Returns whether no other relay has passed rows between those that this one has taken and the rows
    /// that it took before: then it knows all groups that have deferred rows since its last list of them.
    fn is_alone(&mut self) -> bool {
        false
    }

    /// Takes the next rows.
    fn take(&mut self) -> BoxFuture<'_, Result<TakeReply>>;

    /// Passes the rows of the page that was taken; returns `false` if another relay has taken it
    /// meanwhile.
    fn close(&mut self, closing: Closing) -> BoxFuture<'_, Result<bool>>;

    /// Lets other relays go on at once with the rows that this one has taken or would take next.
    fn release_page(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the groups behind a name that have deferred rows, in their order, at most
    /// [`GROUPS_MAX`].
    fn groups(&mut self, behind: String) -> BoxFuture<'_, Result<Vec<String>>>;

    /// Takes deferred rows of a group in their order, those behind a key and at most so many, and none
    /// behind one that another relay has. It has then stored that they may have been pushed, and no
    /// other relay takes them for a while.
    fn take_deferred(
        &mut self,
        group: String,
        rows: (i64, usize),
    ) -> BoxFuture<'_, Result<Vec<DeferredRow>>>;

    /// Gives back the deferred rows that were taken and not settled; they may have been pushed.
    fn release_deferred(&mut self) -> BoxFuture<'_, Result<()>>;

    /// Settles deferred rows that were taken.
    fn settle_deferred(&mut self, settling: Settling) -> BoxFuture<'_, Result<()>>;

    /// Returns how many bytes an event may have that a row goes on as.
    fn instead_bytes_max(&self) -> usize {
        usize::MAX
    }

    /// Returns how many rows wait, and since when.
    fn waiting(&mut self) -> BoxFuture<'_, Result<Waiting>>;

    /// Returns what is known of the ends of events.
    fn ends(&mut self) -> BoxFuture<'_, Result<Ends>>;

    /// Frees the room of rows that are passed, and of ends from before a time; first it stores the
    /// limit, if that has moved. Returns whether there may be more such ends.
    fn sweep(
        &mut self,
        before: Timestamp,
        moved: Option<StoredLimit>,
    ) -> BoxFuture<'_, Result<bool>>;
}

/// The reply of an outbox that is asked for rows.
#[derive(Debug)]
pub(crate) enum TakeReply {
    /// There is nothing to do.
    Nothing,
    /// Another relay is at work.
    Locked,
    /// Some rows, in the order in which they are to be pushed.
    Rows(Vec<Row>),
}

/// A row of an outbox.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Whether it may have been pushed before it was taken now; of an event by plain SQL, whether the
    /// staged event may have been that it goes on as.
    pub(crate) is_repeated: bool,
    /// Whether an operator has put it back, and handling its event twice does no harm.
    pub(crate) is_anew: bool,
    pub(crate) content: RowContent,
}

/// What a row says.
#[derive(Clone, Debug)]
pub(crate) enum RowContent {
    /// A staged event.
    Staged(Vec<u8>),
    /// An event by plain SQL.
    Plain(PlainEvent),
    /// Nothing that can be read, for this reason.
    Unreadable(String),
}

/// How a page is closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing {
    /// How many of its rows are passed, from the first on.
    pub(crate) passed: usize,
    /// Whether rows behind those may have been accepted nevertheless.
    pub(crate) is_repeated: bool,
    /// Rows among the passed that can never be accepted, by their places.
    pub(crate) refused: Vec<Refused<usize>>,
    /// Rows among the passed that go on as another one.
    pub(crate) instead: Vec<Instead>,
    /// Rows among the passed that are pushed later.
    pub(crate) deferred: Vec<Deferred>,
}

/// A row that can never be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused<K> {
    pub(crate) row: K,
    pub(crate) reason: String,
    /// Whether it may have been accepted nevertheless, by an earlier push.
    pub(crate) is_repeated: bool,
}

/// A row among the passed that goes on as another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instead {
    pub(crate) place: usize,
    pub(crate) event: Vec<u8>,
    /// Whether the other one may have been pushed already.
    pub(crate) is_repeated: bool,
}

/// A row among the passed that is pushed later.
#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub(crate) place: usize,
    /// The group of its event.
    pub(crate) group: String,
    /// Whether it may have been pushed already.
    pub(crate) is_repeated: bool,
}

/// A deferred row that was taken.
#[derive(Clone, Debug)]
pub(crate) struct DeferredRow {
    pub(crate) key: i64,
    /// Whether it may have been pushed before it was taken now.
    pub(crate) is_repeated: bool,
    /// Whether an operator has put it back, and handling its event twice does no harm.
    pub(crate) is_anew: bool,
    pub(crate) event: Vec<u8>,
}

/// How deferred rows are settled, by their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settling {
    /// The store has them.
    pub(crate) gone: Vec<i64>,
    pub(crate) refused: Vec<Refused<i64>>,
    /// They go on as other ones, which were never pushed.
    pub(crate) instead: Vec<(i64, Vec<u8>)>,
    /// They stay, and may have been pushed.
    pub(crate) maybe: Vec<i64>,
    /// They stay, and were never accepted.
    pub(crate) never: Vec<i64>,
}

/// The ends of events whose effects were committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The time of the database.
    pub(crate) now: Timestamp,
    /// When the first of them was.
    pub(crate) oldest: Option<Timestamp>,
    pub(crate) limit: Option<StoredLimit>,
}

/// From before which time ends may be deleted, whichever relay does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredLimit {
    pub(crate) before: Timestamp,
    /// How long it stands.
    pub(crate) until: Timestamp,
}

impl Ends {
    /// Makes it of times in milliseconds since 1970: now, the oldest, and those of the limit.
    pub(crate) fn of(now: i64, oldest: Option<i64>, limit: [Option<i64>; 2]) -> Self {
        let time = |ms| Timestamp::from_millis(u64::try_from(ms).unwrap_or(0));
        let [before, until] = limit.map(|ms| ms.map(time));
        Self {
            now: time(now),
            oldest: oldest.map(time),
            limit: before
                .zip(until)
                .map(|(before, until)| StoredLimit { before, until }),
        }
    }
}

impl StoredLimit {
    /// Returns it as the values of its row.
    pub(crate) fn values(self) -> String {
        format!("1, {}, {}", self.before.as_millis(), self.until.as_millis())
    }
}

/// The columns of the limit, as values of a statement that reads [`Ends`].
pub(crate) const LIMIT: &str = "(select ends_before from duly_done_limit), \
                                (select stands_until from duly_done_limit)";

/// What waits in an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Waiting {
    /// The number of rows, as far as they were counted.
    pub(crate) rows: u64,
    /// The age of the oldest.
    pub(crate) oldest: Duration,
    /// How many of the rows are deferred.
    pub(crate) deferred: u64,
    /// The number of refused rows, as far as they were counted.
    pub(crate) refused: u64,
}
