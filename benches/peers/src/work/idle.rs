//! Nothing to do: what queues cost whose events are due tomorrow.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Bench, Figures, HOUR_MS, cpu_time};
use crate::Result;
use crate::contender::{Contender, Setup, To};
use crate::payload::{Watch, now_us, payload};
use crate::server::Gauge;

const QUEUES: usize = 10;
const WORKERS: usize = 16;

impl Bench<'_> {
    pub(super) async fn idle<C: Contender>(&self, as_shipped: bool) -> Result<Figures> {
        let setup = Setup {
            queues: QUEUES,
            as_shipped,
            ..self.setup(WORKERS, &Watch::new(0))
        };
        let contender: Arc<C> = self.open(setup).await?;
        let tomorrow = Some(now_us() / 1_000 + 24 * HOUR_MS);
        for queue in 0..QUEUES {
            for number in 0..100 {
                let to = To {
                    queue,
                    due_ms: tomorrow,
                };
                contender.push(to, payload(tomorrow, number)).await?;
            }
        }
        let mut gauge = Gauge::new(self.url)?;
        sleep(Duration::from_secs(2)).await;
        let (commands, server_us, own) = (gauge.commands()?, gauge.cpu_us()?, cpu_time());
        sleep(self.size.span).await;
        let own = cpu_time() - own;
        let server_us = gauge.cpu_us()? - server_us;
        let own_commands = 3.0; // The gauge's.
        let commands = gauge.commands()? - commands - own_commands;
        contender.close().await?;
        let seconds = self.size.span.as_secs_f64();
        Ok(vec![
            (
                "server commands/s".to_owned(),
                (commands / seconds).max(0.0),
            ),
            (
                "own % of a core".to_owned(),
                own.as_secs_f64() / seconds * 1e2,
            ),
            ("server % of a core".to_owned(), server_us / 1e4 / seconds),
        ])
    }
}
