//! A store that does badly where a test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use duly::event::{BucketId, BucketKey};
use duly::records::Cursor;
use duly::store::operation::{
    Delivery, NewEvent, PushOutcome, PushReport, Reply, Response, StoreOp,
};
use duly::store::{
    CheckTask, Control, Damage, DamageKind, Durability, KnownBuckets, MemberInfo, Membership,
    Outbox, OutboxLimit, OutboxPage, OutboxWatcher, RecordTable, Setting, Store, StoreFuture,
    Watcher,
};
use duly::time::Timestamp;
use duly::{Error, ErrorKind, QueueName};

/// What becomes of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is done and answered.
    None,
    /// It is done so much later, and answered.
    #[allow(dead_code)] // of those who take this in, one needs it
    LatePolicy(Duration),
    /// It is done, and answered so much later.
    #[allow(dead_code)] // of those who take this in, one needs it
    Held(Duration),
    /// It is not done, and the answer says why.
    Refused(ErrorKind),
    /// It is done, and the answer is lost.
    Lost,
    /// It is done, its answer is lost on the way, and it is done once more and answered.
    #[allow(dead_code)] // of those who take this in, one needs it
    Twice,
    /// It is not done, and of each pushed event the answer says this.
    #[allow(dead_code)] // of those who take this in, one needs it
    Judged(PushOutcome),
    /// It is not done, and no answer ever comes.
    Hung,
    /// It is not done, and the call panics.
    #[allow(dead_code)] // of those who take this in, one needs it
    Panics,
    /// It is not done, and the future panics.
    #[allow(dead_code)] // of those who take this in, one needs it
    PanicsLater,
}

type Faults = dyn FnMut(&BucketKey, &StoreOp) -> Fault + Send;

/// A way to a store on which operations meet with faults.
pub(crate) struct Faulty {
    near: Arc<dyn Store>,
    faults: Mutex<Box<Faults>>,
    /// What becomes of roll calls, and of reading what was set.
    rolls: Mutex<Fault>,
    /// The buckets with damage that a check finds.
    pub(crate) damaged: Arc<Mutex<BTreeSet<BucketKey>>>,
    /// Buckets that it does not know of while it cannot list all of them.
    pub(crate) unlisted: Mutex<BTreeSet<BucketKey>>,
    /// How much later its records are read, in microseconds.
    pub(crate) reads_late_us: AtomicU64,
    pub(crate) shared: bool,
    /// Whether the word that there is earlier work gets lost.
    pub(crate) is_deaf: AtomicBool,
    /// By how much this process takes the store's time for earlier than it is, in microseconds.
    pub(crate) behind_us: AtomicU64,
    /// By how much for later.
    pub(crate) ahead_us: AtomicU64,
    pub(crate) notes_fail: AtomicBool,
    #[allow(dead_code)] // of those who take this in, one needs it
    pub(crate) notes_panic: AtomicBool,
    /// Whether it panics where it is asked how it is to be treated.
    #[allow(dead_code)] // of those who take this in, one needs it
    pub(crate) looks_panic: AtomicBool,
    /// The records that it offers instead of the store's.
    pub(crate) table: Mutex<Option<Arc<dyn RecordTable>>>,
    pub(crate) notes: AtomicUsize,
    pub(crate) asked: AtomicUsize,
    /// To its servers, so far.
    pub(crate) connections: AtomicU64,
    /// Whether it can erase what is in outboxes.
    pub(crate) can_erase: AtomicBool,
    /// How many outboxes there are besides, all of them empty.
    pub(crate) empty_outboxes: AtomicUsize,
    /// How its outboxes were limited last.
    pub(crate) limit: Mutex<Option<OutboxLimit>>,
    /// How often something was done to it, or read of its records, before they were.
    pub(crate) before_limit: AtomicUsize,
}

impl Faulty {
    /// A way to `near` without faults, so far.
    pub(crate) fn to(near: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            near: Arc::clone(near),
            faults: Mutex::new(Box::new(|_, _| Fault::None)),
            rolls: Mutex::new(Fault::None),
            damaged: Arc::default(),
            unlisted: Mutex::default(),
            reads_late_us: AtomicU64::new(0),
            shared: near.is_shared(),
            is_deaf: AtomicBool::new(false),
            behind_us: AtomicU64::new(0),
            ahead_us: AtomicU64::new(0),
            notes_fail: AtomicBool::new(false),
            notes_panic: AtomicBool::new(false),
            looks_panic: AtomicBool::new(false),
            table: Mutex::default(),
            notes: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            can_erase: AtomicBool::new(true),
            empty_outboxes: AtomicUsize::new(0),
            limit: Mutex::default(),
            before_limit: AtomicUsize::new(0),
        })
    }

    fn looked_at(&self) {
        if self.looks_panic.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }

    /// From now on each operation meets with what `faults` says.
    pub(crate) fn meets(&self, faults: impl FnMut(&BucketKey, &StoreOp) -> Fault + Send + 'static) {
        *self.faults.lock().expect("no test panics in there") = Box::new(faults);
    }

    /// From now on every roll call meets with `fault`, and nothing else does.
    pub(crate) fn rolls_are(&self, fault: Fault) {
        *self.rolls.lock().expect("no test panics in there") = fault;
    }

    fn met<T: Send + 'static>(
        &self,
        response: impl FnOnce(&Arc<dyn Store>) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        let fault = *self.rolls.lock().expect("no test panics in there");
        self.meets_with(fault, response)
    }

    fn meets_with<T: Send + 'static>(
        &self,
        fault: Fault,
        response: impl FnOnce(&Arc<dyn Store>) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match fault {
            // Only a push can be twice, or judged.
            Fault::None | Fault::Twice | Fault::Judged(_) => response(&self.near),
            Fault::LatePolicy(by) => {
                let near = Arc::clone(&self.near);
                StoreFuture::new(async move {
                    tokio::time::sleep(by).await;
                    response(&near).await
                })
            }
            Fault::Held(by) => {
                let reply = response(&self.near);
                StoreFuture::new(async move {
                    tokio::time::sleep(by).await;
                    reply.await
                })
            }
            Fault::Refused(kind) => failed(kind),
            Fault::Lost => {
                drop(response(&self.near));
                failed(ErrorKind::Unknown)
            }
            Fault::Hung => StoreFuture::new(std::future::pending()),
            Fault::Panics => std::panic::resume_unwind(Box::new("on purpose")),
            Fault::PanicsLater => StoreFuture::new(async {
                tokio::task::yield_now().await;
                std::panic::resume_unwind(Box::new("on purpose"))
            }),
        }
    }

    fn fault_of(&self, bucket: &BucketKey, op: &StoreOp) -> Fault {
        (*self.faults.lock().expect("no test panics in there"))(bucket, op)
    }

    fn touches_records(&self) {
        if self
            .limit
            .lock()
            .expect("no test panics in there")
            .is_none()
        {
            self.before_limit.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// From now on everything that is asked meets with `fault`.
    pub(crate) fn is(&self, fault: Fault) {
        self.rolls_are(fault);
        self.meets(move |_, _| fault);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Faulty").field(&self.near).finish()
    }
}

impl Store for Faulty {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Response> {
        self.touches_records();
        let fault = self.fault_of(bucket, &op);
        let bucket = bucket.clone();
        match (fault, &op) {
            (Fault::Twice, StoreOp::Push(_)) => drop(self.near.apply(&bucket, op.clone())),
            (Fault::Judged(verdict), StoreOp::Push(events)) => {
                let (due, now_us) = (Timestamp::EPOCH, self.near.now_us());
                let reply = Reply::Pushed(vec![PushReport { due, verdict }; events.len()]);
                return StoreFuture::ready(Ok(Response { now_us, reply }));
            }
            _ => {}
        }
        self.meets_with(fault, move |near| near.apply(&bucket, op))
    }

    fn durability(&self) -> Durability {
        self.near.durability()
    }

    fn now_us(&self) -> u64 {
        let ahead_us = self.ahead_us.load(Ordering::Relaxed);
        self.near.now_us() + ahead_us - self.behind_us.load(Ordering::Relaxed)
    }

    fn push_durably(
        &self,
        bucket: &BucketKey,
        events: Vec<NewEvent>,
        wanted: Durability,
    ) -> StoreFuture<Response> {
        self.near.push_durably(bucket, events, wanted)
    }

    fn poll_members(&self, me: MemberInfo) -> StoreFuture<Membership> {
        self.met(|near| near.poll_members(me))
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        self.met(|near| near.controls())
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        self.near.set(queue, setting)
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn fallback_poll_every(&self) -> Duration {
        self.looked_at();
        self.near.fallback_poll_every()
    }

    fn connections(&self) -> u64 {
        self.looked_at();
        self.connections.load(Ordering::Relaxed)
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.met(|near| near.buckets())
    }

    fn known_buckets(&self) -> StoreFuture<KnownBuckets> {
        let unlisted = self.unlisted.lock();
        let unlisted = unlisted.expect("no test panics in there").clone();
        let all = self.buckets();
        StoreFuture::new(async move {
            let mut known = all.await?;
            if unlisted.is_empty() {
                return Ok(KnownBuckets::all(known));
            }
            known.retain(|bucket| !unlisted.contains(bucket));
            let away = Error::new(ErrorKind::Unavailable, "the test says so");
            Ok(KnownBuckets::some(known, away))
        })
    }

    /// A check of a bucket meets with faults as a read of its counts does.
    fn check_bucket(&self, bucket: &BucketKey, task: CheckTask) -> StoreFuture<Vec<Damage>> {
        let fault = self.fault_of(bucket, &StoreOp::Stats);
        let (damaged, bucket) = (Arc::clone(&self.damaged), bucket.clone());
        self.meets_with(fault, move |_| {
            let mut damaged = damaged.lock().expect("no test panics in there");
            if !damaged.contains(&bucket) {
                return StoreFuture::ready(Ok(Vec::new()));
            }
            if task.repairs {
                damaged.remove(&bucket);
            }
            let mut damage = Damage::new(DamageKind::Stray, "the test says so");
            damage.repaired = task.repairs;
            StoreFuture::ready(Ok(vec![damage]))
        })
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> duly::Result<()> {
        if self.is_deaf.load(Ordering::Relaxed) {
            Ok(())
        } else {
            self.near.watch(watcher)
        }
    }

    fn starting(&self, queue: &QueueName, deliveries: &[&Delivery]) -> duly::Result<()> {
        self.notes.fetch_add(deliveries.len(), Ordering::Relaxed);
        if self.notes_panic.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        if self.notes_fail.load(Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the note cannot be written",
            ));
        }
        self.near.starting(queue, deliveries)
    }

    fn records(&self) -> Option<Arc<dyn RecordTable>> {
        self.looked_at();
        let given = self.table.lock().expect("no test panics in there").clone();
        given.or_else(|| self.near.records())
    }

    fn erase_records(&self, places: Vec<Cursor>) -> StoreFuture<bool> {
        self.touches_records();
        if self.can_erase.load(Ordering::Relaxed) {
            self.near.erase_records(places)
        } else {
            StoreFuture::ready(Ok(false))
        }
    }

    fn outboxes(&self) -> StoreFuture<Vec<Outbox>> {
        let near = self.near.outboxes();
        let empty = 0..self.empty_outboxes.load(Ordering::Relaxed) as u16;
        StoreFuture::new(async move {
            let queue: QueueName = "empty".parse()?;
            let of = |bucket| Outbox::Bucket(BucketKey::new(queue.clone(), BucketId(bucket)));
            let mut outboxes = near.await?;
            outboxes.extend(empty.map(of));
            Ok(outboxes)
        })
    }

    fn read_outbox(&self, outbox: &Outbox, after: u64, limit: usize) -> StoreFuture<OutboxPage> {
        self.touches_records();
        let read = self.near.read_outbox(outbox, after, limit);
        let late = Duration::from_micros(self.reads_late_us.load(Ordering::Relaxed));
        if late.is_zero() {
            return read;
        }
        StoreFuture::new(async move {
            tokio::time::sleep(late).await;
            read.await
        })
    }

    fn trim_outbox(&self, outbox: &Outbox, through: u64) -> StoreFuture<()> {
        self.touches_records();
        self.near.trim_outbox(outbox, through)
    }

    fn limit_outboxes(&self, limit: OutboxLimit) -> duly::Result<()> {
        *self.limit.lock().expect("no test panics in there") = Some(limit);
        self.near.limit_outboxes(limit)
    }

    fn watch_outboxes(&self, watcher: Weak<dyn OutboxWatcher>) -> duly::Result<()> {
        self.near.watch_outboxes(watcher)
    }

    fn close(&self) -> StoreFuture<()> {
        self.near.close()
    }
}

fn failed<T: Send + 'static>(kind: ErrorKind) -> StoreFuture<T> {
    StoreFuture::ready(Err(Error::new(kind, "the test says so")))
}
