//! The trait of what commands work on: a store, or a server.

use std::time::Duration;

use duly::EventId;
use duly::admin::AuditFilter;
use duly_server::api::{AuditView, Explanation, ForecastStep, NodeView};

use super::error::Result;
use super::said;
use super::view::{
    DeadAction, DeadFilter, DeadView, EventChange, EventFilter, EventListView, EventPath,
    EventView, OverviewView, PageView, QueueChange, QueueView, RecordFilter, RecordView,
};

/// The most items of a page.
pub(crate) const PAGE: usize = 1_000;

/// A store or a server. A page may have fewer items than its limit, or none, although there are
/// more: only its `next` shows it.
pub(crate) trait Source {
    async fn queue(&self, queue: &str) -> Result<QueueView>;
    /// Returns at most `limit` queues, in the order of their names.
    async fn overview(&self, limit: usize) -> Result<OverviewView>;
    /// Sets one after the other, each with a line in the audit.
    async fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()>;
    /// Cancels about so many of the events that wait; returns how many, and where the next step begins.
    async fn purge(
        &self,
        queue: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(u64, Option<String>)>;
    async fn forecast(
        &self,
        queue: &str,
        horizon: Duration,
        step: Duration,
    ) -> Result<Vec<ForecastStep>>;
    /// Lists events that are not over, the first due first.
    async fn events(
        &self,
        filter: &EventFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<EventListView>;
    async fn event(&self, path: EventPath<'_>) -> Result<EventView>;
    async fn explain(&self, path: EventPath<'_>) -> Result<Explanation>;
    async fn cancel(&self, path: EventPath<'_>) -> Result<()>;
    /// Returns when the changed event is due, in milliseconds since the epoch.
    async fn change(&self, path: EventPath<'_>, change: EventChange) -> Result<u64>;
    async fn dead(
        &self,
        filter: &DeadFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PageView<DeadView>>;
    /// Changes dead letters of a queue, at most [`PAGE`]; returns how many were there.
    async fn act_on_dead(&self, queue: &str, ids: &[EventId], action: DeadAction) -> Result<u64>;
    async fn records(
        &self,
        filter: &RecordFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PageView<RecordView>>;
    /// Adds to the audit what a command has done; a server does so itself.
    async fn audit(&self, action: &str, target: &str) -> Result<()>;
    /// As [`audit`](Self::audit), of what is done already: who reads that it failed would do it again.
    async fn audit_done(&self, action: &str, target: &str) {
        if let Err(error) = self.audit(action, target).await {
            said(&format!(
                "note: it is done, and the audit has no line of it: {error}"
            ));
        }
    }
    /// Returns lines of the audit that match, the newest first.
    async fn audit_lines(
        &self,
        filter: &AuditFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<PageView<AuditView>>;
    /// Returns the processes that have handlers.
    async fn nodes(&self) -> Result<Vec<NodeView>>;
    async fn close(self) -> Result<()>;
}
