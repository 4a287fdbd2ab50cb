//! Retention: how long a single step may block a load.

use std::time::Duration;

use duly::journal::Keep;
use duly::time::Timestamp;
use tokio::time::Instant;

use crate::Result;
use crate::contender::Contender;

/// How many steps are taken.
const STEPS: u64 = 20;

pub(crate) async fn run(contender: &dyn Contender, many: u64) -> Result {
    let keep = Keep {
        age: None,
        count: Some(many / 2),
        minutes: None,
        at_once: true,
    };
    let (mut removed, mut longest, mut all) = (0, Duration::ZERO, Duration::ZERO);
    for _ in 0..STEPS {
        let began = Instant::now();
        let step = contender.journal().prune(keep, Timestamp::EPOCH).await?;
        let took = began.elapsed();
        removed += step.records;
        longest = longest.max(took);
        all += took;
        if !step.more {
            break;
        }
    }
    println!(
        "\n{}: pruned {removed} records, {:.0} a second, the longest step {:.1} ms",
        contender.name(),
        removed as f64 / all.as_secs_f64(),
        longest.as_secs_f64() * 1e3
    );
    Ok(())
}
