//! Ways to hand events to 64 workers: duly's, and common alternatives.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::pool::{ClosurePool, board};
use crate::{CAPACITY, Event, WORKERS};

pub(crate) async fn duly<H, F>(events: usize, batch: usize, limit: Option<Duration>, handler: H)
where
    H: Fn(Event) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let pool = ClosurePool::new(&board(), CAPACITY, WORKERS, limit, handler);
    let mut publisher = pool.publisher();
    if batch == 1 {
        for id in 0..events {
            let _ = publisher.publish(Event::new(id)).await;
        }
    } else {
        let mut batched = VecDeque::with_capacity(batch);
        for first in (0..events).step_by(batch) {
            batched.extend((first..events.min(first + batch)).map(Event::new));
            let _ = publisher.publish_many(&mut batched).await;
        }
    }
    pool.idle().await;
}

pub(crate) async fn tokio_workers<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = tokio::sync::mpsc::channel(CAPACITY);
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            loop {
                let event = receiver.lock().await.recv().await;
                let Some(event) = event else { return };
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}

pub(crate) async fn tokio_spawn<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, mut receiver) = tokio::sync::mpsc::channel(CAPACITY);
    let places = Arc::new(Semaphore::new(WORKERS));
    let dispatcher = tokio::spawn(async move {
        while let Some(event) = receiver.recv().await {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            tokio::spawn(async move {
                handler(event).await;
                drop(place);
            });
        }
        let _ = places.acquire_many(WORKERS as u32).await;
    });
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    let _ = dispatcher.await;
}

pub(crate) async fn async_channel<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = async_channel::bounded(CAPACITY);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            while let Ok(event) = receiver.recv().await {
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}

pub(crate) async fn flume<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = flume::bounded(CAPACITY);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            while let Ok(event) = receiver.recv_async().await {
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send_async(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}

pub(crate) async fn kanal<F>(events: usize, handler: fn(Event) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = kanal::bounded_async(CAPACITY);
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let receiver = receiver.clone();
        workers.spawn(async move {
            while let Ok(event) = receiver.recv().await {
                handler(event).await;
            }
        });
    }
    for id in 0..events {
        let _ = sender.send(Event::new(id)).await;
    }
    drop(sender);
    workers.join_all().await;
}
