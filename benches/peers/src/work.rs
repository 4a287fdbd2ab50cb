//! The workloads, each the same for every contender.

mod idle;
mod pushing;
mod shaped;
mod titles;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use self::pushing::{bulk, joined, singles};
use crate::Result;
use crate::contender::{Contender, Setup, Shape, To};
use crate::payload::{Watch, now_us, payload};
use crate::plan::Size;
use crate::server::Gauge;

/// Handlers that run at the same time where work is drained.
const WORKERS: usize = 64;
/// Calls under way at the same time, where each pushes many.
const BULK_PUSHERS: usize = 4;
const HOUR_MS: u64 = 3_600_000;
/// How long after its push an event of the steady works is due, in whole seconds.
pub const DELAY_MS: u64 = 2_000;
/// How often the steady works push.
pub const STEP_MS: u64 = 10;
/// When nothing has started for so long, what has not will not.
const PATIENCE: Duration = Duration::from_secs(12);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Push,
    Bulk,
    Drain,
    Single,
    Own,
    Own5,
    Own1,
    Mixed,
    Failing,
    Cancelled,
    Late,
    Fast,
    Shipped,
    Herd,
    Ahead,
    Idle,
    Resting,
}

impl Work {
    pub const ALL: [Self; 17] = [
        Self::Push,
        Self::Bulk,
        Self::Drain,
        Self::Single,
        Self::Own,
        Self::Own5,
        Self::Own1,
        Self::Mixed,
        Self::Failing,
        Self::Cancelled,
        Self::Late,
        Self::Shipped,
        Self::Fast,
        Self::Herd,
        Self::Ahead,
        Self::Idle,
        Self::Resting,
    ];

    /// Does the work, and says what was measured: pairs of a name and a value.
    pub async fn measure<C: Contender>(self, url: &str, size: Size) -> Result<Vec<(String, f64)>> {
        let bench = Bench { url, size };
        let ms = size.span.as_millis() as usize;
        match self {
            Self::Push => bench.push::<C>().await,
            Self::Bulk => bench.bulk::<C>().await,
            Self::Drain => bench.drain::<C>().await,
            Self::Single => bench.shaped::<C>(Shape::Plain, size.events).await,
            Self::Own => {
                bench
                    .shaped::<C>(Shape::Own { a_ms: 20 }, size.events)
                    .await
            }
            Self::Own5 => bench.shaped::<C>(Shape::Own { a_ms: 5 }, 5 * ms).await,
            Self::Own1 => bench.shaped::<C>(Shape::Own { a_ms: 1 }, ms).await,
            Self::Mixed => bench.shaped::<C>(Shape::Mixed, size.events).await,
            Self::Failing => bench.shaped::<C>(Shape::Failing, size.events).await,
            Self::Cancelled => {
                bench
                    .shaped::<C>(Shape::Cancelled { a_ms: 20 }, size.events)
                    .await
            }
            Self::Late => bench.late::<C>(1_000, false).await,
            Self::Fast => bench.late::<C>(20_000, false).await,
            Self::Shipped => bench.late::<C>(1_000, true).await,
            Self::Herd => bench.herd::<C>(false).await,
            Self::Ahead => bench.herd::<C>(true).await,
            Self::Idle => bench.idle::<C>(false).await,
            Self::Resting => bench.idle::<C>(true).await,
        }
    }
}

struct Bench<'a> {
    url: &'a str,
    size: Size,
}

type Figures = Vec<(String, f64)>;

impl Bench<'_> {
    async fn open<C: Contender>(&self, setup: Setup) -> Result<Arc<C>> {
        let contender = C::open(setup).await?;
        sleep(Duration::from_millis(300)).await; // What starting has stirred up settles.
        Ok(Arc::new(contender))
    }

    fn setup(&self, workers: usize, watch: &Arc<Watch>) -> Setup {
        Setup {
            url: self.url.to_owned(),
            queues: 1,
            workers,
            watch: Arc::clone(watch),
            read_ahead: true,
            as_shipped: false,
            shape: None,
        }
    }

    async fn push<C: Contender>(&self) -> Result<Figures> {
        let contender: Arc<C> = self.open(self.setup(0, &Watch::new(0))).await?;
        let mut gauge = Gauge::new(self.url)?;
        let to = in_an_hour();
        singles(&contender, to, 0..256).await?; // Scripts are loaded and connections open.
        let before = contender.left().await?;
        let (cpu_us, start) = (gauge.cpu_us()?, Instant::now());
        singles(&contender, to, 0..self.size.events).await?;
        let took = start.elapsed();
        let figures = vec![
            rate(self.size.events, took),
            per_event("server cpu us", gauge.cpu_us()? - cpu_us, self.size.events),
        ];
        let there = contender.left().await? - before;
        contender.close().await?;
        all_there(there, self.size.events)?;
        Ok(figures)
    }

    async fn bulk<C: Contender>(&self) -> Result<Figures> {
        let contender: Arc<C> = self.open(self.setup(0, &Watch::new(0))).await?;
        let mut gauge = Gauge::new(self.url)?;
        let to = in_an_hour();
        singles(&contender, to, 0..256).await?;
        let before = contender.left().await?;
        let (bytes, cpu_us, start) = (gauge.bytes()?, gauge.cpu_us()?, Instant::now());
        let mut figures = Vec::new();
        if C::BULK_DELAYED {
            bulk(&contender, to, self.size.events, None).await?;
            let took = start.elapsed();
            figures.push(rate(self.size.events, took));
            let cpu_us = gauge.cpu_us()? - cpu_us;
            figures.push(per_event("server cpu us", cpu_us, self.size.events));
        } else {
            singles(&contender, to, 0..self.size.events).await?;
        }
        let bytes = gauge.bytes()? - bytes;
        figures.push(per_event("server bytes", bytes, self.size.events));
        let there = contender.left().await? - before;
        contender.close().await?;
        all_there(there, self.size.events)?;
        Ok(figures)
    }

    async fn drain<C: Contender>(&self) -> Result<Figures> {
        let watch = Watch::new(self.size.events);
        let contender: Arc<C> = self.open(self.setup(WORKERS, &watch)).await?;
        let mut gauge = Gauge::new(self.url)?;
        let to = To {
            queue: 0,
            due_ms: None,
        };
        let (server_us, own, start) = (gauge.cpu_us()?, cpu_time(), Instant::now());
        bulk(&contender, to, self.size.events, Some(&watch)).await?;
        watch.until(self.size.events, PATIENCE).await;
        let took = start.elapsed();
        settled(&*contender).await?;
        let own_us = (cpu_time() - own).as_secs_f64() * 1e6;
        let server_us = gauge.cpu_us()? - server_us;
        contender.close().await?;
        let mut figures = account(&watch, self.size.events);
        if watch.started() == self.size.events {
            figures.push(rate(self.size.events, took));
            figures.push(per_event("server cpu us", server_us, self.size.events));
            figures.push(per_event("own cpu us", own_us, self.size.events));
        }
        Ok(figures)
    }

    async fn late<C: Contender>(&self, a_second: usize, as_shipped: bool) -> Result<Figures> {
        let each = (a_second as u64 / 1_000).max(1) as usize;
        let steps = self.size.span.as_millis() as u64 / STEP_MS;
        let events = steps as usize * STEP_MS as usize * each;
        let watch = Watch::new(events);
        let setup = Setup {
            as_shipped,
            ..self.setup(WORKERS, &watch)
        };
        let contender: Arc<C> = self.open(setup).await?;
        let (begun, first_ms) = (Instant::now(), now_us() / 1_000 + DELAY_MS);
        for step in 0..steps {
            let mut pushes = JoinSet::new();
            for ms in 0..STEP_MS {
                let tick = step * STEP_MS + ms;
                let due_ms = Some(first_ms + tick);
                let to = To { queue: 0, due_ms };
                let contender = Arc::clone(&contender);
                pushes.spawn(async move {
                    let numbers = tick as usize * each..(tick as usize + 1) * each;
                    let mut payloads: Vec<_> = numbers.map(|n| payload(due_ms, n)).collect();
                    match (payloads.len(), payloads.pop()) {
                        (1, Some(payload)) => contender.push(to, payload).await,
                        (_, last) => {
                            payloads.extend(last);
                            contender.push_many(to, payloads).await
                        }
                    }
                });
            }
            joined(pushes).await?;
            sleep_until(begun + Duration::from_millis((step + 1) * STEP_MS)).await;
        }
        watch.until(events, PATIENCE).await;
        if watch.started() == events {
            settled(&*contender).await?;
        }
        contender.close().await?;
        let mut figures = account(&watch, events);
        let late = watch.lateness();
        for (name, part) in [("p50 ms", 0.5), ("p99 ms", 0.99), ("max ms", 1.0)] {
            let at = late.get(((late.len().max(1) - 1) as f64 * part) as usize);
            figures.extend(at.map(|us| (name.to_owned(), *us as f64 / 1e3)));
        }
        figures.push(early(&late));
        Ok(figures)
    }

    async fn herd<C: Contender>(&self, read_ahead: bool) -> Result<Figures> {
        let events = self.size.herd.min(C::HERD_MAX);
        let watch = Watch::new(events);
        let setup = Setup {
            read_ahead,
            ..self.setup(WORKERS, &watch)
        };
        let contender: Arc<C> = self.open(setup).await?;
        let due_ms = now_us() / 1_000 + 1_500 + events as u64 / 10;
        let due = Some(due_ms);
        let to = To {
            queue: 0,
            due_ms: due,
        };
        if C::BULK_DELAYED {
            bulk(&contender, to, events, None).await?;
        } else {
            singles(&contender, to, 0..events).await?;
        }
        if now_us() + 500_000 > due_ms * 1_000 {
            return Err("pushing them took so long that the first were due before".into());
        }
        watch.until(events, PATIENCE).await;
        settled(&*contender).await?;
        contender.close().await?;
        let mut figures = account(&watch, events);
        let late = watch.lateness();
        if let (true, Some(last)) = (watch.started() == events, late.last()) {
            figures.push(("last ms".to_owned(), *last as f64 / 1e3));
        }
        figures.push(early(&late));
        if events < self.size.herd {
            figures.push(("of only".to_owned(), events as f64));
        }
        Ok(figures)
    }
}

fn in_an_hour() -> To {
    To {
        queue: 0,
        due_ms: Some(now_us() / 1_000 + HOUR_MS),
    }
}

/// Waits a while until nothing is left, so that what was done is also paid for.
async fn settled<C: Contender>(contender: &C) -> Result {
    let begun = Instant::now();
    while contender.left().await? > 0 && begun.elapsed() < Duration::from_secs(3) {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn all_there(there: usize, pushed: usize) -> Result {
    if there == pushed {
        return Ok(());
    }
    Err(format!("pushed {pushed} events, {there} are there").into())
}

/// What is missing and what came twice, if anything.
fn account(watch: &Watch, events: usize) -> Figures {
    vec![
        ("missing".to_owned(), (events - watch.started()) as f64),
        ("doubled".to_owned(), watch.doubled() as f64),
    ]
}

fn early(late_us: &[i64]) -> (String, f64) {
    let early = late_us.iter().filter(|us| **us < 0).count();
    ("early".to_owned(), early as f64)
}

fn rate(events: usize, took: Duration) -> (String, f64) {
    ("events/s".to_owned(), events as f64 / took.as_secs_f64())
}

fn per_event(name: &str, sum: f64, events: usize) -> (String, f64) {
    (name.to_owned(), sum / events as f64)
}

/// Processor time of this process; none where the system does not tell.
fn cpu_time() -> Duration {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanos = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
