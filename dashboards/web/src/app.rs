//! The state that all requests of a dashboard share.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use duly::Bus;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::access::{Access, User};
use crate::error::{PageError, Result};
use crate::hour_sums::HourSums;
use crate::questions::in_time;
use crate::sample::Sampler;
use crate::sessions::Sessions;
use crate::streams::Streams;
use crate::sweeps::Sweeps;
use crate::throttle::LoginThrottle;
use crate::turns::Turns;

/// The most actions of a namespace that give queues settings, or wait to do it.
const TURNS_MAX: usize = 100;

/// A dashboard's own state.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) bus: Bus,
    /// The path of the dashboard, with which every link begins.
    pub(crate) base: String,
    /// The name of the store, if there are several.
    pub(crate) name: String,
    /// The names of all stores, and the paths of their dashboards.
    pub(crate) stores: Vec<(String, String)>,
    pub(crate) access: Arc<dyn Access>,
    /// Whether browsers reach it over TLS only.
    pub(crate) is_secure: bool,
    pub(crate) sampler: Arc<Sampler>,
    pub(crate) hour_sums: HourSums,
    pub(crate) sweeps: Arc<Sweeps>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) throttle: LoginThrottle,
    pub(crate) sessions: Sessions,
    pub(crate) closing: Closing,
    /// Of what reads much.
    pub(crate) reads: Turns,
    /// Held, of each namespace, by actions that give its queues settings: what they have counted
    /// holds.
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// Done when the server stops.
#[derive(Clone)]
pub(crate) struct Closing(Shared<BoxFuture<'static, ()>>);

impl Closing {
    pub(crate) fn new(closing: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(closing.boxed().shared())
    }

    pub(crate) async fn wait(self) {
        self.0.await;
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closing")
    }
}

impl App {
    pub(crate) fn new(bus: Bus, access: Arc<dyn Access>) -> Self {
        // A line of the audit says which user it was.
        let bus = bus.with_own_audit();
        Self {
            sampler: Arc::new(Sampler::new(bus.clone())),
            hour_sums: HourSums::default(),
            bus,
            base: "/dashboard".to_owned(),
            name: String::new(),
            stores: Vec::new(),
            access,
            is_secure: false,
            sweeps: Arc::default(),
            streams: Arc::default(),
            throttle: LoginThrottle::default(),
            sessions: Sessions::default(),
            closing: Closing::new(std::future::pending()),
            reads: Turns::default(),
            turns: Default::default(),
        }
    }

    /// Waits for the turn of a namespace to give queues settings, while few of it wait.
    pub(crate) async fn turn_of(&self, namespace: &str) -> Result<OwnedMutexGuard<()>> {
        let turn = {
            let mut turns = self.turns.lock();
            // Whoever has a turn, or waits for one, has it from here.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            let turn = turns.entry(namespace.to_owned()).or_default();
            if Arc::strong_count(turn) > TURNS_MAX {
                let text = "too many changes of the namespace wait for their turn; try again later";
                return Err(PageError::new(StatusCode::TOO_MANY_REQUESTS, text));
            }
            Arc::clone(turn)
        };
        Ok(turn.lock_owned().await)
    }

    /// Records what a user has done: in the store, and wherever else this dashboard keeps it.
    pub(crate) async fn audit(&self, user: &User, action: &str, target: &str) {
        self.access.audit(user, action, target).await;
        let added = in_time(self.bus.add_to_audit(&user.name, action, target));
        if let Err(error) = added.await {
            tracing::error!(%error, user = user.name, action, target, "audit failed");
        }
    }
}
