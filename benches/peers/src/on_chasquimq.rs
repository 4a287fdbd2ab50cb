//! chasquimq.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use chasquimq::{Bytes, Consumer, ConsumerConfig, HandlerError, Job, Producer, ProducerConfig};
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::contender::{Contender, Setup, To, queue_name};
use crate::payload::{Watch, now_us};

/// How often it looks for what is due: it is not woken.
const POLL_MS: u64 = 1;
/// Events that it moves when they are due, reads or settles in one call.
const CALL: usize = 1_000;
/// Every push cuts the stream to about so many events, handled or not; it may not be left out.
const LENGTH: u64 = 1_000_000_000;

pub struct OnChasquimq {
    producers: Vec<Producer<String>>,
    consumers: Mutex<JoinSet<()>>,
    stop: CancellationToken,
    /// To look with, beside the library, which does not count what is left.
    eyes: MultiplexedConnection,
}

impl Contender for OnChasquimq {
    const BATCH: usize = 1_000;

    async fn open(setup: Setup) -> Result<Self> {
        let client = redis::Client::open(setup.url.as_str())?;
        let eyes = client.get_multiplexed_async_connection().await?;
        let (mut producers, mut consumers) = (Vec::new(), JoinSet::new());
        let stop = CancellationToken::new();
        for place in 0..setup.queues {
            let producer = ProducerConfig {
                queue_name: queue_name(place),
                ..producer_config(setup.as_shipped)
            };
            producers.push(Producer::connect(&setup.url, producer).await?);
            if setup.workers == 0 {
                continue;
            }
            let consumer = ConsumerConfig {
                queue_name: queue_name(place),
                concurrency: setup.workers,
                ..consumer_config(setup.as_shipped)
            };
            let consumer = Consumer::<String>::new(&setup.url, consumer);
            let (stop, watch) = (stop.clone(), Arc::clone(&setup.watch));
            consumers.spawn(async move {
                let ended = consumer.run(move |job| starts(job, Arc::clone(&watch)), stop);
                if let Err(error) = ended.await {
                    eprintln!("chasquimq: the consumer has ended: {error}");
                }
            });
        }
        Ok(Self {
            producers,
            consumers: Mutex::new(consumers),
            stop,
            eyes,
        })
    }

    async fn push(&self, to: To, payload: String) -> Result {
        let producer = &self.producers[to.queue];
        match to.due_ms {
            Some(ms) => {
                let due = UNIX_EPOCH + Duration::from_millis(ms);
                producer.add_at(due, payload).await?
            }
            None => producer.add(payload).await?,
        };
        Ok(())
    }

    async fn push_many(&self, to: To, payloads: Vec<String>) -> Result {
        let producer = &self.producers[to.queue];
        match to.due_ms {
            Some(ms) => {
                // It adds the delay to a look at the clock that comes later: never early.
                let delay = Duration::from_millis(ms.saturating_sub(now_us() / 1_000));
                producer.add_in_bulk(delay, payloads).await?
            }
            None => producer.add_bulk(payloads).await?,
        };
        Ok(())
    }

    async fn left(&self) -> Result<usize> {
        let key = |kind| format!("{{chasqui:{}}}:{kind}", queue_name(0));
        let counts: (usize, usize) = redis::pipe()
            .xlen(key("stream"))
            .zcard(key("delayed"))
            .query_async(&mut self.eyes.clone())
            .await?;
        Ok(counts.0 + counts.1)
    }

    async fn close(&self) -> Result {
        self.stop.cancel();
        let mut consumers = self.consumers.lock().await;
        let all = async { while consumers.join_next().await.is_some() {} };
        Ok(tokio::time::timeout(Duration::from_secs(15), all).await?)
    }
}

async fn starts(job: Job<String>, watch: Arc<Watch>) -> Result<Bytes, HandlerError> {
    watch.starts(&job.payload);
    Ok(Bytes::new())
}

fn producer_config(as_shipped: bool) -> ProducerConfig {
    if as_shipped {
        return ProducerConfig::default();
    }
    ProducerConfig {
        max_stream_len: LENGTH,
        ..ProducerConfig::default()
    }
}

fn consumer_config(as_shipped: bool) -> ConsumerConfig {
    if as_shipped {
        return ConsumerConfig::default();
    }
    ConsumerConfig {
        delayed_poll_interval_ms: POLL_MS,
        delayed_promote_batch: CALL,
        delayed_max_stream_len: LENGTH,
        batch: CALL,
        ack_batch: CALL,
        // A stream of what happens, written event by event, and a schedule of what repeats.
        events_enabled: false,
        run_scheduler: false,
        ..ConsumerConfig::default()
    }
}
