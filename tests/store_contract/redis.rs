//! Redis stores for the suite, each under a key prefix of its own.

use std::sync::Arc;

use duly::store::{DedupWindow, RedisOptions, RedisStore, Store};
use duly::testing::ManualClock;
use duly_conformance::store_contract::{HarnessFuture, StoreHarness, Subject};

use crate::servers;

/// Makes stores on the server or the cluster that this answers the URL of.
pub(crate) struct RedisHarness(pub(crate) fn() -> String);

struct RedisSubject {
    store: Arc<RedisStore>,
    url: String,
    options: RedisOptions,
}

impl RedisSubject {
    async fn open(url: String, options: RedisOptions) -> Arc<dyn Subject> {
        let store = RedisStore::open_with(&url, options.clone()).await;
        Arc::new(Self {
            store: Arc::new(store.expect("a store")),
            url,
            options,
        })
    }
}

impl StoreHarness for RedisHarness {
    fn fresh(
        &self,
        clock: Arc<ManualClock>,
        window: DedupWindow,
    ) -> HarnessFuture<Arc<dyn Subject>> {
        let options = RedisOptions::new().clock(clock).window(window);
        // An audit reads everything, on a machine that may be busy.
        let url = format!("{}?prefix={}&timeout=50s", (self.0)(), servers::prefix());
        Box::pin(RedisSubject::open(url, options))
    }

    fn is_steady(&self) -> bool {
        false
    }
}

impl Subject for RedisSubject {
    fn store(&self) -> Arc<dyn Store> {
        let store: Arc<RedisStore> = Arc::clone(&self.store);
        store
    }

    fn check(&self) -> HarnessFuture<Result<(), String>> {
        let store = Arc::clone(&self.store);
        Box::pin(async move {
            match store.audit_whole().await.expect("an audit") {
                wrong if wrong.is_empty() => Ok(()),
                wrong => Err(wrong.join("; ")),
            }
        })
    }

    fn reopen(&self) -> Option<HarnessFuture<Arc<dyn Subject>>> {
        let (store, options) = (Arc::clone(&self.store), self.options.clone());
        let url = self.url.clone();
        Some(Box::pin(async move {
            store.close().await.expect("a close");
            Self::open(url, options).await
        }))
    }
}
