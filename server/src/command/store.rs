//! A store as the source of a command.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::admin::{AuditCursor, AuditFilter, EventListCursor, StoredEvent};
use duly::codec::Codec;
use duly::config::Settings;
use duly::dead_letters::DeadLetterCursor;
use duly::event::{Payload, State};
use duly::journal::RecordChoices;
use duly::records::Cursor;
use duly::time::Timestamp;
use duly::{Bus, CancelOutcome, ChangeOutcome, EventId, Queue, QueueName};
use duly_server::api::{self, AuditView, Explanation, ForecastStep, NodeView};
use duly_server::overview::{self, EndedCounter};
use duly_server::purge::{self, PurgeCursor};
use serde_json::value::RawValue;

use super::empty;
use super::error::{CommandError, Failure, Result, no_event, no_queue};
use super::source::Source;
use super::view::{
    DeadAction, DeadFilter, DeadView, EventChange, EventFilter, EventListView, EventPath,
    EventView, OverviewView, PageView, QueueChange, QueueView, RecordFilter, RecordView,
};

/// How long the store may take to end what is under way.
const GRACE: Duration = Duration::from_secs(5);

/// A store, and who works on it.
#[derive(Debug)]
pub(crate) struct Store {
    bus: Bus,
    ended: EndedCounter,
    pub(super) actor: String,
}

impl Store {
    /// Opens the store of a URL; one in a file must exist, so that a wrong name is an error and no
    /// new file.
    pub(crate) async fn open(url: &str, mut settings: Settings) -> Result<Self> {
        if let Some(file) = url.strip_prefix("sqlite:") {
            let file = file.strip_prefix("//").unwrap_or(file);
            let file = file.split('?').next().unwrap_or(file);
            if !Path::new(file).exists() {
                return Err(CommandError::not_found(format!(
                    "there is no store {url}; name an existing one by --store, or a server by \
                     --server"
                )));
            }
        }
        let journal = settings.records.journal.as_deref();
        if is_of_one_file(url) || journal.is_some_and(is_of_one_file) {
            keep_all(&mut settings.records);
        }
        let builder = Bus::builder().settings(settings).store_url(url);
        let bus = builder.only_registered().dynamic_queues();
        let bus = bus.publish_only().start().await?.with_own_audit();
        empty::note(url, &bus).await;
        let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
        let user = user.filter(|user| user.len() <= duly::records::BY_BYTES_MAX);
        let actor = user.unwrap_or_else(|| "duly".to_owned());
        Ok(Self {
            bus,
            ended: EndedCounter::default(),
            actor,
        })
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.bus
    }

    fn payload(&self, id: EventId, queue: &QueueName, payload: &Payload) -> Option<String> {
        let opened = self.bus.keys().open(id, queue, payload).ok()?;
        Some(STANDARD.encode(&opened.value))
    }

    async fn found(&self, EventPath { id, queue }: EventPath<'_>) -> Result<StoredEvent> {
        let found = match queue {
            None => self.bus.event(id).await?,
            Some(queue) => self.bus.event_in(queue, id).await?,
        };
        // A queue still knows what is over.
        let found = found.filter(|event| !event.state.is_final());
        found.ok_or_else(|| no_event(id))
    }

    async fn check_known(&self, queue: &str) -> Result<QueueName> {
        let name = QueueName::new(queue)?;
        match self.bus.queues().await?.contains(&name) {
            true => Ok(name),
            // A setting may be made before the first push.
            false if self.bus.controls().await?.contains_key(&name) => Ok(name),
            false => Err(no_queue(&name)),
        }
    }
}

impl Source for Store {
    async fn queue(&self, queue: &str) -> Result<QueueView> {
        let name = self.check_known(queue).await?;
        let stats = self.bus.stats(&name).await?;
        let control = self.bus.controls().await?.remove(&name);
        Ok(QueueView {
            queue: name.to_string(),
            view: api::QueueView::new(true, stats, &control.unwrap_or_default()),
            ended: None,
            uncounted: None,
        })
    }

    async fn overview(&self, limit: usize) -> Result<OverviewView> {
        let (mut queues, mut after) = (Vec::new(), None);
        let mut has_more = true;
        while has_more && queues.len() < limit {
            let left = limit - queues.len();
            let page = overview::page(&self.bus, &self.ended, |_| true, after.as_ref(), left);
            let page = page.await?;
            let items = page.items.iter();
            queues.extend(items.map(|it| QueueView::new(it.queue.to_string(), it)));
            after = page.next;
            has_more = after.is_some();
        }
        Ok(OverviewView {
            queues,
            has_more,
            nodes: self.bus.nodes().await?.len(),
            now_ms: self.bus.store_time().as_millis(),
        })
    }

    async fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()> {
        // What may be out of bounds first: then nothing is changed. Each has its line before the next,
        // which may fail.
        if let Some(rate) = change.rate {
            self.bus.set_rate(queue, rate).await?;
            self.audit_done("rate of queue set", queue).await;
        }
        if let Some(buckets) = change.buckets {
            self.bus.set_buckets(queue, buckets).await?;
            self.audit_done("buckets of queue set", queue).await;
        }
        if let Some(workers) = change.workers {
            self.bus.set_workers_everywhere(queue, workers).await?;
            self.audit_done("workers of queue set", queue).await;
        }
        match change.paused {
            Some(true) => {
                self.bus.pause(queue).await?;
                self.audit_done("queue paused", queue).await;
            }
            Some(false) => {
                self.bus.resume(queue).await?;
                self.audit_done("queue resumed", queue).await;
            }
            None => {}
        }
        Ok(())
    }

    async fn purge(
        &self,
        queue: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(u64, Option<String>)> {
        let name = self.check_known(queue).await?;
        let after = after.map(str::parse::<PurgeCursor>);
        let after = after.transpose().map_err(CommandError::usage)?;
        let step = purge::step(&self.bus, &name, after, limit).await?;
        Ok((step.cancelled, step.next.map(|next| next.to_string())))
    }

    async fn forecast(
        &self,
        queue: &str,
        horizon: Duration,
        step: Duration,
    ) -> Result<Vec<ForecastStep>> {
        let name = self.check_known(queue).await?;
        let steps = self.bus.forecast(&name, horizon, step).await?;
        Ok(steps.iter().map(ForecastStep::from).collect())
    }

    async fn events(
        &self,
        filter: &EventFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<EventListView> {
        let events = filter.events(&self.bus).limit(limit);
        let after = after.map(str::parse::<EventListCursor>).transpose()?;
        let list = events.list(after).await?;
        let items = list.items.iter();
        Ok(EventListView {
            items: items
                .map(|it| api::ListedEvent::new(&it.queue, it))
                .collect(),
            scanned: list.scanned,
            partial: list.is_partial,
            next: list.next.map(|next| next.to_string()),
        })
    }

    async fn event(&self, path: EventPath<'_>) -> Result<EventView> {
        let event = self.found(path).await?;
        let payload = event.payload.as_ref();
        let view = api::EventView {
            id: event.id.to_string(),
            state: event.state.as_str().to_owned(),
            due_ms: event.due.as_millis(),
            attempts_left: event.tries_max.map(|most| most.saturating_sub(event.tries)),
            expires_ms: event.expires.map(Timestamp::as_millis),
            key: event.key.clone(),
            headers: event.headers.iter().cloned().collect(),
            payload_base64: payload.and_then(|it| self.payload(event.id, &event.queue, it)),
        };
        Ok(EventView::new(&*event.queue, view))
    }

    async fn explain(&self, path: EventPath<'_>) -> Result<Explanation> {
        let explained = match path.queue {
            None => self.bus.explain(path.id).await?,
            Some(queue) => self.bus.explain_in(queue, path.id).await?,
        };
        if explained.queue.is_none() {
            return Err(no_event(path.id));
        }
        Ok(Explanation::from(&explained))
    }

    async fn cancel(&self, path: EventPath<'_>) -> Result<()> {
        let event = self.found(path).await?;
        check_meant(&event.queue)?;
        match event.cancel().await? {
            CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt => Ok(()),
            CancelOutcome::TooLate(state) => Err(too_late(path.id, state)),
            _ => Err(no_event(path.id)),
        }
    }

    async fn change(&self, path: EventPath<'_>, change: EventChange) -> Result<u64> {
        // What is over is found in its queue alone.
        let queue = match path.queue {
            Some(queue) => QueueName::new(queue)?,
            None => self.found(path).await?.queue,
        };
        check_meant(&queue)?;
        let queue: Queue<Box<RawValue>> = self.bus.queue_named(&queue)?;
        let changed = match change {
            EventChange::After(delay) => queue.reschedule(path.id, delay).await?,
            EventChange::At(due) => queue.reschedule(path.id, due).await?,
            EventChange::Payload(json) => {
                queue.with_codec(Codec::Json).update(path.id, &json).await?
            }
        };
        match changed {
            ChangeOutcome::Changed(due) | ChangeOutcome::ChangedAfterAttempt(due) => {
                Ok(due.as_millis())
            }
            ChangeOutcome::TooLate(state) => Err(too_late(path.id, state)),
            _ => Err(no_event(path.id)),
        }
    }

    async fn dead(
        &self,
        filter: &DeadFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PageView<DeadView>> {
        let mut letters = self.bus.dead_letters().limit(limit);
        if let Some(queue) = &filter.queue {
            letters = letters.queue(queue);
        }
        if let Some(since) = filter.since {
            letters = letters.since(since);
        }
        if let Some(until) = filter.until {
            letters = letters.until(until);
        }
        if let Some(cause) = filter.cause {
            letters = letters.cause(cause);
        }
        if let Some(error) = &filter.error {
            letters = letters.error(error);
        }
        if let Some(key) = &filter.key {
            letters = letters.key(key);
        }
        if let Some(node) = filter.node {
            letters = letters.node(node);
        }
        let after = after.map(str::parse::<DeadLetterCursor>).transpose()?;
        let page = letters.after(after).page().await?;
        let items = page.items.iter();
        let views = items.map(|it| DeadView::new(&*it.queue, api::DeadView::new(&self.bus, it)));
        Ok(PageView {
            items: views.collect(),
            next: page.next.map(|next| next.to_string()),
        })
    }

    async fn act_on_dead(&self, queue: &str, ids: &[EventId], action: DeadAction) -> Result<u64> {
        let letters = self.bus.dead_letters().queue(queue).by(&self.actor);
        let ids = ids.iter().copied();
        let result = match action {
            DeadAction::Revive => letters.revive(ids).await?,
            DeadAction::Drop => letters.drop(ids).await?,
        };
        Ok(result.finished()?.done)
    }

    async fn records(
        &self,
        filter: &RecordFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PageView<RecordView>> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let records = filter.records(&self.bus).limit(limit);
        let after = after.map(str::parse::<Cursor>).transpose()?;
        let page = records.after(after).page().await?;
        let items = page.items.into_iter();
        Ok(PageView {
            items: items
                .map(|it| RecordView::new(it.queue.to_string(), it.into()))
                .collect(),
            next: page.next.map(|next| next.to_string()),
        })
    }

    async fn audit(&self, action: &str, target: &str) -> Result<()> {
        Ok(self.bus.add_to_audit(&self.actor, action, target).await?)
    }

    async fn audit_lines(
        &self,
        filter: &AuditFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<PageView<AuditView>> {
        let before = before.map(str::parse::<AuditCursor>).transpose()?;
        let page = self.bus.audit_matching(filter, before, limit).await?;
        Ok(PageView {
            items: page.items.iter().map(AuditView::from).collect(),
            next: page.next.map(|next| next.to_string()),
        })
    }

    async fn nodes(&self) -> Result<Vec<NodeView>> {
        let nodes = self.bus.nodes().await?;
        let seen = |queue: &str| Some(queue.to_owned());
        Ok(nodes
            .iter()
            .filter_map(|it| NodeView::new(it, seen))
            .collect())
    }

    async fn close(self) -> Result<()> {
        Ok(self.bus.shutdown(GRACE).await?)
    }
}

fn is_of_one_file(url: &str) -> bool {
    url.starts_with("sqlite:")
}

/// Keeps every record: a file is pruned by the settings of whoever has it
/// open, and the program whose file it is may have others, or set them itself. In PostgreSQL the
/// greatest settings of a day hold, so that these would hold for a day.
fn keep_all(records: &mut RecordChoices) {
    records.keep = Some(Duration::MAX);
    records.keep_minutes = Some(Duration::MAX);
    records.keep_max = Some(u64::MAX);
    records.prune_at_once = Some(false);
}

/// Fails for a queue of duly itself: what is in it is a schedule, a reply or a line of the audit, and
/// none of the events that somebody means.
fn check_meant(queue: &QueueName) -> Result<()> {
    if queue.is_own() {
        let text = format!("{queue} is a queue of duly itself; its events are not changed");
        return Err(CommandError::usage(text));
    }
    Ok(())
}

fn too_late(id: EventId, state: State) -> CommandError {
    CommandError::new(Failure::Conflict, format!("event {id} is {state}"))
}
