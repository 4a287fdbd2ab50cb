//! The trait of sources that change many events at once: a store, or a server.

use duly::admin::{ErasureCursor, EventAction, EventCursor};
use duly::records::Cursor;
use duly::time::{Timestamp, When};
use duly_server::api::{ChangedEvents, ErasedEvents, ReplayedRecords};
use reqwest::Method;
use serde_json::json;

use super::error::Result;
use super::remote::Server;
use super::store::Store;
use super::view::{BulkAction, EraseStep, EventBulk, EventFilter, RecordFilter, ReplayStep};

/// A store or a server, for many events at once.
pub(crate) trait BulkSource {
    /// Returns the time of the store, which dead letters have; a server needs their queue.
    async fn store_time(&self, queue: Option<&String>) -> Result<Timestamp>;
    /// Changes about so many of the events that match and wait.
    async fn change_events(&self, filter: &EventFilter, bulk: EventBulk) -> Result<ChangedEvents>;
    /// Erases a part of what is stored of the events of a key.
    async fn erase(&self, step: EraseStep<'_>) -> Result<ErasedEvents>;
    /// Pushes the events of about so many records once more; the filter has a queue, and ends now if it
    /// does not end before.
    async fn replay(&self, filter: &RecordFilter, step: ReplayStep<'_>) -> Result<ReplayedRecords>;
}

impl BulkSource for Store {
    async fn store_time(&self, _: Option<&String>) -> Result<Timestamp> {
        Ok(self.bus().store_time())
    }

    async fn change_events(&self, filter: &EventFilter, bulk: EventBulk) -> Result<ChangedEvents> {
        let now = || self.bus().store_time().as_millis();
        let pushed_until_ms = bulk.pushed_until_ms.unwrap_or_else(now);
        let after = bulk.after.as_deref().map(str::parse::<EventCursor>);
        let action = match bulk.action {
            BulkAction::Count => None,
            BulkAction::Cancel => Some(EventAction::Cancel),
            BulkAction::RunNow => Some(EventAction::Reschedule(When::Now)),
            BulkAction::At(due) => Some(EventAction::Reschedule(When::At(due))),
        };
        let events = filter.events(self.bus()).limit(bulk.limit);
        let events = events.pushed_until(Timestamp::from_millis(pushed_until_ms));
        let page = events.after(after.transpose()?).change_page(action).await?;
        Ok(ChangedEvents {
            matched: page.matched,
            changed: page.changed,
            pushed_until_ms,
            next: page.next.map(|next| next.to_string()),
        })
    }

    async fn erase(&self, step: EraseStep<'_>) -> Result<ErasedEvents> {
        let mut erasure = self.bus().erase(step.key).by(&self.actor);
        if let Some(queue) = step.queue {
            erasure = erasure.queue(queue);
        }
        if step.cancel {
            erasure = erasure.cancel();
        }
        if step.dry_run {
            erasure = erasure.dry_run();
        }
        let after = step.after.map(str::parse::<ErasureCursor>).transpose()?;
        Ok(ErasedEvents::from(&erasure.step(after).await?))
    }

    async fn replay(&self, filter: &RecordFilter, step: ReplayStep<'_>) -> Result<ReplayedRecords> {
        let limit = u32::try_from(step.limit).unwrap_or(u32::MAX);
        let after = step.after.map(str::parse::<Cursor>).transpose()?;
        let now = self.bus().store_time();
        let until = filter.until.map_or(now, |until| until.min(now));
        let records = filter.records(self.bus()).until(until);
        let records = records.limit(limit).after(after);
        let page = records.page().await?;
        let mut replay = self.bus().replay(step.name);
        if let Some(version) = step.version {
            replay = replay.version(version);
        }
        if step.dry_run {
            replay = replay.dry_run();
        }
        let report = replay.push(&page.items).await?;
        let next = page.next.map(|next| next.to_string());
        Ok(ReplayedRecords::new(report, until.as_millis(), next))
    }
}

impl BulkSource for Server {
    async fn store_time(&self, queue: Option<&String>) -> Result<Timestamp> {
        self.in_queue(queue, "dead letters")?;
        let filter = EventFilter {
            queue: queue.cloned(),
            ..EventFilter::default()
        };
        let count = EventBulk {
            action: BulkAction::Count,
            pushed_until_ms: None,
            after: None,
            limit: 1,
        };
        let counted = self.change_events(&filter, count).await?;
        Ok(Timestamp::from_millis(counted.pushed_until_ms))
    }

    async fn change_events(&self, filter: &EventFilter, bulk: EventBulk) -> Result<ChangedEvents> {
        let (namespace, name) = self.of_queue(filter.queue.as_deref())?;
        let (action, due) = match bulk.action {
            BulkAction::Count => ("count", None),
            BulkAction::Cancel => ("cancel", None),
            BulkAction::RunNow => ("run_now", None),
            BulkAction::At(due) => ("reschedule", Some(due.as_millis())),
        };
        let body = json!({
            "action": action, "due_ms": due,
            "queue": name, "key": filter.key, "unique": filter.unique,
            "contains": filter.contains, "state": filter.state.map(|it| it.as_str()),
            "since_ms": filter.since.map(Timestamp::as_millis),
            "until_ms": filter.until.map(Timestamp::as_millis),
            "pushed_until_ms": bulk.pushed_until_ms, "after": bulk.after, "limit": bulk.limit,
        });
        let path = ["v1", namespace, "events", "change"];
        let body = Some(body.to_string());
        let response = self.http.send(Method::POST, &path, &[], body).await?;
        self.http.read(response)
    }

    async fn erase(&self, step: EraseStep<'_>) -> Result<ErasedEvents> {
        let (namespace, name) = self.of_queue(step.queue)?;
        let body = json!({
            "key": step.key, "queue": name, "cancel": step.cancel, "dry_run": step.dry_run,
            "after": step.after,
        });
        let path = ["v1", namespace, "events", "erase"];
        let body = Some(body.to_string());
        let response = self.http.send(Method::POST, &path, &[], body).await?;
        self.http.read(response)
    }

    async fn replay(&self, filter: &RecordFilter, step: ReplayStep<'_>) -> Result<ReplayedRecords> {
        let (namespace, name) = self.in_queue(filter.queue.as_ref(), "records")?;
        let body = json!({
            "name": step.name, "outcome": filter.outcome.map(|it| it.as_str()),
            "cause": filter.cause.map(|it| it.as_str()), "error": filter.error, "key": filter.key,
            "since_ms": filter.since.map(Timestamp::as_millis),
            "until_ms": filter.until.map(Timestamp::as_millis),
            "version": step.version, "dry_run": step.dry_run, "after": step.after,
            "limit": step.limit,
        });
        let path = ["v1", namespace, "queues", name, "records", "replay"];
        let body = Some(body.to_string());
        let response = self.http.send(Method::POST, &path, &[], body).await?;
        self.http.read(response)
    }
}
