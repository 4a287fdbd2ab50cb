//! The raw ceiling: the same work as plain scripts in plain loops, without a library.
//!
//! It keeps the minimum to hand an event on when its node dies (the leased ids, the bodies until
//! they are settled), a record for each if wanted, and nothing else: no envelope, no attempts, no id
//! conflicts, no heartbeat, no handler that may fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Connection, Script, Value};

use crate::Result;
use crate::contender::{CALL_LIMIT, Contender, Setup, To};
use crate::payload::{Watch, now_us};

const PUSH: &str = include_str!("lua/push.lua");
const TAKE: &str = include_str!("lua/take.lua");
const SETTLE: &str = include_str!("lua/settle.lua");

const BUCKETS: usize = 8;
/// Threads that take, each with a connection and its share of the buckets.
const TAKERS: usize = 2;
/// How long before its due time an event is taken, when that is allowed.
const AHEAD: Duration = Duration::from_millis(300);
/// How often what is due soon is looked for.
const AHEAD_STEP_US: u64 = 2_000;
/// The longest sleep of a taker.
const LOOK_US: u64 = 2_000;
/// About the bytes of a record.
static RECORD: [u8; 56] = [7; 56];

/// Takes and settles at most `TAKE_MAX` events a call, and may leave no records.
pub struct Ceiling<const TAKE_MAX: usize, const RECORDS: bool> {
    connection: MultiplexedConnection,
    push: Script,
    keys: Arc<[[String; 5]]>,
    pushed: AtomicU64,
    stop: Arc<AtomicBool>,
    takers: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl<const TAKE_MAX: usize, const RECORDS: bool> Contender for Ceiling<TAKE_MAX, RECORDS> {
    const BATCH: usize = 1_000;
    /// The 64 that are in flight ride in two calls, since nothing can be faster.
    const IN_FLIGHT: (usize, usize) = (2, 32);

    async fn open(setup: Setup) -> Result<Self> {
        let client = redis::Client::open(setup.url.as_str())?;
        let limits = AsyncConnectionConfig::new().set_response_timeout(Some(CALL_LIMIT));
        let keys: Arc<[_]> = (0..BUCKETS).map(keys).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let mut takers = Vec::new();
        if setup.workers > 0 {
            let (timer, waiting) = channel();
            let mut settled_by = Vec::new();
            for place in 0..TAKERS {
                let (done, settle) = channel();
                settled_by.push(done);
                let mut taker = Taker {
                    connection: client.get_connection()?,
                    keys: Arc::clone(&keys),
                    mine: (place..BUCKETS).step_by(TAKERS).collect(),
                    watch: Arc::clone(&setup.watch),
                    ahead: if setup.read_ahead {
                        AHEAD
                    } else {
                        Duration::ZERO
                    },
                    timer: timer.clone(),
                    settle,
                    record: if RECORDS { &RECORD } else { &[] },
                    stop: Arc::clone(&stop),
                };
                takers.push(thread::spawn(move || {
                    if let Err(error) = taker.run(TAKE_MAX) {
                        eprintln!("ceiling: a taker has ended: {error}");
                    }
                }));
            }
            let watch = Arc::clone(&setup.watch);
            takers.push(thread::spawn(move || fire(&waiting, &settled_by, &watch)));
        }
        Ok(Self {
            connection: client
                .get_multiplexed_async_connection_with_config(&limits)
                .await?,
            push: Script::new(PUSH),
            keys,
            pushed: AtomicU64::new(0),
            stop,
            takers: std::sync::Mutex::new(takers),
        })
    }

    async fn push(&self, to: To, payload: String) -> Result {
        self.push_many(to, vec![payload]).await
    }

    async fn push_many(&self, to: To, payloads: Vec<String>) -> Result {
        let count = payloads.len() as u64;
        let first = self.pushed.fetch_add(count, Ordering::Relaxed);
        let bucket = (first / count) as usize % BUCKETS;
        let mut call = self.push.prepare_invoke();
        for key in &self.keys[bucket] {
            call.key(key);
        }
        call.arg(to.due_ms.unwrap_or(0));
        for (payload, number) in payloads.into_iter().zip(first..) {
            call.arg(&id(number)[..]).arg(payload);
        }
        let pushed: u64 = call.invoke_async(&mut self.connection.clone()).await?;
        (pushed == count)
            .then_some(())
            .ok_or_else(|| "the ceiling lost a push".into())
    }

    async fn left(&self) -> Result<usize> {
        let mut pipe = redis::pipe();
        for [_, _, _, body, _] in self.keys.iter() {
            pipe.hlen(body); // A body stays until its event is settled.
        }
        let left: Vec<usize> = pipe.query_async(&mut self.connection.clone()).await?;
        Ok(left.iter().sum())
    }

    async fn close(&self) -> Result {
        self.stop.store(true, Ordering::Relaxed);
        let takers = std::mem::take(&mut *self.takers.lock().map_err(|_| "poisoned")?);
        for taker in takers {
            taker
                .join()
                .map_err(|_| "a thread of the ceiling panicked")?;
        }
        Ok(())
    }
}

/// Delayed, ready, held, bodies, records.
fn keys(bucket: usize) -> [String; 5] {
    ["delay", "ready", "held", "body", "record"].map(|kind| format!("raw:{{{bucket}}}:{kind}"))
}

/// 16 bytes that no two events share, and that look as random as real ones.
fn id(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    id[8..].copy_from_slice(&mixed.to_be_bytes());
    id
}

/// An event that was taken: its bucket, its id, its payload and when it is due.
struct Taken {
    bucket: usize,
    id: Vec<u8>,
    payload: String,
    due_us: u64,
}

/// Takes what is due from its buckets and settles what has run, both in one round trip.
struct Taker {
    connection: Connection,
    keys: Arc<[[String; 5]]>,
    mine: Vec<usize>,
    watch: Arc<Watch>,
    ahead: Duration,
    timer: Sender<(usize, Taken)>,
    settle: Receiver<(usize, Vec<u8>)>,
    /// Of one event; empty when there are none.
    record: &'static [u8],
    stop: Arc<AtomicBool>,
}

impl Taker {
    fn run(&mut self, take_max: usize) -> Result {
        let take: String = load(&mut self.connection, TAKE)?;
        let settle: String = load(&mut self.connection, SETTLE)?;
        let mut ran: Vec<Vec<Vec<u8>>> = vec![Vec::new(); BUCKETS];
        let mut next_us = [0; BUCKETS];
        while !self.stop.load(Ordering::Relaxed) {
            for (bucket, id) in self.settle.try_iter() {
                ran[bucket].push(id);
            }
            let now = now_us();
            let due = |bucket: &usize| next_us[*bucket] <= now;
            let asked: Vec<usize> = self.mine.iter().copied().filter(due).collect();
            if asked.is_empty() {
                let next = self.mine.iter().map(|bucket| next_us[*bucket]).min();
                let sleep_us = next.unwrap_or(0).saturating_sub(now_us());
                thread::sleep(Duration::from_micros(sleep_us));
                continue;
            }
            let mut pipe = redis::pipe();
            for &bucket in &asked {
                for ids in std::mem::take(&mut ran[bucket]).chunks(take_max) {
                    let call = pipe.cmd("EVALSHA").arg(&settle).arg(5);
                    call.arg(&self.keys[bucket])
                        .arg(self.record.repeat(ids.len()));
                    call.arg(ids).ignore();
                }
                let call = pipe.cmd("EVALSHA").arg(&take).arg(5);
                call.arg(&self.keys[bucket]);
                call.arg(take_max).arg(self.ahead.as_millis() as u64);
            }
            let answers: Vec<Value> = pipe.query(&mut self.connection)?;
            for (&bucket, answer) in asked.iter().zip(answers) {
                let (head_ms, ids, payloads): (u64, Vec<Vec<u8>>, Vec<String>) =
                    redis::from_redis_value(answer)?;
                next_us[bucket] = self.next_look(head_ms, ids.len() == take_max);
                for (id, payload) in ids.into_iter().zip(payloads) {
                    self.start(bucket, id, payload, &mut ran)?;
                }
            }
        }
        Ok(())
    }

    fn next_look(&self, head_ms: u64, full: bool) -> u64 {
        let now = now_us();
        if full {
            return now;
        }
        let head = match head_ms {
            0 => u64::MAX,
            ms => ms * 1_000 - self.ahead.as_micros() as u64,
        };
        let step = if self.ahead.is_zero() {
            0
        } else {
            AHEAD_STEP_US
        };
        head.clamp(now + step, now + LOOK_US)
    }

    /// Runs what is due, and gives the rest to the timer.
    fn start(
        &self,
        bucket: usize,
        id: Vec<u8>,
        payload: String,
        ran: &mut [Vec<Vec<u8>>],
    ) -> Result {
        let due_us = payload.get(..16).ok_or("a payload is cut")?.parse()?;
        if due_us <= now_us() {
            self.watch.starts(&payload);
            ran[bucket].push(id);
            return Ok(());
        }
        let taken = Taken {
            bucket,
            id,
            payload,
            due_us,
        };
        Ok(self.timer.send((bucket % TAKERS, taken))?)
    }
}

/// Starts what was taken ahead, each at its time, until all takers are gone.
fn fire(
    waiting: &Receiver<(usize, Taken)>,
    settled_by: &[Sender<(usize, Vec<u8>)>],
    watch: &Watch,
) {
    let mut queued = std::collections::BTreeMap::new();
    let mut number = 0_u64;
    loop {
        let now = now_us();
        while let Some(first) = queued.first_entry() {
            let ((due_us, _), _) = (first.key(), first.get());
            if *due_us > now {
                break;
            }
            let (taker, taken): (usize, Taken) = first.remove();
            watch.starts(&taken.payload);
            // A taker that has stopped settles nothing more.
            let _ = settled_by[taker].send((taken.bucket, taken.id));
        }
        let next = queued.first_key_value().map(|((due_us, _), _)| *due_us);
        let sleep_us = next.unwrap_or(u64::MAX).saturating_sub(now_us());
        match waiting.recv_timeout(Duration::from_micros(sleep_us.min(LOOK_US))) {
            Ok(taken) => {
                for (taker, taken) in std::iter::once(taken).chain(waiting.try_iter()) {
                    number += 1;
                    queued.insert((taken.due_us, number), (taker, taken));
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn load(connection: &mut Connection, script: &str) -> Result<String> {
    Ok(redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(script)
        .query(connection)?)
}
