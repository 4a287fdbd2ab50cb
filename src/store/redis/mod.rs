//! The Redis store: many processes, many machines.
//!
//! Each operation is one script on the keys of one bucket, so it is atomic, and takes one round
//! trip. The meaning is that of the reference store.

#![allow(dead_code)] // under construction

mod answer;
mod ask;
mod backoff;
mod body;
mod by_hand;
mod check;
mod choices;
mod durable;
mod fault;
mod hub;
mod keys;
mod lane;
mod link;
mod news;
mod options;
mod outbox;
mod push;
mod record;
mod scripts;
mod shared;
#[cfg(test)]
mod tests;
mod topology;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use self::choices::RedisOptions;
use self::link::Link;
use self::options::LinkOptions;
use self::push::Pushes;
use self::shared::Shared;
use self::url::Target;
use crate::core::op::{Answer, StoreOp};
use crate::error::Result;
use crate::event::{BucketKey, QueueName};
use crate::record::{Page, Query, Record};
use crate::store::{Control, Durability, Presence, Roll, Setting, Store, StoreFuture, Watcher};

/// A store on Redis, for many processes.
pub struct RedisStore {
    shared: Arc<Shared>,
    pushes: Arc<Pushes>,
    durability: Durability,
}

impl RedisStore {
    /// Connects to the servers that `url` names.
    ///
    /// # Errors
    ///
    /// When they cannot be reached.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, RedisOptions::new()).await
    }

    /// Connects, with choices of your own.
    ///
    /// # Errors
    ///
    /// When they cannot be reached.
    pub async fn open_with(url: &str, options: RedisOptions) -> Result<Self> {
        let target = Target::parse(url)?;
        let link_options = LinkOptions::of(&target);
        let pushes = Link::open(&target, &link_options).await?;
        let work = Link::open(&target, &link_options).await?;
        let prefix = target.asked.prefix.unwrap_or_else(|| "duly".to_owned());
        let shared = Shared::new(prefix, pushes, work, options);
        Ok(Self {
            shared: Arc::new(shared),
            pushes: Arc::default(),
            durability: Durability::OsCache,
        })
    }
}

impl RedisStore {
    /// Checks every bucket: that each event is in exactly one place, and every counter right.
    /// Answers what is not so, in words, at most 100 of each bucket; an empty list is good news.
    ///
    /// It looks at every event, bucket by bucket, and a server does nothing else while it looks at
    /// one: some seconds for a million events.
    ///
    /// # Errors
    ///
    /// When the servers cannot be reached.
    pub async fn audit(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for bucket in hub::buckets(&self.shared).await?.into_values() {
            let call = self.shared.terms().audit(&self.shared.keys(&bucket));
            let mut parts = self.shared.call(&self.shared.work, &call).await?;
            parts.number()?;
            while !parts.is_empty() {
                let words = parts.bytes()?;
                wrong.push(format!("{bucket}: {}", String::from_utf8_lossy(&words)));
            }
        }
        Ok(wrong)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.shared.prefix)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn apply(&self, bucket: &BucketKey, op: StoreOp) -> StoreFuture<Answer> {
        let (shared, bucket) = (Arc::clone(&self.shared), bucket.clone());
        match op {
            StoreOp::Push(events) => {
                let pushes = Arc::clone(&self.pushes);
                Box::pin(async move { Pushes::push(&pushes, &shared, bucket, events).await })
            }
            StoreOp::Update { id, payload } => {
                Box::pin(async move { by_hand::update(&shared, &bucket, id, &payload).await })
            }
            StoreOp::Peek {
                state,
                after,
                limit,
            } => {
                Box::pin(async move { by_hand::peek(&shared, &bucket, state, after, limit).await })
            }
            op => Box::pin(async move { shared.operate(&bucket, op).await }),
        }
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn now_us(&self) -> u64 {
        self.shared.now_us()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let buckets = hub::buckets(&shared).await?;
            let mut buckets: Vec<_> = buckets.into_values().collect();
            buckets.sort_unstable();
            Ok(buckets)
        })
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.shared.watch(watcher);
    }

    fn roll_call(&self, me: Presence) -> StoreFuture<Roll> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { hub::roll_call(&shared, me).await })
    }

    fn controls(&self) -> StoreFuture<BTreeMap<QueueName, Control>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { hub::controls(&shared).await })
    }

    fn set(&self, queue: &QueueName, setting: Setting) -> StoreFuture<()> {
        let (shared, queue) = (Arc::clone(&self.shared), queue.clone());
        Box::pin(async move { hub::set(&shared, &queue, setting).await })
    }

    fn records(&self, query: Query) -> StoreFuture<Page<Record>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { outbox::page(&shared, &query).await })
    }

    fn close(&self) -> StoreFuture<()> {
        let (shared, pushes) = (Arc::clone(&self.shared), Arc::clone(&self.pushes));
        Box::pin(async move {
            while !pushes.is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            shared.close();
            Ok(())
        })
    }
}
