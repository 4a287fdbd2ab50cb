//! Test helpers: one for each operation, and for common preparations.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store_contract::world::{A, B, EventDraft, World, bury};
use duly::event::{Payload, State};
use duly::records::{NodeId, Query, Record};
use duly::store::operation::{
    AttemptOutcome, BATCH_MAX, Delivery, Fetch, HeartbeatReport, Holding, PeekBy, PeekCursor,
    PushOutcome, PushReport, ReapReport, RequestId, Rewriting, Settlement, Snapshot, StartMark,
    Stats, StoreOp,
};
use duly::time::{Clock, When};
use duly::{CancelOutcome, ChangeOutcome, EventId};

impl World {
    pub(super) async fn push_all(&self, drafts: &[EventDraft]) -> Vec<PushReport> {
        let events = drafts.iter().map(|draft| draft.0.clone()).collect();
        self.op(StoreOp::push(events)).await
    }

    pub(super) async fn push(&self, draft: &EventDraft) -> PushOutcome {
        self.push_all(std::slice::from_ref(draft)).await[0].verdict
    }

    /// Pushes a new event, and returns its id.
    pub(super) async fn add(&self, draft: EventDraft) -> EventId {
        assert_eq!(self.push(&draft).await, PushOutcome::Accepted);
        draft.id()
    }

    pub(super) async fn move_due(&self) -> usize {
        self.op(StoreOp::move_due(BATCH_MAX, false)).await.moved
    }

    pub(super) async fn fetch_by(&self, fetch: &Fetch) -> Vec<Delivery> {
        self.op(StoreOp::fetch(fetch.clone())).await.deliveries
    }

    pub(super) async fn fetch(&self, node: NodeId) -> Vec<Delivery> {
        self.fetch_by(&self.fetching(node, BATCH_MAX)).await
    }

    /// Moves and fetches, and returns the only event.
    pub(super) async fn take(&self, node: NodeId) -> Delivery {
        self.move_due().await;
        let mut deliveries = self.fetch(node).await;
        assert_eq!(deliveries.len(), 1, "one event is there to be had");
        deliveries.remove(0)
    }

    pub(super) fn ended(&self, delivery: &Delivery, verdict: AttemptOutcome) -> Settlement {
        Settlement {
            id: delivery.id,
            request: delivery.request,
            verdict,
            started_us: self.clock.wall_us(),
            fetched_us: self.clock.wall_us(),
        }
    }

    pub(super) async fn settle_all(&self, node: NodeId, settlements: Vec<Settlement>) -> Vec<bool> {
        let settle = StoreOp::settle(node, settlements, StartMark::default());
        self.op(settle).await
    }

    pub(super) async fn settle(
        &self,
        node: NodeId,
        of: &Delivery,
        verdict: AttemptOutcome,
    ) -> bool {
        self.settle_all(node, vec![self.ended(of, verdict)]).await[0]
    }

    pub(super) async fn heartbeat(&self, node: NodeId) -> bool {
        self.beat(node).await.0
    }

    /// Returns whether the node's leases exist, and what it holds.
    pub(super) async fn beat(&self, node: NodeId) -> (bool, Holding) {
        let heartbeat = StoreOp::heartbeat(node, Holding::default(), StartMark::default());
        let HeartbeatReport { stands, holding } = self.op(heartbeat).await;
        (stands, holding)
    }

    /// Reports that of all fetches up to `through` the node holds these.
    pub(super) async fn reconcile(
        &self,
        node: NodeId,
        through: RequestId,
        held: &[&Delivery],
        limit: usize,
    ) -> ReapReport {
        let mut by_request = BTreeMap::<RequestId, Vec<EventId>>::new();
        for delivery in held {
            let ids = by_request.entry(delivery.request).or_default();
            ids.push(delivery.id);
        }
        let held = by_request.into_iter().collect();
        let started = StartMark::default();
        let reconcile = StoreOp::reconcile(node, (0, through), held, started, limit);
        self.op(reconcile).await
    }

    pub(super) async fn extend(&self, node: NodeId, of: &Delivery, hold: Duration) -> bool {
        let leases = vec![(of.id, of.request)];
        self.op(StoreOp::extend(node, leases, hold)).await[0]
    }

    pub(super) async fn reap(&self, silent: Vec<(NodeId, u64)>, limit: usize) -> ReapReport {
        self.op(StoreOp::reap(silent, limit)).await
    }

    /// Returns what a reaper sees: the nodes with leases, each with its heartbeat.
    pub(super) async fn holders(&self) -> Vec<(NodeId, u64)> {
        self.reap(Vec::new(), 0).await.holders
    }

    /// Takes back all leases of `node`.
    pub(super) async fn reap_node(&self, node: NodeId) -> ReapReport {
        let holders = self.holders().await;
        let silent = holders.into_iter().filter(|(holder, _)| *holder == node);
        self.reap(silent.collect(), BATCH_MAX).await
    }

    pub(super) async fn cancel(&self, id: EventId) -> CancelOutcome {
        self.op(StoreOp::cancel(id)).await
    }

    pub(super) async fn reschedule(&self, id: EventId, when: impl Into<When>) -> ChangeOutcome {
        self.op(StoreOp::reschedule(id, when.into())).await
    }

    pub(super) async fn update(&self, id: EventId, payload: &str) -> ChangeOutcome {
        let payload = Payload::from(payload.as_bytes());
        self.op(StoreOp::update(id, payload)).await
    }

    /// Re-encodes the current payload of an event.
    pub(super) async fn rewriting(&self, id: EventId, form: &str) -> Rewriting {
        let body = self.get(id).await.and_then(|found| found.body);
        Rewriting {
            id,
            was: body.expect("it waits").fingerprint(),
            payload: Payload::from(form.as_bytes()),
        }
    }

    pub(super) async fn rewrite(&self, rewritings: Vec<Rewriting>) -> usize {
        self.op(StoreOp::rewrite(rewritings)).await
    }

    pub(super) async fn revive(&self, ids: &[EventId]) -> usize {
        self.op(StoreOp::revive(ids.to_vec(), None)).await
    }

    pub(super) async fn drop_dead(&self, ids: &[EventId]) -> usize {
        self.op(StoreOp::drop_dead(ids.to_vec(), None)).await
    }

    pub(super) async fn get(&self, id: EventId) -> Option<Snapshot> {
        self.op(StoreOp::get(id)).await
    }

    pub(super) async fn state(&self, id: EventId) -> Option<State> {
        self.get(id).await.map(|found| found.state)
    }

    /// Reads a page of the events that have not ended, and the position of the next one.
    pub(super) async fn peek(
        &self,
        from: Option<PeekCursor>,
        limit: usize,
    ) -> (Vec<Snapshot>, Option<PeekCursor>) {
        self.peek_by(PeekBy::All, from, limit).await
    }

    /// Reads a page of the events with a key, and the position of the next one.
    pub(super) async fn peek_by(
        &self,
        by: PeekBy,
        from: Option<PeekCursor>,
        limit: usize,
    ) -> (Vec<Snapshot>, Option<PeekCursor>) {
        let page = self.op(StoreOp::peek(by, from, limit)).await;
        (page.events, page.next)
    }

    pub(super) async fn read_dead(&self, after: Option<EventId>, limit: usize) -> Vec<EventId> {
        let letters = self.op(StoreOp::read_dead(after, limit)).await.letters;
        assert!(letters.iter().all(|letter| letter.state == State::Dead));
        letters.into_iter().map(|letter| letter.id).collect()
    }

    pub(super) async fn stats(&self) -> Stats {
        self.op(StoreOp::stats()).await
    }

    pub(super) async fn forecast(&self, within: &[Duration]) -> Vec<usize> {
        self.op(StoreOp::forecast(within.to_vec())).await
    }

    /// Returns the records of an event, in the order of writing.
    pub(super) async fn records(&self, id: EventId) -> Vec<Record> {
        let query = Query {
            id: Some(id),
            limit: Some(Query::LIMIT_MAX),
            ..Query::default()
        };
        let page = duly::testing::records(&*self.store(), query).await;
        page.expect("records can be read").items
    }

    /// Returns the only record of an event.
    pub(super) async fn record(&self, id: EventId) -> Record {
        let mut records = self.records(id).await;
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }

    /// Pushes an event of which `node` loses a lease: ready again, one attempt used up.
    pub(super) async fn maybe_running(&self, draft: EventDraft) -> EventId {
        let id = self.add(draft).await;
        let held = self.fetch(B).await;
        assert!(held.iter().any(|delivery| delivery.id == id));
        self.reap_node(B).await;
        id
    }

    /// Pushes an event and buries it, which leaves one record.
    pub(super) async fn dead(&self, draft: EventDraft) -> EventId {
        let id = self.add(draft).await;
        let delivery = self.take(A).await;
        assert!(self.settle(A, &delivery, bury()).await);
        id
    }
}
