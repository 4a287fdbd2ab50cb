//! duly, with records and default settings.

use std::sync::Arc;
use std::time::Duration;

use duly::Annotation;
use duly::config::Settings;
use duly::prelude::*;
use duly::time::{Timestamp, When};

use crate::contender::{Contender, Setup, To, queue_name};
use crate::payload::Watch;

pub struct OnDuly {
    bus: Bus,
    queues: Vec<Queue<String>>,
}

struct Starts(Arc<Watch>);

impl Handler for Starts {
    type Payload = String;

    async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        self.0.starts(&event.payload);
        Ok(())
    }
}

impl Contender for OnDuly {
    const BATCH: usize = 5_000;

    async fn open(setup: Setup) -> crate::Result<Self> {
        let mut builder = Bus::builder()
            .settings(Settings::default())
            .store_url(&setup.url)
            .only_registered();
        if setup.workers == 0 {
            builder = builder.publish_only();
        }
        if !setup.read_ahead {
            builder = builder.read_ahead(Duration::ZERO);
        }
        for place in 0..setup.queues {
            let choices = QueueChoices {
                workers: (setup.workers > 0).then_some(setup.workers),
                ..QueueChoices::default()
            };
            builder = builder
                .register_as(
                    Annotation::new(queue_name(place).leak()),
                    Starts(Arc::clone(&setup.watch)),
                )
                .queue(queue_name(place), choices);
        }
        let bus = builder.start().await?;
        let queues = (0..setup.queues).map(|place| bus.queue_named(&queue_name(place)));
        let queues = queues.collect::<duly::Result<_>>()?;
        Ok(Self { bus, queues })
    }

    async fn push(&self, to: To, payload: String) -> crate::Result {
        self.queues[to.queue].push(payload, when(to)).await?;
        Ok(())
    }

    async fn push_many(&self, to: To, payloads: Vec<String>) -> crate::Result {
        self.queues[to.queue].push_many(payloads, when(to)).await?;
        Ok(())
    }

    async fn left(&self) -> crate::Result<usize> {
        let stats = self.bus.stats(self.queues[0].name()).await?;
        Ok(stats.scheduled + stats.ready + stats.leased + stats.dead)
    }

    async fn close(&self) -> crate::Result {
        Ok(self.bus.shutdown(Duration::from_secs(5)).await?)
    }
}

fn when(to: To) -> When {
    match to.due_ms {
        Some(ms) => Timestamp::from_millis(ms).into(),
        None => Duration::ZERO.into(),
    }
}
