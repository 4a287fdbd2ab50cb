//! A server as the source of a command, over `/v1`.

use std::time::Duration;

use duly::EventId;
use duly::admin::AuditFilter;
use duly::time::Timestamp;
use duly_server::api::{self, AuditView, Explanation, ForecastStep, NodeView};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::{CommandError, Failure, Result, no_event, no_queue};
use super::http::{HttpClient, set_fields};
use super::source::{PAGE, Source};
use super::view::{
    DeadAction, DeadFilter, DeadView, EventChange, EventFilter, EventListView, EventPath,
    EventView, OverviewView, PageView, QueueChange, QueueView, RecordFilter, RecordView,
};

/// A server, with a token of one of its namespaces.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) http: HttpClient,
    pub(super) namespace: Option<String>,
}

impl Server {
    pub(crate) fn new(url: &str, token: Option<&str>, namespace: Option<String>) -> Result<Self> {
        let token = token.ok_or_else(|| {
            let text = "--server needs a token: --token, or the variable DULY_TOKEN";
            CommandError::new(Failure::Denied, text)
        })?;
        Ok(Self {
            http: HttpClient::new(url, Some(format!("Bearer {token}")))?,
            namespace,
        })
    }

    /// Returns the namespace of events, and the queue if one is given.
    pub(super) fn of_queue<'a>(
        &'a self,
        queue: Option<&'a str>,
    ) -> Result<(&'a str, Option<&'a str>)> {
        match (queue, &self.namespace) {
            (Some(queue), _) => {
                let (namespace, name) = self.split(queue)?;
                Ok((namespace, Some(name)))
            }
            (None, Some(namespace)) => Ok((namespace.as_str(), None)),
            (None, None) => {
                let text = "with --server, events are those of a queue or of a namespace; add \
                            --queue namespace.queue, or --namespace";
                Err(CommandError::usage(text))
            }
        }
    }

    /// Splits the name of a queue as the library has it: the queue `close` of the namespace `shop` is
    /// `shop.close`. It fails where the command is for another namespace.
    fn split<'a>(&self, queue: &'a str) -> Result<(&'a str, &'a str)> {
        let (namespace, name) = queue.split_once('.').ok_or_else(|| {
            CommandError::usage(format!(
                "`{queue}` has no namespace; with --server a queue is named `namespace.queue`, such \
                 as shop.close"
            ))
        })?;
        match &self.namespace {
            Some(of) if of != namespace => Err(CommandError::usage(format!(
                "the queue {queue} is not of the namespace {of}, which --namespace names; leave one of \
                 them out"
            ))),
            _ => Ok((namespace, name)),
        }
    }

    fn of_event<'a>(&self, path: EventPath<'a>) -> Result<(&'a str, &'a str, String)> {
        let queue = path.queue.ok_or_else(|| {
            let text = "with --server an event is found in its queue; add --queue namespace.queue";
            CommandError::usage(text)
        })?;
        let (namespace, queue) = self.split(queue)?;
        Ok((namespace, queue, path.id.to_string()))
    }

    pub(super) fn in_queue<'a>(
        &self,
        queue: Option<&'a String>,
        what: &str,
    ) -> Result<(&'a str, &'a str)> {
        let queue = queue.ok_or_else(|| {
            let text = format!("with --server, {what} are those of a queue; add --queue");
            CommandError::usage(text)
        })?;
        self.split(queue)
    }

    async fn get<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &[(&str, String)],
    ) -> Result<T> {
        let value = self.http.send(Method::GET, segments, query, None).await?;
        self.http.read(value)
    }
}

/// Names the event that is not there as a store does.
fn of_found<T>(id: EventId, found: Result<T>) -> Result<T> {
    found.map_err(|error| match error.failure {
        Failure::NotFound => no_event(id),
        _ => error,
    })
}

impl Source for Server {
    async fn queue(&self, queue: &str) -> Result<QueueView> {
        let (namespace, name) = self.split(queue)?;
        let view: api::QueueView = self.get(&["v1", namespace, "queues", name], &[]).await?;
        // The server describes one that does not exist as empty.
        if view.exists {
            Ok(QueueView {
                queue: queue.to_owned(),
                view,
                ended: None,
                uncounted: None,
            })
        } else {
            Err(no_queue(queue))
        }
    }

    async fn overview(&self, limit: usize) -> Result<OverviewView> {
        let namespace = self.namespace.as_deref().ok_or_else(|| {
            let text = "with --server the queues of a namespace are listed; add --namespace";
            CommandError::usage(text)
        })?;
        let mut all = OverviewView {
            has_more: true,
            ..OverviewView::default()
        };
        let mut after = None;
        while all.has_more && all.queues.len() < limit {
            let most = PAGE.min(limit - all.queues.len());
            let mut query = vec![("limit", most.to_string())];
            query.extend(after.map(|after| ("after", after)));
            let page: api::Overview = self.get(&["v1", namespace, "overview"], &query).await?;
            all.queues
                .extend(page.items.into_iter().map(|view| QueueView {
                    queue: format!("{namespace}.{}", view.queue),
                    ..view
                }));
            (all.has_more, all.nodes) = (page.next.is_some(), page.nodes);
            all.now_ms = page.now_ms;
            after = page.next;
        }
        Ok(all)
    }

    async fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()> {
        let (namespace, name) = self.split(queue)?;
        let mut body = serde_json::Map::new();
        if let Some(paused) = change.paused {
            body.insert("paused".to_owned(), paused.into());
        }
        if let Some(rate) = change.rate {
            body.insert("rate".to_owned(), rate.unwrap_or(0.0).into());
        }
        if let Some(workers) = change.workers {
            body.insert("workers".to_owned(), workers.unwrap_or(0).into());
        }
        if let Some(buckets) = change.buckets {
            body.insert("buckets".to_owned(), buckets.unwrap_or(0).into());
        }
        let body = Some(Value::from(body).to_string());
        let path = ["v1", namespace, "queues", name];
        self.http
            .send(Method::PATCH, &path, &[], body)
            .await
            .map(drop)
    }

    async fn purge(
        &self,
        queue: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(u64, Option<String>)> {
        let (namespace, name) = self.split(queue)?;
        let path = ["v1", namespace, "queues", name, "purge"];
        let query = set_fields([
            ("after", after.map(str::to_owned)),
            ("limit", Some(limit.to_string())),
        ]);
        let done = self.http.send_for(Method::POST, &path, &query, None);
        let done: api::Purged = done.await?;
        Ok((done.cancelled, done.next))
    }

    async fn forecast(
        &self,
        queue: &str,
        horizon: Duration,
        step: Duration,
    ) -> Result<Vec<ForecastStep>> {
        self.queue(queue).await?; // a forecast of none would be empty
        let (namespace, name) = self.split(queue)?;
        let query = [
            ("horizon_ms", horizon.as_millis().to_string()),
            ("step_ms", step.as_millis().to_string()),
        ];
        let path = ["v1", namespace, "queues", name, "forecast"];
        self.get(&path, &query).await
    }

    async fn events(
        &self,
        filter: &EventFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<EventListView> {
        let (namespace, name) = self.of_queue(filter.queue.as_deref())?;
        let query = set_fields([
            ("queue", name.map(str::to_owned)),
            ("key", filter.key.clone()),
            ("unique", filter.unique.clone()),
            ("contains", filter.contains.clone()),
            ("state", filter.state.map(|it| it.as_str().to_owned())),
            ("since_ms", filter.since.map(millis_text)),
            ("until_ms", filter.until.map(millis_text)),
            ("after", after.map(str::to_owned)),
            ("limit", Some(limit.to_string())),
        ]);
        let mut list: EventListView = self.get(&["v1", namespace, "events"], &query).await?;
        for event in &mut list.items {
            event.queue = format!("{namespace}.{}", event.queue);
        }
        Ok(list)
    }

    async fn event(&self, path: EventPath<'_>) -> Result<EventView> {
        let (namespace, name, id) = self.of_event(path)?;
        let view = ["v1", namespace, "queues", name, "events", &id];
        let view = of_found(path.id, self.get(&view, &[]).await)?;
        Ok(EventView::new(format!("{namespace}.{name}"), view))
    }

    async fn explain(&self, path: EventPath<'_>) -> Result<Explanation> {
        let (namespace, name, id) = self.of_event(path)?;
        let explained = ["v1", namespace, "queues", name, "explanations", &id];
        of_found(path.id, self.get(&explained, &[]).await)
    }

    async fn cancel(&self, path: EventPath<'_>) -> Result<()> {
        let (namespace, name, id) = self.of_event(path)?;
        let event = ["v1", namespace, "queues", name, "events", &id];
        let query = audited();
        let sent = self.http.send(Method::DELETE, &event, &query, None);
        of_found(path.id, sent.await).map(drop)
    }

    async fn change(&self, path: EventPath<'_>, change: EventChange) -> Result<u64> {
        let (namespace, name, id) = self.of_event(path)?;
        let body = match change {
            EventChange::After(delay) => json!({"delay_ms": millis(delay)}).to_string(),
            EventChange::At(due) => json!({"due_ms": due.as_millis()}).to_string(),
            // The text of the payload, as a number may have more digits than a value keeps.
            EventChange::Payload(payload) => format!("{{\"payload\":{}}}", payload.get()),
        };
        let event = ["v1", namespace, "queues", name, "events", &id];
        let query = audited();
        let sent = self
            .http
            .send_for(Method::PATCH, &event, &query, Some(body));
        let changed: api::ChangedEvent = of_found(path.id, sent.await)?;
        Ok(changed.due_ms)
    }

    async fn dead(
        &self,
        filter: &DeadFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PageView<DeadView>> {
        let (namespace, name) = self.in_queue(filter.queue.as_ref(), "dead letters")?;
        let query = set_fields([
            ("since_ms", filter.since.map(millis_text)),
            ("until_ms", filter.until.map(millis_text)),
            ("cause", filter.cause.map(|it| it.as_str().to_owned())),
            ("error", filter.error.clone()),
            ("node", filter.node.map(|it| it.to_string())),
            ("key", filter.key.clone()),
            ("after", after.map(str::to_owned)),
            ("limit", Some(limit.to_string())),
        ]);
        let path = ["v1", namespace, "queues", name, "dead-letters"];
        let api::DeadPage { items, next } = self.get(&path, &query).await?;
        Ok(PageView { items, next }.in_queue(&format!("{namespace}.{name}")))
    }

    async fn act_on_dead(&self, queue: &str, ids: &[EventId], action: DeadAction) -> Result<u64> {
        let (namespace, name) = self.split(queue)?;
        let action = match action {
            DeadAction::Revive => "revive",
            DeadAction::Drop => "drop",
        };
        let ids: Vec<_> = ids.iter().map(EventId::to_string).collect();
        let path = ["v1", namespace, "queues", name, "dead-letters", action];
        let body = Some(json!({ "ids": ids }).to_string());
        let done = self.http.send_for(Method::POST, &path, &[], body);
        let done: api::Done = done.await?;
        Ok(done.done)
    }

    async fn records(
        &self,
        filter: &RecordFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PageView<RecordView>> {
        let (namespace, name) = self.in_queue(filter.queue.as_ref(), "records")?;
        let query = set_fields([
            ("id", filter.id.map(|id| id.to_string())),
            ("outcome", filter.outcome.map(|it| it.as_str().to_owned())),
            ("key", filter.key.clone()),
            ("cause", filter.cause.map(|it| it.as_str().to_owned())),
            ("error", filter.error.clone()),
            ("node", filter.node.map(|it| it.to_string())),
            ("since_ms", filter.since.map(millis_text)),
            ("until_ms", filter.until.map(millis_text)),
            (
                "newest_first",
                filter.newest_first.then(|| "true".to_owned()),
            ),
            ("after", after.map(str::to_owned)),
            ("limit", Some(limit.to_string())),
        ]);
        let path = ["v1", namespace, "queues", name, "records"];
        let api::RecordPage { items, next, .. } = self.get(&path, &query).await?;
        Ok(PageView { items, next }.in_queue(&format!("{namespace}.{name}")))
    }

    async fn audit(&self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    async fn audit_lines(
        &self,
        filter: &AuditFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<PageView<AuditView>> {
        let namespace = self.namespace.as_deref().ok_or_else(|| {
            let text = "with --server the audit is that of a namespace; add --namespace";
            CommandError::usage(text)
        })?;
        let query = set_fields([
            ("target", filter.target.clone()),
            ("actor", filter.actor.clone()),
            ("action", filter.action.clone()),
            ("since_ms", filter.since.map(millis_text)),
            ("until_ms", filter.until.map(millis_text)),
            ("before", before.map(str::to_owned)),
            ("limit", Some(limit.to_string())),
        ]);
        let api::AuditPage { items, next } = self.get(&["v1", namespace, "audit"], &query).await?;
        Ok(PageView { items, next })
    }

    async fn nodes(&self) -> Result<Vec<NodeView>> {
        let namespace = self.namespace.as_deref().ok_or_else(|| {
            let text = "with --server nodes are those of a namespace; add --namespace";
            CommandError::usage(text)
        })?;
        let page: api::NodeList = self.get(&["v1", namespace, "nodes"], &[]).await?;
        let name = |queue: String| format!("{namespace}.{queue}");
        let nodes = page.items.into_iter().map(|node| NodeView {
            queues: node.queues.into_iter().map(name).collect(),
            ..node
        });
        Ok(nodes.collect())
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}

/// Returns the parameters of a change that is an operator's, and so has a line in the audit.
fn audited() -> [(&'static str, String); 1] {
    [("audited", true.to_string())]
}

fn millis_text(time: Timestamp) -> String {
    time.as_millis().to_string()
}

pub(super) fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}
