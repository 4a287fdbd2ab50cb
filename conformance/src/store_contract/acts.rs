//! Test helpers: one for each operation, and for common preparations.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store_contract::world::{A, B, EventDraft, World, bury};
use duly::event::{Payload, State};
use duly::records::{NodeId, Query, Record};
use duly::store::operation::{
    AttemptOutcome, BATCH_MAX, Delivery, Fetch, Holding, PeekBy, PeekCursor, PushOutcome, Pushed,
    Reaped, Reply, RequestId, Rewriting, Settlement, Snapshot, StartMark, Stats, StoreOp,
};
use duly::time::{Clock, When};
use duly::{Cancelled, Changed, EventId};

impl World {
    pub(super) async fn push_all(&self, drafts: &[EventDraft]) -> Vec<Pushed> {
        let events = drafts.iter().map(|draft| draft.0.clone()).collect();
        match self.op(StoreOp::Push(events)).await {
            Reply::Pushed(pushed) => pushed,
            other => panic!("a push returned {other:?}"),
        }
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
        match self
            .op(StoreOp::MoveDue {
                limit: BATCH_MAX,
                calls: false,
            })
            .await
        {
            Reply::Moved { moved, .. } => moved,
            other => panic!("move due returned {other:?}"),
        }
    }

    pub(super) async fn fetch_by(&self, fetch: &Fetch) -> Vec<Delivery> {
        match self.op(StoreOp::Fetch(fetch.clone())).await {
            Reply::Fetched { deliveries, .. } => deliveries,
            other => panic!("a fetch returned {other:?}"),
        }
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
        match self
            .op(StoreOp::Settle {
                node,
                settlements,
                started: StartMark::default(),
            })
            .await
        {
            Reply::Settled(settled) => settled,
            other => panic!("a settle returned {other:?}"),
        }
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
        let holds = Holding::default();
        match self
            .op(StoreOp::Heartbeat {
                node,
                holds,
                started: StartMark::default(),
            })
            .await
        {
            Reply::Kept { stands, holding } => (stands, holding),
            other => panic!("a heartbeat returned {other:?}"),
        }
    }

    /// Reports that of all fetches up to `through` the node holds these.
    pub(super) async fn reconcile(
        &self,
        node: NodeId,
        through: RequestId,
        held: &[&Delivery],
        limit: usize,
    ) -> Reaped {
        let mut by_request = BTreeMap::<RequestId, Vec<EventId>>::new();
        for delivery in held {
            let ids = by_request.entry(delivery.request).or_default();
            ids.push(delivery.id);
        }
        let reconcile = StoreOp::Reconcile {
            node,
            from: 0,
            through,
            held: by_request.into_iter().collect(),
            limit,
            started: StartMark::default(),
        };
        match self.op(reconcile).await {
            Reply::Reaped(reaped) => reaped,
            other => panic!("a reconcile returned {other:?}"),
        }
    }

    pub(super) async fn extend(&self, node: NodeId, of: &Delivery, hold: Duration) -> bool {
        let leases = vec![(of.id, of.request)];
        match self.op(StoreOp::Extend { node, leases, hold }).await {
            Reply::Extended(extended) => extended[0],
            other => panic!("extend returned {other:?}"),
        }
    }

    pub(super) async fn reap(&self, silent: Vec<(NodeId, u64)>, limit: usize) -> Reaped {
        match self.op(StoreOp::Reap { silent, limit }).await {
            Reply::Reaped(reaped) => reaped,
            other => panic!("a reap returned {other:?}"),
        }
    }

    /// Returns what a reaper sees: the nodes with leases, each with its heartbeat.
    pub(super) async fn holders(&self) -> Vec<(NodeId, u64)> {
        self.reap(Vec::new(), 0).await.holders
    }

    /// Takes back all leases of `node`.
    pub(super) async fn reap_node(&self, node: NodeId) -> Reaped {
        let holders = self.holders().await;
        let silent = holders.into_iter().filter(|(holder, _)| *holder == node);
        self.reap(silent.collect(), BATCH_MAX).await
    }

    pub(super) async fn cancel(&self, id: EventId) -> Cancelled {
        match self.op(StoreOp::Cancel { id }).await {
            Reply::Cancelled(cancelled) => cancelled,
            other => panic!("a cancel returned {other:?}"),
        }
    }

    pub(super) async fn reschedule(&self, id: EventId, when: impl Into<When>) -> Changed {
        let when = when.into();
        match self.op(StoreOp::Reschedule { id, when }).await {
            Reply::Rescheduled(changed) => changed,
            other => panic!("reschedule returned {other:?}"),
        }
    }

    pub(super) async fn update(&self, id: EventId, payload: &str) -> Changed {
        let payload = Payload::from(payload.as_bytes());
        match self
            .op(StoreOp::Update {
                id,
                payload,
                by: None,
                dead_only: false,
            })
            .await
        {
            Reply::Updated(changed) => changed,
            other => panic!("update returned {other:?}"),
        }
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
        match self.op(StoreOp::Rewrite(rewritings)).await {
            Reply::Counted(counted) => counted,
            other => panic!("a rewrite returned {other:?}"),
        }
    }

    pub(super) async fn revive(&self, ids: &[EventId]) -> usize {
        match self
            .op(StoreOp::Revive {
                ids: ids.to_vec(),
                by: None,
            })
            .await
        {
            Reply::Counted(counted) => counted,
            other => panic!("revive returned {other:?}"),
        }
    }

    pub(super) async fn drop_dead(&self, ids: &[EventId]) -> usize {
        match self
            .op(StoreOp::Drop {
                ids: ids.to_vec(),
                by: None,
            })
            .await
        {
            Reply::Counted(counted) => counted,
            other => panic!("drop returned {other:?}"),
        }
    }

    pub(super) async fn get(&self, id: EventId) -> Option<Snapshot> {
        match self.op(StoreOp::Get { id }).await {
            Reply::Found(found) => found,
            other => panic!("get returned {other:?}"),
        }
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
        match self.op(StoreOp::Peek { by, from, limit }).await {
            Reply::Peeked { events, next } => (events, next),
            other => panic!("peek returned {other:?}"),
        }
    }

    pub(super) async fn read_dead(&self, after: Option<EventId>, limit: usize) -> Vec<EventId> {
        match self.op(StoreOp::ReadDead { after, limit }).await {
            Reply::Dead { letters, .. } => {
                assert!(letters.iter().all(|letter| letter.state == State::Dead));
                letters.into_iter().map(|letter| letter.id).collect()
            }
            other => panic!("read dead returned {other:?}"),
        }
    }

    pub(super) async fn stats(&self) -> Stats {
        match self.op(StoreOp::Stats).await {
            Reply::Stats(stats) => stats,
            other => panic!("stats returned {other:?}"),
        }
    }

    pub(super) async fn forecast(&self, within: &[Duration]) -> Vec<usize> {
        let within = within.to_vec();
        match self.op(StoreOp::Forecast { within }).await {
            Reply::Forecast(forecast) => forecast,
            other => panic!("forecast returned {other:?}"),
        }
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
