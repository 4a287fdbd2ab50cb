//! The cost of an idle bus: ten queues, and events a day away.

use std::sync::Arc;
use std::time::Duration;

use duly::Annotation;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::Result;
use crate::scene::{Counts, Kept, Plan, bare_builder, payload};
use crate::watch::cpu_time;

const QUEUES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const TOMORROW: Duration = Duration::from_secs(86_400);

pub(crate) async fn run(plan: Plan) -> Result {
    println!("\nidle: 10 queues of 8 buckets with 1,000 events each, due tomorrow");
    println!("{:<44} {:>14}", "", "% of a core");
    line(
        "ten tasks that wake each 10 ms and do nothing",
        polling(plan.idle).await,
    );
    for kept in Kept::ALL {
        line(kept.name(), waiting(kept, plan.idle).await?);
    }
    Ok(())
}

fn line(name: &str, percent: f64) {
    println!("{name:<44} {percent:>14.3}");
}

/// What polling would cost, without the questions.
async fn polling(span: Duration) -> f64 {
    let mut tasks = JoinSet::new();
    for _ in QUEUES {
        tasks.spawn(async {
            let mut ticks = interval(Duration::from_millis(10));
            loop {
                ticks.tick().await;
            }
        });
    }
    watched(span).await
}

async fn waiting(kept: Kept, span: Duration) -> Result<f64> {
    let (url, _directory) = kept.fresh()?;
    let mut builder = bare_builder(&url);
    for queue in QUEUES {
        builder = builder.register_as(Annotation::new(queue), Counts(Arc::default()));
    }
    let bus = builder.start().await?;
    for queue in QUEUES {
        let queue = bus.queue_named::<String>(queue)?;
        queue
            .push_many((0..1_000).map(|_| payload()), TOMORROW)
            .await?;
    }
    sleep(Duration::from_millis(200)).await;
    let percent = watched(span).await;
    bus.shutdown(Duration::from_secs(5)).await?;
    Ok(percent)
}

async fn watched(span: Duration) -> f64 {
    let before = cpu_time();
    sleep(span).await;
    (cpu_time() - before).as_secs_f64() / span.as_secs_f64() * 100.0
}
