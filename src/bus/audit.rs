//! The audit of a store: who did what to it, kept in the store itself.
//!
//! A line is an event of an own queue of the bus, `shop.duly.audit` for the namespace `shop`, that is
//! never due before it expires, so no consumer gets it. Its key is the day, by which a page is read.
//! What programs did is in another one, `shop.duly.audit.programs`: as much as they do pushes out no
//! line of a person.
//! Whatever works on the store finds it there: a command without a server, a dashboard of another
//! process. Each namespace has as many lines as another, so a busy one pushes out none of them.

use std::time::Duration;

use crate::bus::audit_line::{
    AuditCursor, AuditFilter, AuditLine, IsSeen, LINES_MAX, StoredLine, TEXT_BYTES_MAX, Trail,
    day_of, newest_first,
};
use crate::bus::events::StoredEvent;
use crate::bus::fan_out::in_order;
use crate::bus::handle::Bus;
use crate::bus::program_audit;
use crate::bus::queue::Queue;
use crate::bus::scan::{PAGE, Scan, ScanPage, UnfinishedEvents};
use crate::codec::Codec;
use crate::core::op::{BATCH_MAX, PeekBy, Snapshot, Stats, StoreOp};
use crate::error::{Error, Result};
use crate::event::{AUDIT, BucketKey, PROGRAM_AUDIT, QueueName, is_audit};
use crate::record::{BY_BYTES_MAX, Page};

use futures_util::TryStreamExt;

/// How many more lines of a namespace than are kept there may be before the oldest go.
const LINES_OVER: usize = 256;
/// How long a line is kept.
const KEPT: Duration = Duration::from_secs(400 * 86_400);
/// The most lines of a page.
const PAGE_MAX: usize = 1_000;
/// So many lines are read at once; of more, those of a day after the other, and of so many days.
const FEW: usize = 1_000;
const DAYS_MAX: u64 = 40;

impl Bus {
    /// Adds a line to the audit of the store: who did what to what. `duly` adds one for each action on
    /// its dashboard and over its API, and for each command; a program adds its own for what its
    /// operators do.
    ///
    /// What a program does that others see has a line by itself, in the name of the program and its
    /// machine, such as `orders@web-1`: a queue is paused, resumed, or gets another rate, number of
    /// workers or of buckets; a schedule is set, paused, resumed, removed or run; pages of events are
    /// changed; dead letters are revived, dropped or edited; records are replayed; the store is repaired.
    /// What it does to single events, or to those of a key, is its business and has none. A pause, a
    /// resume and a change of a schedule have a line each time that they change something, the same of
    /// all else one in ten minutes. The line follows the action: it is pushed behind it, before the end
    /// of [`shutdown`](Self::shutdown), and an action whose line the store does not take is done all the
    /// same, and that is logged. An action whose future is dropped half-way completes its current step,
    /// and has its line, as has one that may be done: one with the error [`Unknown`](crate::ErrorKind::Unknown).
    ///
    /// A target that begins with `shop.`, such as `shop.close`, is of the namespace `shop`. Of each
    /// namespace, and of all that is of none, the newest 10,000 lines are kept, for 400 days; beside
    /// them 1,000 of what programs did.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an actor of more than 128 bytes, or an
    /// action of more than 1,024; or the store's error. A target is cut off behind 1,024 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.add_to_audit("ann", "deploy 17", "order-close").await?;
    ///
    /// let page = bus.audit(None, 10).await?;
    /// assert_eq!((&*page.items[0].actor, &*page.items[0].action), ("ann", "deploy 17"));
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn add_to_audit(&self, actor: &str, action: &str, target: &str) -> Result<()> {
        for (name, text, most) in [
            ("actor", actor, BY_BYTES_MAX),
            ("action", action, TEXT_BYTES_MAX),
        ] {
            if text.is_empty() || text.len() > most {
                return Err(Error::invalid(format!(
                    "the {name} has {} bytes; it must have 1 to {most}",
                    text.len()
                )));
            }
        }
        let line = StoredLine::new(actor, action, target);
        self.add_line(Trail::People, line).await
    }

    /// Adds a line about what the program of this bus did.
    pub(super) async fn add_own_line(
        &self,
        actor: &str,
        (action, target): (&str, &str),
    ) -> Result<()> {
        let line = StoredLine::new(actor, action, target);
        self.add_line(Trail::Programs, line).await
    }

    async fn add_line(&self, of: Trail, line: StoredLine) -> Result<()> {
        let trail = QueueName::new(&of.queue(&line.target))?;
        let queue = self.trail(&trail)?;
        let event = queue.event(line).after(KEPT).expires_after(KEPT);
        let event = event.key(day_of(self.inner.now()).to_string());
        event.push().await?;
        self.trim_audit(&queue, &trail, of.lines_max()).await
    }

    /// Returns a page of the audit, the newest line first, from a place on; at most `limit` lines, up
    /// to 1,000. Lines of the same millisecond come in any order, always the same.
    ///
    /// It reads a page of each namespace; [`audit_of`](Self::audit_of) reads one of a namespace alone.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn audit(
        &self,
        before: Option<AuditCursor>,
        limit: usize,
    ) -> Result<Page<AuditLine, AuditCursor>> {
        let all = AuditFilter::default();
        self.audit_matching(&all, before, limit).await
    }

    /// Returns a page of the audit of a namespace: the lines whose targets begin with its name and a
    /// dot, as [`audit`](Self::audit) does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a name that is none, or the store's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.add_to_audit("ann", "queue paused", "shop.close").await?;
    /// bus.add_to_audit("bob", "queue paused", "mail.send").await?;
    ///
    /// let page = bus.audit_of("shop", None, 10).await?;
    /// assert_eq!(page.items.len(), 1);
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn audit_of(
        &self,
        namespace: &str,
        before: Option<AuditCursor>,
        limit: usize,
    ) -> Result<Page<AuditLine, AuditCursor>> {
        let of_namespace = AuditFilter {
            namespace: Some(namespace.to_owned()),
            ..AuditFilter::default()
        };
        self.audit_matching(&of_namespace, before, limit).await
    }

    /// Returns a page of the lines that match a filter, as [`audit`](Self::audit) does. A page is
    /// full unless it is the last one.
    ///
    /// # Errors
    ///
    /// As of [`audit_of`](Self::audit_of).
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// use duly::admin::AuditFilter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.pause("shop.close").await?;
    /// let who_paused_it = AuditFilter {
    ///     target: Some("shop.close".to_owned()),
    ///     action: Some("paused".to_owned()),
    ///     ..AuditFilter::default()
    /// };
    /// let page = bus.audit_matching(&who_paused_it, None, 1).await?;
    /// println!("{}, at {}", page.items[0].actor, page.items[0].at);
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn audit_matching(
        &self,
        filter: &AuditFilter,
        before: Option<AuditCursor>,
        limit: usize,
    ) -> Result<Page<AuditLine, AuditCursor>> {
        self.audit_seen(filter, &|_| true, before, limit).await
    }

    /// Returns a page of the lines that match a filter and that a reader may see, as
    /// [`audit_matching`](Self::audit_matching) does: what is hidden is in no count, and in no place.
    ///
    /// # Errors
    ///
    /// As of [`audit_of`](Self::audit_of).
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// use duly::admin::{AuditFilter, AuditLine};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// bus.add_to_audit("ann", "queue paused", "shop.close").await?;
    /// bus.add_to_audit("ann", "queue paused", "shop.wages").await?;
    ///
    /// let is_seen = |line: &AuditLine| !line.target.starts_with("shop.wages");
    /// let page = bus.audit_seen(&AuditFilter::default(), &is_seen, None, 1).await?;
    /// assert_eq!(page.items[0].target, "shop.close");
    /// assert!(page.next.is_none());
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub async fn audit_seen(
        &self,
        filter: &AuditFilter,
        is_seen: &(dyn Fn(&AuditLine) -> bool + Sync),
        before: Option<AuditCursor>,
        limit: usize,
    ) -> Result<Page<AuditLine, AuditCursor>> {
        let limit = limit.clamp(1, PAGE_MAX);
        program_audit::written(&self.inner).await;
        let buckets = self.trails_of(filter).await?;
        let trails = buckets.chunk_by(|one, other| one.queue == other.queue);
        let wanted = (filter, is_seen, before);
        let parts = trails.map(|trail| self.lines_of(trail.to_vec(), wanted, limit));
        let (mut lines, mut next) = (Vec::new(), None);
        let mut parts = in_order(parts);
        while let Some(part) = parts.try_next().await? {
            lines.extend(part);
            newest_first(&mut lines);
            if lines.len() > limit {
                lines.truncate(limit);
                next = lines.last().map(AuditLine::cursor);
            }
        }
        Ok(Page::new(lines, next))
    }

    /// Returns the buckets in which lines that match may be, those of a queue together.
    async fn trails_of(&self, filter: &AuditFilter) -> Result<Vec<BucketKey>> {
        let Some(namespace) = &filter.namespace else {
            let mut buckets: Vec<_> = self.inner.open()?.buckets().await?;
            buckets.retain(|bucket| is_audit(&bucket.queue));
            buckets.sort_unstable();
            return Ok(buckets);
        };
        let people = QueueName::new(&format!("{namespace}.{AUDIT}"))?;
        let mut buckets: Vec<_> = self.inner.buckets_of(&people).await?.into_iter().collect();
        // Where its name would be too long there is none.
        if let Ok(programs) = QueueName::new(&format!("{namespace}.{PROGRAM_AUDIT}")) {
            buckets.extend(self.inner.buckets_of(&programs).await?);
        }
        Ok(buckets)
    }

    /// Returns lines of a namespace that match, before a place: more than `limit` of the newest, or
    /// all. It reads a day after the other, and all at once where those are few or thin: each that
    /// is kept at most twice.
    async fn lines_of(
        &self,
        buckets: Vec<BucketKey>,
        (filter, is_seen, before): (&AuditFilter, IsSeen<'_>, Option<AuditCursor>),
        limit: usize,
    ) -> Result<Vec<AuditLine>> {
        let count = self.count_lines(&buckets).await?;
        let is_asked_for = |line: &AuditLine| {
            before.is_none_or(|before| line.cursor() < before)
                && filter.matches(line)
                && is_seen(line)
        };
        // Of lines that are sought by a text there may be few in many days.
        let is_sought = [&filter.target, &filter.actor, &filter.action];
        let is_sought = is_sought.into_iter().any(Option::is_some) && filter.since.is_none();
        if count > FEW && !is_sought {
            let from = before.map_or(self.inner.now(), |before| before.at);
            // A line may be pushed a moment after its day.
            let from = day_of(filter.until.map_or(from, |until| until.min(from))) + 1;
            let first = from.saturating_sub(DAYS_MAX);
            let since = filter.since.map(|since| day_of(since).saturating_sub(1));
            let (mut lines, mut looked) = (Vec::new(), 0);
            for day in (since.map_or(first, |since| since.max(first))..=from).rev() {
                // One more day than is needed, for the same reason.
                let has_enough = lines.len() > limit;
                let (of_day, found) = self.lines_of_day(&buckets, day).await?;
                looked += found;
                lines.extend(of_day.into_iter().filter(is_asked_for));
                // Some may have come meanwhile.
                let is_all = looked >= count && looked >= self.count_lines(&buckets).await?;
                if has_enough || is_all {
                    return Ok(lines);
                }
            }
            if since.is_some_and(|since| since >= first) {
                return Ok(lines);
            }
        }
        let line = |bucket: &BucketKey, event: &Snapshot| self.line(bucket, event);
        let mut lines = self.read_all(buckets, line).await?;
        lines.retain(is_asked_for);
        Ok(lines)
    }

    async fn count_lines(&self, buckets: &[BucketKey]) -> Result<usize> {
        let stats = { buckets.iter() }.map(|it| self.inner.apply(it, StoreOp::stats()));
        let add = async |sum: usize, of: Stats| Ok(sum + of.scheduled);
        in_order(stats).try_fold(0, add).await
    }

    /// Returns the lines of a day that can be read, and how many there are.
    async fn lines_of_day(&self, of: &[BucketKey], day: u64) -> Result<(Vec<AuditLine>, usize)> {
        let (mut lines, mut looked) = (Vec::new(), 0);
        for bucket in of {
            let mut from = None;
            loop {
                let peek = StoreOp::peek(PeekBy::Key(day.to_string()), from, BATCH_MAX);
                let page = self.inner.apply(bucket, peek).await?;
                looked += page.events.len();
                let line = |event: &Snapshot| self.line(bucket, event);
                lines.extend(page.events.iter().filter_map(line));
                from = page.next;
                if from.is_none() || looked > LINES_MAX + 2 * LINES_OVER {
                    break;
                }
            }
        }
        Ok((lines, looked))
    }

    /// Reads all events of a namespace's lines: their number is bounded.
    async fn read_all<T>(
        &self,
        buckets: Vec<BucketKey>,
        read: impl Fn(&BucketKey, &Snapshot) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut scan = Scan::new(&self.inner, UnfinishedEvents, buckets, None);
        let (mut all, mut scanned) = (Vec::new(), 0);
        while scanned < LINES_MAX + 2 * LINES_OVER {
            let Some(ScanPage { bucket, events }) = scan.next(PAGE).await? else {
                break;
            };
            scanned += events.len();
            all.extend(events.iter().filter_map(|event| read(&bucket, event)));
        }
        Ok(all)
    }

    /// Reads a line; one that cannot be read, as a newer version has written it, is left out.
    fn line(&self, bucket: &BucketKey, event: &Snapshot) -> Option<AuditLine> {
        let event = StoredEvent::new(self.inner.clone(), bucket.clone(), event);
        let line: StoredLine = event.payload_as().ok()?;
        Some(AuditLine {
            at: event.pushed?,
            actor: line.actor,
            action: line.action,
            target: line.target,
            id: event.id,
        })
    }

    fn trail(&self, name: &str) -> Result<Queue<StoredLine>> {
        Ok(Self::from_inside(self.inner.clone())
            .queue_named(name)?
            .with_codec(Codec::Json))
    }

    /// Removes the oldest lines where there are too many, whether they can be read or not.
    async fn trim_audit(
        &self,
        queue: &Queue<StoredLine>,
        trail: &QueueName,
        most: usize,
    ) -> Result<()> {
        let stats = self.stats(trail).await?;
        if stats.scheduled <= most + LINES_OVER {
            return Ok(());
        }
        let buckets = self.inner.buckets_of(trail).await?;
        let age = |_: &BucketKey, line: &Snapshot| Some((line.body.as_ref()?.pushed, line.id));
        let mut lines = self.read_all(buckets, age).await?;
        lines.sort_unstable();
        let old = lines.len().saturating_sub(most);
        let cancelled = lines.iter().take(old).map(|(_, id)| queue.cancel(*id));
        in_order(cancelled).try_for_each(|_| async { Ok(()) }).await
    }
}
