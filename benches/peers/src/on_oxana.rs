//! oxana.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::DateTime;
use oxana::{JobContext, OxanaError, QueueConfig, Storage};
use serde::{Deserialize, Serialize};
use tokio::sync::watch::{Sender, channel};
use tokio::task::JoinHandle;

use crate::Result;
use crate::contender::{Contender, Setup, To, queue_name};
use crate::payload::Watch;

/// How often it looks, for what is due and for what is ready: it is not woken.
const POLL: Duration = Duration::from_millis(5);
const CONNECTIONS: usize = 100;

pub struct OnOxana {
    storage: Storage,
    stop: Sender<bool>,
    running: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Serialize, Deserialize, oxana::Job)]
struct Tick {
    payload: String,
}

type Shared = Arc<Watch>;

#[derive(oxana::Worker)]
#[oxana(job = Tick, context = Shared, error = OxanaError)]
struct Starts {
    watch: Shared,
}

impl Starts {
    async fn process(&self, tick: Tick, _cx: &JobContext) -> Result<(), OxanaError> {
        self.watch.starts(&tick.payload);
        Ok(())
    }
}

/// One of the queues.
struct Line(usize);

impl oxana::Queue for Line {
    fn key(&self) -> String {
        queue_name(self.0)
    }

    fn to_config() -> QueueConfig {
        QueueConfig::as_static(queue_name(0))
    }
}

impl Contender for OnOxana {
    const BATCH: usize = 1_000;
    const BULK_DELAYED: bool = false;

    async fn open(setup: Setup) -> Result<Self> {
        let mut storage = Storage::builder();
        if !setup.as_shipped {
            storage = storage.max_pool_size(CONNECTIONS);
        }
        let storage = storage.build_from_redis_url(&setup.url)?;
        let (stop, mut stopped) = channel(false);
        let mut running = None;
        if setup.workers > 0 {
            let mut runtime = storage.runtime(Arc::clone(&setup.watch));
            for place in 0..setup.queues {
                let config = QueueConfig::as_static(queue_name(place));
                runtime = runtime.queue_with(config.concurrency(setup.workers));
            }
            if !setup.as_shipped {
                runtime = runtime.schedule_poll_interval(POLL).dequeue_timeout(POLL);
            }
            let runtime = runtime.worker::<Starts, Tick>().shutdown_on(async move {
                // An error means that nobody is left who could ask for it.
                let _ = stopped.wait_for(|stop| *stop).await;
                Ok(())
            });
            running = Some(tokio::spawn(async move {
                if let Err(error) = runtime.run().await {
                    eprintln!("oxana: the runtime has ended: {error}");
                }
            }));
        }
        Ok(Self {
            storage,
            stop,
            running: Mutex::new(running),
        })
    }

    async fn push(&self, to: To, payload: String) -> Result {
        let (line, tick) = (Line(to.queue), Tick { payload });
        match to.due_ms {
            None => self.storage.enqueue(line, tick).await?,
            Some(ms) => {
                let due = DateTime::from_timestamp_millis(ms as i64).ok_or("no such time")?;
                self.storage.enqueue_at(line, tick, due).await?
            }
        };
        Ok(())
    }

    async fn push_many(&self, to: To, payloads: Vec<String>) -> Result {
        if to.due_ms.is_some() {
            return Err("oxana has no call that pushes many delayed jobs".into());
        }
        let ticks = payloads.into_iter().map(|payload| Tick { payload });
        self.storage.enqueue_list(Line(to.queue), ticks).await?;
        Ok(())
    }

    async fn left(&self) -> Result<usize> {
        Ok(self.storage.jobs_count().await?)
    }

    async fn close(&self) -> Result {
        self.stop.send_replace(true);
        let running = self.running.lock().map_err(|_| "poisoned")?.take();
        if let Some(running) = running {
            tokio::time::timeout(Duration::from_secs(15), running).await??;
        }
        Ok(())
    }
}
