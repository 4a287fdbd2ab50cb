//! Checks for damage: of a bucket, structure by structure, in bounded steps, and the audit, which
//! looks at the same in one step.

use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

use crate::core::op::{PeekBy, Reply, StoreOp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId};
use crate::store::damage::{CheckTask, Damage, DamageKind};
use crate::store::durability::Durability;
use crate::store::redis::RedisStore;
use crate::store::redis::hub::registry;
use crate::store::redis::op::check::CheckReply;
use crate::store::redis::op::in_parts::part;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::op::{self, page};
use crate::store::redis::script::reader::{ReplyReader, id_of};

/// About how many events or entries a step looks at: some milliseconds.
const STEP: usize = 200;

/// How many entries the first step of a structure looks at, since one may have many events.
const FIRST: usize = 3;

/// About how many entries of the ready list are read in one step, which only copies them.
const LISTED: usize = 2_000;

/// How many ready events are compared with the ready list at a time, which is read for each lot.
const LOT: usize = 200_000;

/// The most entries of a bucket whose counts are checked, since that takes one step.
const COUNTED_MAX: usize = 5_000;

/// The limit of entries that an audit reads in one step: some milliseconds. An event, alone or in a
/// page, has one to four and one more for each KiB of the longest body, a tombstone one.
const AUDITED_MAX: usize = 2_000;

/// The most violations that an audit lists of a bucket.
const VIOLATIONS_MAX: usize = 100;

/// A clock that is off by more than this is reported, us.
const SKEW_US: u64 = 1_000_000;

/// The structures that are walked by a cursor, after the states: unique keys before bodies, so that
/// what holds another's is removed before what holds none gets its own.
const WALKED: [&str; 12] = [
    "unique", "body", "delay", "sizes", "dead", "lease", "holds", "by_key", "expiry", "held",
    "requests", "nodes",
];

impl RedisStore {
    /// Checks every bucket: each event is in exactly one place, and every counter is right. Returns
    /// the violations, as texts, at most 100 of each bucket; an empty list means none.
    ///
    /// A bucket is checked in one step, which blocks its server; so one with more than some hundred
    /// events, or with large ones, is only listed: see [`audit_whole`](Self::audit_whole).
    ///
    /// # Errors
    /// When the servers cannot be reached.
    pub async fn audit(&self) -> Result<Vec<String>> {
        self.audit_buckets(AUDITED_MAX).await
    }

    /// Checks buckets of any size, in a store that is at rest: each blocks its server, for some
    /// seconds with a million events.
    ///
    /// # Errors
    ///
    /// When the servers cannot be reached.
    pub async fn audit_whole(&self) -> Result<Vec<String>> {
        self.audit_buckets(usize::MAX).await
    }

    async fn audit_buckets(&self, entries_max: usize) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for bucket in registry::read(&self.shared.registry).await? {
            let mut check = Check::new(&self.shared, bucket, CheckTask::new(false));
            check.step("whole", b"0", entries_max, &[]).await?;
            let violations = check.found.iter().take(VIOLATIONS_MAX);
            wrong.extend(violations.map(Damage::to_string));
        }
        Ok(wrong)
    }
}

/// Checks a bucket.
pub(super) async fn check(
    shared: &Arc<Shared>,
    bucket: BucketKey,
    task: CheckTask,
) -> Result<Vec<Damage>> {
    let mut check = Check::new(shared, bucket, task);
    let whole = check.whole().await;
    let is_begun = check.found.iter().any(|damage| damage.repaired);
    part(ready(whole), is_begun).await?;
    Ok(check.found)
}

/// Reports what the settings of the servers take away from what the store promises.
pub(super) fn settings(store: &RedisStore) -> Vec<Damage> {
    let mut found = Vec::new();
    if store.found.durability == Durability::Memory {
        found.push(Damage::new(
            DamageKind::Settings,
            "a server keeps no append-only file: its events are lost with its process; \
             set `appendonly yes`",
        ));
    }
    if store.found.offset_us.unsigned_abs() > SKEW_US {
        found.push(Damage::new(
            DamageKind::Settings,
            format!(
                "the clock of a server is {} ms from this machine's: events are on time by the \
                 server's; let both follow the same time server",
                store.found.offset_us / 1_000
            ),
        ));
    }
    found
}

/// Whether an error says what is in a key, and not how the server does.
fn is_of_data(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Corrupt => true,
        // From within a script, which writes nothing here.
        ErrorKind::Unknown => error.to_string().contains("a script failed while it ran"),
        _ => false,
    }
}

struct Check<'a> {
    shared: &'a Arc<Shared>,
    bucket: BucketKey,
    task: CheckTask,
    found: Vec<Damage>,
    /// Events that were reported to have no body, or one that cannot be decoded.
    bodiless: HashSet<EventId>,
    /// Whether a silent node was found.
    is_silent: bool,
}

/// What a step returns beside the damage.
struct Step {
    cursor: Vec<u8>,
    looked: u64,
    listed: Vec<Vec<u8>>,
}

impl Step {
    fn is_last(&self) -> bool {
        self.cursor == b"0"
    }

    /// How many entries the next step looks at, after this one with `most`.
    fn next_most(&self, most: usize) -> usize {
        let looked = usize::try_from(self.looked).unwrap_or(usize::MAX);
        let next = most * STEP / looked.max(1);
        next.clamp(1, 4 * most).min(STEP)
    }
}

impl<'a> Check<'a> {
    /// Checks all of it.
    async fn whole(&mut self) -> Result<()> {
        let states = self.states().await;
        self.or_damage("state", states)?;
        for structure in WALKED {
            let walked = self.walk(structure).await;
            self.or_damage(structure, walked)?;
        }
        if self.task.repairs {
            self.reap().await?;
        }
        let counted = self.step("counts", b"0", COUNTED_MAX, &[]).await;
        self.or_damage("counts", counted)?;
        let bodies = self.bodies().await;
        self.or_damage("body", bodies)
    }

    fn new(shared: &'a Arc<Shared>, bucket: BucketKey, task: CheckTask) -> Self {
        Self {
            shared,
            bucket,
            task,
            found: Vec::new(),
            bodiless: HashSet::new(),
            is_silent: false,
        }
    }

    /// What cannot be read is damage, and the check goes on; any other error ends it.
    fn or_damage<T>(&mut self, structure: &str, done: Result<T>) -> Result<()> {
        match done {
            Ok(_) => Ok(()),
            Err(error) if is_of_data(&error) => {
                let why = format!(" cannot be read: {error}");
                // Where it is what every step reads, it is told once.
                if !self.found.iter().any(|damage| damage.words.ends_with(&why)) {
                    self.found.push(Damage {
                        bucket: Some(self.bucket.clone()),
                        ..Damage::new(DamageKind::Unreadable, format!("{structure}{why}"))
                    });
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn walk(&mut self, structure: &str) -> Result<()> {
        let (mut cursor, mut most) = (b"0".to_vec(), FIRST);
        loop {
            let step = self.step(structure, &cursor, most, &[]).await?;
            if step.is_last() {
                return Ok(());
            }
            most = step.next_most(most);
            cursor = step.cursor;
        }
    }

    /// Decodes the body of each event, which only a program can: their checksums are in them.
    async fn bodies(&mut self) -> Result<()> {
        let mut from = None;
        loop {
            let peek = StoreOp::Peek {
                by: PeekBy::All,
                from,
                limit: STEP,
            };
            let reply = op::operate(self.shared, &self.bucket, &peek).await?;
            let Reply::Peeked(page) = reply.reply else {
                return Ok(());
            };
            for event in &page.events {
                let is_lost = event.body.is_none() && !event.state.is_final();
                if is_lost && self.bodiless.insert(event.id) {
                    let damage = Damage {
                        bucket: Some(self.bucket.clone()),
                        id: Some(event.id),
                        ..Damage::new(
                            DamageKind::Unreadable,
                            "has a body that cannot be decoded: bytes of it are damaged or gone",
                        )
                    };
                    self.task.list(&mut self.found, damage);
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// Walks the states. Ready events are compared with the ready list: one that was ready before
    /// the list was read, is ready after, at the same place, and was not in the list, is misplaced.
    async fn states(&mut self) -> Result<()> {
        let (mut cursor, mut most) = (b"0".to_vec(), FIRST);
        loop {
            let mut lot = HashSet::new();
            let is_last = loop {
                let step = self.step("state", &cursor, most, &[]).await?;
                most = step.next_most(most);
                lot.extend(step.listed.iter().cloned());
                if step.is_last() || lot.len() >= LOT {
                    let is_last = step.is_last();
                    cursor = step.cursor;
                    break is_last;
                }
                cursor = step.cursor;
            };
            self.compare(lot).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Compares a lot of ready events and parts of pages with the ready list. What leaves the end of
    /// the list while it is read, from there on, moves others past the step that would have them; the
    /// second reading has those.
    async fn compare(&mut self, mut lot: HashSet<Vec<u8>>) -> Result<()> {
        for _ in 0..2 {
            self.remove_listed(&mut lot).await?;
        }
        let missing: Vec<_> = lot.into_iter().collect();
        for some in missing.chunks(STEP) {
            self.step("again", b"0", STEP, some).await?;
        }
        Ok(())
    }

    /// Reads the ready list, and removes what is in it from a lot.
    async fn remove_listed(&mut self, lot: &mut HashSet<Vec<u8>>) -> Result<()> {
        let mut cursor = b"0".to_vec();
        while !lot.is_empty() {
            let step = self.step("ready", &cursor, LISTED, &[]).await?;
            for entry in &step.listed {
                lot.remove(entry);
                // Events that have left their page keep the place of their part.
                for event in page::entries_in(entry) {
                    lot.remove(&event);
                }
            }
            if step.is_last() {
                break;
            }
            cursor = step.cursor;
        }
        Ok(())
    }

    async fn step(
        &mut self,
        structure: &str,
        cursor: &[u8],
        most: usize,
        again: &[Vec<u8>],
    ) -> Result<Step> {
        let place = (structure, cursor, most);
        let terms = self.shared.terms(&self.bucket);
        let call = op::check::call(&terms, place, self.task.repairs, again);
        let mut parts = self
            .shared
            .call(&self.bucket, &self.shared.links.work, &call)
            .await?;
        let reply = CheckReply::read(&mut parts)?;
        self.shared.learn(&terms, reply.now);
        self.task.add_looked(reply.looked);
        self.read_damage(reply.damage)?;
        let (cursor, looked, mut entries) = (reply.cursor, reply.looked, reply.listed);
        let mut listed = Vec::with_capacity(entries.len());
        while !entries.is_empty() {
            listed.push(entries.bytes()?);
        }
        Ok(Step {
            cursor,
            looked,
            listed,
        })
    }

    fn read_damage(&mut self, mut parts: ReplyReader) -> Result<()> {
        while !parts.is_empty() {
            let (kind, id, words) = (parts.bytes()?, parts.bytes()?, parts.bytes()?);
            let kind = DamageKind::ALL
                .into_iter()
                .find(|known| known.as_str().as_bytes() == kind)
                .unwrap_or(DamageKind::Stray);
            let damage = Damage {
                kind,
                bucket: Some(self.bucket.clone()),
                id: id_of(&id),
                words: String::from_utf8_lossy(&words).into_owned(),
                found: None,
                repaired: self.task.repairs && kind.is_repairable(),
            };
            self.is_silent |= kind == DamageKind::SilentNode;
            if matches!(kind, DamageKind::NoBody | DamageKind::Unreadable) {
                self.bodiless.extend(damage.id);
            }
            self.task.list(&mut self.found, damage);
        }
        Ok(())
    }

    /// Takes back the leases of nodes that the walk has found silent.
    async fn reap(&mut self) -> Result<()> {
        let mut more = self.is_silent;
        while more {
            let reap = StoreOp::Reap {
                silent: Vec::new(),
                limit: STEP,
            };
            let reply = op::operate(self.shared, &self.bucket, &reap).await?;
            more = matches!(reply.reply, Reply::Reaped(reaped) if reaped.more);
        }
        Ok(())
    }
}
