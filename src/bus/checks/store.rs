//! The check of a store for damage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::bus::handle::Bus;
use crate::bus::inner::Inner;
use crate::bus::program_audit::ActionLine;
use crate::bus::state::program_actions::{AuditedBy, ProgramAction};
use crate::error::{Error, Result};
use crate::event::{BucketKey, QueueName, is_audit};
use crate::panics;
use crate::store::{CheckTask, Damage, DamageKind, clock_ahead_us, differs};
use crate::time::Timestamp;

/// The most damage that a report lists, beside the first of each kind; all of it is counted.
const LISTED: usize = 1_000;

/// A check of a store for damage.
#[derive(Clone)]
#[must_use = "nothing is looked at before `run`"]
pub struct StoreCheck {
    inner: Arc<Inner>,
    audited_by: AuditedBy,
    queues: Vec<String>,
    task: CheckTask,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the damage is in it"]
pub struct StoreReport {
    /// How many entries were looked at.
    pub looked: u64,
    /// How many buckets were checked, without those of the audit, which are checked as well.
    pub buckets: u64,
    /// How much damage of each kind there is.
    pub counts: BTreeMap<DamageKind, u64>,
    /// How much of it was repaired.
    pub repaired: u64,
    /// How much of it was found [before](StoreCheck::since) a time.
    pub old: u64,
    /// The first thousand of it, and the first of each kind.
    pub damage: Vec<Damage>,
}

impl StoreReport {
    /// Returns whether nothing was found.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns how much damage is left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.counts.values().sum::<u64>() - self.repaired
    }

    /// Adds what a check by this task has found.
    fn add(&mut self, found: Vec<Damage>, task: &CheckTask) {
        for damage in found {
            let is_old = task.is_old(&damage);
            if damage.repaired {
                panics::reported(|| {
                    tracing::warn!(%damage, kind = %damage.kind, "damage repaired");
                });
            }
            self.count((damage.kind, damage.repaired, is_old), 1);
            if self.damage.len() < LISTED || self.counts.get(&damage.kind) == Some(&1) {
                self.damage.push(damage);
            }
        }
        for (of, count) in task.take_unlisted() {
            if of.is_repaired && count > 0 {
                let kind = of.kind;
                panics::reported(|| tracing::warn!(%kind, count, "more damage repaired"));
            }
            self.count((of.kind, of.is_repaired, of.is_old), count);
        }
    }

    fn count(&mut self, (kind, is_repaired, is_old): (DamageKind, bool, bool), count: u64) {
        *self.counts.entry(kind).or_default() += count;
        self.repaired += if is_repaired { count } else { 0 };
        self.old += if is_old { count } else { 0 };
    }
}

impl Bus {
    /// Checks the store for damage: events without a body or a place, leases of nobody, entries
    /// that lead to nothing, counts that do not add up, damaged files, and settings of servers that
    /// weaken what the store promises. [`DamageKind`] lists all of it.
    ///
    /// It changes nothing unless told to [repair](StoreCheck::repair). A healthy store has no
    /// damage at any instant, so it may be checked while it is used; each step blocks a bucket for
    /// some milliseconds at most. On Redis, events that have ended are looked at one by one, but
    /// not whether each will be forgotten.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let report = bus.check_store().run().await?;
    /// assert!(report.is_healthy());
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn check_store(&self) -> StoreCheck {
        StoreCheck {
            inner: Arc::clone(&self.inner),
            audited_by: self.audited_by,
            queues: Vec::new(),
            task: CheckTask::default(),
        }
    }
}

impl fmt::Debug for StoreCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreCheck")
            .field("queues", &self.queues)
            .field("task", &self.task)
            .finish_non_exhaustive()
    }
}

impl StoreCheck {
    /// Checks only this queue, and nothing of the store as a whole; repeat for several. Default:
    /// all.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push(name.into());
        self
    }

    /// Repairs what it finds, each in the step that finds it. Default: it only reports.
    ///
    /// No payload that is there is lost by it: what has a body is put back or kept. The remedy of
    /// each kind is [`DamageKind::remedy`]; every repair is logged.
    pub fn repair(mut self) -> Self {
        self.task.repairs = true;
        self
    }

    /// Counts what was found before this time as [old](StoreReport::old): events that were set aside
    /// stay in the report for as long as their bytes are kept. Default: none is old.
    pub fn since(mut self, since: impl Into<Timestamp>) -> Self {
        self.task.since = Some(since.into());
        self
    }

    /// Returns the task, whose [`looked`](CheckTask::looked) shows the progress while the check
    /// runs.
    #[must_use]
    pub fn task(&self) -> CheckTask {
        self.task.clone()
    }

    /// Runs the check, bucket by bucket. If this future is dropped while it repairs, the bucket that it
    /// is at is repaired.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid name or one that the store
    /// does not know, and for a store that cannot be checked; or the store's error.
    pub async fn run(self) -> Result<StoreReport> {
        let names = self.queues.iter().map(|name| QueueName::new(name));
        let named: BTreeSet<QueueName> = names.collect::<Result<_>>()?;
        let store = self.inner.open()?;
        let mut report = StoreReport::default();
        let queues: Vec<_> = named.iter().map(|queue| queue.as_str()).collect();
        let target = match queues.join(" ") {
            none if none.is_empty() => "every queue".to_owned(),
            queues => queues,
        };
        let action = ProgramAction::new("store repaired", target);
        let line = ActionLine::new(&self.inner, self.audited_by, action);
        if named.is_empty() {
            report.add(self.look_at(None, &line).await?, &self.task);
            report.add(clock_damage(&self.inner).into_iter().collect(), &self.task);
        }
        let mut buckets = store.buckets().await?;
        let known: BTreeSet<_> = buckets.iter().map(|bucket| bucket.queue.clone()).collect();
        if let Some(unknown) = named.difference(&known).next() {
            return Err(Error::invalid(format!("the store has no queue {unknown}")));
        }
        if !named.is_empty() {
            buckets.retain(|bucket| named.contains(&bucket.queue));
        }
        for bucket in &buckets {
            report.buckets += u64::from(!is_audit(&bucket.queue));
            report.add(self.look_at(Some(bucket), &line).await?, &self.task);
        }
        report.looked = self.task.looked();
        Ok(report)
    }

    /// Looks at a bucket, or at the store as a whole.
    async fn look_at(
        &self,
        bucket: Option<&BucketKey>,
        line: &Arc<ActionLine>,
    ) -> Result<Vec<Damage>> {
        let (store, task) = (self.inner.open()?, self.task.clone());
        let found = match bucket {
            Some(bucket) => store.check_bucket(bucket, task),
            None => store.check_store(task),
        };
        if !self.task.repairs {
            return found.await;
        }
        let is_repaired = |found: &Vec<Damage>| found.iter().any(|damage| damage.repaired);
        line.step(found, is_repaired).await
    }
}

/// Reports a store's time that differs from the clock of this machine.
fn clock_damage(inner: &Inner) -> Option<Damage> {
    let ahead_us = clock_ahead_us(&*inner.store, &*inner.clock);
    differs(ahead_us).then(|| {
        let direction = if ahead_us > 0 { "ahead of" } else { "behind" };
        let seconds = ahead_us.unsigned_abs() / 1_000_000;
        Damage::new(
            DamageKind::Settings,
            format!(
                "the store's time is {seconds} s {direction} the clock of this machine: events are \
                 due by the store's"
            ),
        )
    })
}
