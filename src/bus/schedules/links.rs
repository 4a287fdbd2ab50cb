//! The links of schedules in the store: read, written, and changed by compare-and-set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::backoff::Backoff;
use crate::bus::fan_out::as_they_come_past_slow;
use crate::bus::inner::Inner;
use crate::bus::payloads::EncodedValue;
use crate::bus::push::options::EventOptions;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::schedules::link::{Link, VERSION};
use crate::bus::schedules::occurrence_queue::is_secret;
use crate::codec::{Codec, OpenError};
use crate::core::op::{
    BATCH_MAX, ChangeOutcome, PeekBy, Rewriting, Snapshot, Stats, StoreOp, Unique,
};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId, QueueName, State};
use crate::panics;
use crate::time::{Timestamp, When};

/// The pauses before a link that is leased, or that another change came before, is looked at again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(250));
/// How often that is done, for about a minute: longer than a bus that died keeps its lease.
const TRIES_MAX: u32 = 240;
/// When a schedule is looked at whose change was begun.
const SOON: Duration = Duration::from_secs(2);
/// How often a link is read anew whose body was gone, for about two seconds: it is damaged then.
const READS_MAX: u32 = 16;
/// When a schedule is looked at that rests: a link is due some time.
const REST: Duration = Duration::from_secs(7 * 86_400);

/// A list of a bucket that more than one read was needed for is read again so often at most, until
/// it shows no other schedule.
const LISTS_MAX: u32 = 8;

/// The links of all schedules of a namespace.
pub(super) struct Links {
    queue: QueueHandle,
}

/// A link as it was read.
pub(super) struct StoredLink {
    pub(super) link: Link,
    pub(super) id: EventId,
    pub(super) state: State,
    /// Whether no earlier link of the schedule is left, whose ack is still to come.
    pub(super) is_alone: bool,
    /// Whether the payload of its occurrences is in it.
    pub(super) is_whole: bool,
    /// Of its payload.
    fingerprint: u64,
}

impl StoredLink {
    /// The newer one of two links of a schedule.
    fn or_newer(self, other: Self) -> Self {
        let newer = if self.link.number < other.link.number {
            other
        } else {
            self
        };
        Self {
            is_alone: false,
            ..newer
        }
    }
}

/// What a look for the link of a schedule has found.
enum Lookup {
    Done(Option<Box<StoredLink>>),
    /// It was changed meanwhile.
    Changing,
}

impl Links {
    /// The links beside those of the schedule `name`.
    pub(super) fn of(inner: &Arc<Inner>, name: &str) -> Result<Self> {
        Ok(Self::of_queue(inner, Link::home(name)?.queue))
    }

    fn of_queue(inner: &Arc<Inner>, queue: QueueName) -> Self {
        Self {
            queue: QueueHandle::new(Arc::clone(inner), queue),
        }
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.queue.inner
    }

    /// The queue, for a link: it is encrypted if the occurrences of its schedule are.
    fn queue_of(&self, link: &Link) -> QueueHandle {
        let mut queue = self.queue.clone();
        if is_secret(self.inner(), link) {
            Arc::make_mut(&mut queue.options).encrypt = true;
        }
        queue
    }

    fn encoded(link: &Link) -> Result<EncodedValue> {
        let bytes = serde_json::to_vec(link)
            .map_err(|error| Error::invalid("the schedule cannot be written").because(error))?;
        Ok(EncodedValue {
            codec: Codec::Json,
            bytes,
        })
    }

    /// Pushes a link, due when its schedule is to be looked at. Returns whether it was new. `keeps`:
    /// unless there is a schedule of the name.
    pub(super) async fn push(
        &self,
        link: &Link,
        look_at: Option<Timestamp>,
        keeps: Unique,
    ) -> Result<bool> {
        let home = Link::home(&link.name)?;
        let now = self.inner().now();
        let options = EventOptions {
            when: Some(When::At(look_at.unwrap_or(now + REST).min(now + REST))),
            key: Some(link.name.clone()),
            unique: Some((link.name.clone(), keeps)),
            attempts: Some(u16::MAX),
            ..EventOptions::default()
        };
        let place = (link.id(&home), home.bucket);
        let queue = self.queue_of(link);
        queue
            .push_placed(place, Self::encoded(link)?, options)
            .await
    }

    /// Reads a link of a page of events; `None` for one that is of a newer version, damaged, or not
    /// of this namespace.
    fn read(&self, event: &Snapshot) -> Option<StoredLink> {
        let body = event.body.as_deref()?;
        let value = self
            .inner()
            .value(event.id, &self.queue.name, &body.payload);
        let link: Link = value.ok()?;
        let is_here = Link::home(&link.name).is_ok_and(|home| home.queue == self.queue.name);
        (link.version <= VERSION && is_here).then(|| StoredLink {
            link,
            id: event.id,
            state: event.state,
            is_alone: true,
            is_whole: true,
            fingerprint: body.fingerprint(),
        })
    }

    /// Returns the newest link of a schedule.
    pub(super) async fn find(&self, name: &str) -> Result<Option<StoredLink>> {
        for tries in 1..=READS_MAX {
            match self.look_up(name).await? {
                Lookup::Done(found) => return Ok(found.map(|found| *found)),
                Lookup::Changing => tokio::time::sleep(PAUSES.jittered(tries)).await,
            }
        }
        Err(self.unreadable(name))
    }

    async fn look_up(&self, name: &str) -> Result<Lookup> {
        let home = Link::home(name)?;
        let mut newest: Option<StoredLink> = None;
        let mut from = None;
        loop {
            let peek = StoreOp::peek(PeekBy::Key(name.to_owned()), from, 100);
            let page = self.inner().apply(&home, peek).await?;
            for event in page
                .events
                .iter()
                .filter(|event| event.state != State::Dead)
            {
                // A file reads the body after the event, which another bus may have changed or ended
                // in between.
                if event.body.is_none() {
                    return Ok(Lookup::Changing);
                }
                let Some(found) = self.read(event) else {
                    return Err(self.unreadable(name));
                };
                newest = Some(match newest {
                    Some(other) => other.or_newer(found),
                    None => found,
                });
            }
            from = page.next;
            if from.is_none() {
                return Ok(Lookup::Done(newest.map(Box::new)));
            }
        }
    }

    /// Changes a schedule by compare-and-set, and has it looked at now; `edit` returns whether there
    /// is anything to change. Returns the link as it then is; `None`: there is no such schedule.
    ///
    /// A link that a bus works on is not changed: what it makes of it is waited for.
    pub(super) async fn change(
        &self,
        name: &str,
        edit: impl Fn(&mut Link) -> Result<bool> + Send,
    ) -> Result<Option<Link>> {
        for tries in 1..=TRIES_MAX {
            let Some(mut found) = self.find(name).await? else {
                return Ok(None);
            };
            let before = found.link.change;
            if !edit(&mut found.link)? {
                return Ok(Some(found.link));
            }
            let is_change = found.link.change != before;
            if is_change && found.state != State::Leased {
                // Before the change: it is carried out soon, even if its maker dies right after it.
                self.look_at(&found, When::After(SOON)).await?;
            }
            if found.state != State::Leased && self.rewrite(&found).await? {
                // The change is made, and carried out soon in any case.
                if is_change && let Err(error) = self.look_at(&found, When::Now).await {
                    panics::reported(|| {
                        tracing::warn!(
                            schedule = %name, %error,
                            "failed to have a changed schedule looked at now"
                        );
                    });
                }
                return Ok(Some(found.link));
            }
            tokio::time::sleep(PAUSES.jittered(tries)).await;
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "schedule {name} was not changed: a bus that works on it does not end; see the \
                 event of the queue {} with the key {name}",
                self.queue.name
            ),
        ))
    }

    /// Has the schedule of a link looked at then. A link that a bus works on is looked at anyway.
    async fn look_at(&self, found: &StoredLink, when: When) -> Result<()> {
        let home = Link::home(&found.link.name)?;
        let look = StoreOp::reschedule(found.id, when);
        let _: ChangeOutcome = self.inner().apply(&home, look).await?;
        Ok(())
    }

    async fn rewrite(&self, found: &StoredLink) -> Result<bool> {
        let queue = self.queue_of(&found.link);
        let rewriting = Rewriting {
            id: found.id,
            was: found.fingerprint,
            payload: queue.stored(found.id, Self::encoded(&found.link)?, None)?,
        };
        let home = Link::home(&found.link.name)?;
        let rewritten = StoreOp::rewrite(vec![rewriting]);
        Ok(self.inner().apply(&home, rewritten).await? == 1)
    }

    /// Fails if there are as many schedules of the namespace as there may be.
    pub(super) async fn check_room(&self) -> Result<()> {
        let (inner, queue) = (self.inner(), &self.queue.name);
        let known = inner.open()?.buckets_of(queue).await?;
        let count = count(inner, &known.buckets).await?;
        let most = inner.schedules_max;
        if count < most {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Full,
            format!(
                "the queue {queue} has {count} schedules, and at most {most} are allowed in a \
                 namespace; remove one first, or raise `schedules_max`"
            ),
        ))
    }

    /// Reads the newest link of each schedule of a bucket, in the order of the names; without payloads
    /// of occurrences that are larger than `payload_max`.
    ///
    /// A link that a bus replaces is replaced by one with another id, which a list of many reads has
    /// perhaps gone past. One read sees all of a moment; of many, the list is read again.
    pub(super) async fn read_all(
        inner: &Arc<Inner>,
        bucket: &BucketKey,
        payload_max: usize,
    ) -> Result<impl Iterator<Item = StoredLink>> {
        let links = Self::of_queue(inner, bucket.queue.clone());
        let mut newest: BTreeMap<String, StoredLink> = BTreeMap::new();
        for _ in 0..LISTS_MAX {
            let known = newest.len();
            let (mut from, mut is_whole) = (None, true);
            loop {
                let peek = StoreOp::peek(PeekBy::All, from, BATCH_MAX);
                let page = inner.apply(bucket, peek).await?;
                for event in &page.events {
                    is_whole &= event.body.is_some();
                    let Some(mut found) = links.read(event) else {
                        continue;
                    };
                    found.is_whole = !found.link.leave_payload_out(payload_max);
                    let is_newer = |it: &StoredLink| it.link.number < found.link.number;
                    if newest.get(&found.link.name).is_none_or(is_newer) {
                        newest.insert(found.link.name.clone(), found);
                    }
                }
                from = page.next;
                if from.is_none() {
                    break;
                }
                is_whole = false;
            }
            if is_whole || newest.len() == known {
                break;
            }
        }
        Ok(newest.into_values())
    }

    fn unreadable(&self, name: &str) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!(
                "schedule {name} cannot be read in this process: it is encrypted under another \
                 key, was written by a newer version of duly, or is damaged; it is the event of \
                 the queue {} with the key {name}",
                self.queue.name
            ),
        )
    }
}

/// Returns whether an event of a queue of schedules is the link of one whose payload is as secret as
/// `queue`: it pushes into it, or is encrypted and cannot be read here.
pub(in crate::bus) fn pushes_into(inner: &Inner, event: &Snapshot, queue: &QueueName) -> bool {
    let Some(body) = &event.body else {
        return false;
    };
    match inner.keys.open(body.id, &body.queue, &body.payload) {
        Ok(opened) => opened.decode::<Link>().is_ok_and(|link| {
            let former = link.former.iter();
            let mut options = former.chain([&link.options]);
            options.any(|options| options.queue() == queue)
        }),
        Err(why) => !matches!(why, OpenError::Malformed(_)),
    }
}

/// Returns how many schedules there are in some buckets.
pub(super) async fn count(inner: &Arc<Inner>, buckets: &[BucketKey]) -> Result<usize> {
    let stats = { buckets.iter() }.map(|bucket| inner.apply(bucket, StoreOp::stats()));
    let add = async |sum: usize, of: Stats| Ok(sum + of.scheduled + of.ready + of.leased);
    as_they_come_past_slow(stats).try_fold(0, add).await
}
