//! duly, with records and default settings.

use std::sync::Arc;
use std::time::Duration;

use duly::Annotation;
use duly::config::Settings;
use duly::prelude::*;
use duly::time::{Timestamp, When};

use crate::contender::{Contender, Setup, Shape, To, queue_name};
use crate::payload::{Watch, number_of};

pub struct OnDuly {
    bus: Bus,
    queues: Vec<Queue<String>>,
}

struct Starts(Arc<Watch>, Option<Shape>);

impl Handler for Starts {
    type Payload = String;

    async fn handle(&self, event: Event<String>, _cx: &Context) -> Result<(), Failure> {
        let fails = |shape: Shape| number_of(&event.payload).is_some_and(|it| shape.fails(it));
        if event.attempt() == 1 && self.1.is_some_and(fails) {
            return Err(Failure::retry_after(Shape::AGAIN, "not yet"));
        }
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
                    Starts(Arc::clone(&setup.watch), setup.shape),
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

    async fn push_as(&self, shape: Shape, to: To, payload: String, number: usize) -> crate::Result {
        let queue = &self.queues[to.queue];
        let mut event = queue.event(payload);
        event = match to.due_ms {
            Some(ms) => event.at(Timestamp::from_millis(ms)),
            None => event,
        };
        event = match (shape, number % 4) {
            (Shape::Mixed, 1) => event.key(format!("customer:{}", number % 1_000)),
            (Shape::Mixed, 2) => event.unique(format!("order:{number}"), Unique::Keep),
            (Shape::Mixed, 3) => event.expires_after(Duration::from_secs(600)),
            _ => event,
        };
        let receipt = event.push().await?;
        if shape.is_cancelled(number) {
            let _answer = queue.cancel(receipt.id()).await?;
        }
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
