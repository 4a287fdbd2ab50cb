//! beanstalkd, by a small client of our own: those on crates.io wait for each answer.

mod connection;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;

use self::connection::Connection;
use crate::Result;
use crate::contender::{Contender, Setup, To, queue_name};
use crate::payload::{Watch, now_us};
use crate::work::{DELAY_MS, STEP_MS};

/// Connections of a queue that push.
const PUSHERS: usize = 4;
/// Connections of a queue that reserve; they share its workers.
const CONSUMERS: usize = 4;

pub struct OnBeanstalkd {
    /// Of each queue.
    pushers: Vec<Vec<Mutex<Connection>>>,
    next: AtomicUsize,
    eyes: Mutex<Connection>,
    /// Whether a push of the steady works waits until its delay is a whole second.
    waits: bool,
    consumers: Mutex<JoinSet<()>>,
}

impl Contender for OnBeanstalkd {
    const BATCH: usize = 1_000;
    /// The 64 that are in flight ride in two calls, as those of the ceiling: it is our client.
    const IN_FLIGHT: (usize, usize) = (2, 32);

    async fn open(setup: Setup) -> Result<Self> {
        let (mut pushers, mut consumers) = (Vec::new(), JoinSet::new());
        let connections = match setup.as_shipped {
            true => setup.workers,
            false => setup.workers.min(CONSUMERS),
        };
        for place in 0..setup.queues {
            let mut of_queue = Vec::new();
            for _ in 0..PUSHERS {
                of_queue.push(Mutex::new(
                    Connection::open(&setup.url, &queue_name(place)).await?,
                ));
            }
            pushers.push(of_queue);
            for _ in 0..connections {
                let connection = Connection::open(&setup.url, &queue_name(place)).await?;
                let (workers, watch) = (setup.workers / connections, Arc::clone(&setup.watch));
                consumers.spawn(async move {
                    if let Err(error) = consume(connection, workers, &watch).await {
                        eprintln!("beanstalkd: a consumer has ended: {error}");
                    }
                });
            }
        }
        Ok(Self {
            pushers,
            next: AtomicUsize::new(0),
            eyes: Mutex::new(Connection::open(&setup.url, &queue_name(0)).await?),
            waits: !setup.as_shipped,
            consumers: Mutex::new(consumers),
        })
    }

    async fn push(&self, to: To, payload: String) -> Result {
        self.push_many(to, vec![payload]).await
    }

    async fn push_many(&self, to: To, payloads: Vec<String>) -> Result {
        let seconds = match to.due_ms {
            Some(ms) => self.delay(ms).await?,
            None => 0,
        };
        let place = self.next.fetch_add(1, Ordering::Relaxed) % PUSHERS;
        let mut pusher = self.pushers[to.queue][place].lock().await;
        pusher.put(seconds, &payloads).await
    }

    async fn left(&self) -> Result<usize> {
        self.eyes.lock().await.jobs(&queue_name(0)).await
    }

    async fn close(&self) -> Result {
        self.consumers.lock().await.shutdown().await;
        Ok(())
    }
}

impl OnBeanstalkd {
    /// Whole seconds from now until an event is due, rounded up, as none may be early.
    ///
    /// An event of the steady works is pushed for "in two seconds", a step at a time and so a
    /// little too soon. That little is waited for here, by a thread, since Tokio's timers are a
    /// millisecond late.
    async fn delay(&self, due_ms: u64) -> Result<u64> {
        let left = Duration::from_micros((due_ms * 1_000).saturating_sub(now_us()));
        let over = left.saturating_sub(Duration::from_millis(DELAY_MS));
        if self.waits && !over.is_zero() && over <= Duration::from_millis(STEP_MS) {
            tokio::task::spawn_blocking(move || std::thread::sleep(over)).await?;
            return Ok(DELAY_MS / 1_000);
        }
        Ok(left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }
}

/// Takes as many jobs at a time as it has workers while there are many, and else one.
async fn consume(mut connection: Connection, workers: usize, watch: &Watch) -> Result {
    let (mut handled, mut asked) = (Vec::new(), 1);
    loop {
        let jobs = connection.delete_and_reserve(&handled, asked).await?;
        asked = if jobs.len() == asked {
            workers.min(asked * 2)
        } else {
            1
        };
        handled.clear();
        for (id, payload) in jobs {
            watch.starts(&payload);
            handled.push(id);
        }
    }
}
