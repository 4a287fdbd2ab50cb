//! One connection of the pub/sub subscription.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushKind, RedisResult, Value};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::Channels;
use crate::error::Result;
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::topology::{self, Connection, Pushes};
use crate::store::redis::link::url::{Address, Target};

/// The number of channels that are subscribed to in one pipeline.
const CHANNELS_MAX: usize = 500;

/// Reports the number of a connection that has ended.
pub(super) type ConnectionLost = UnboundedSender<u64>;

/// A connection that receives pub/sub messages.
///
/// It never unsubscribes, so that a server's notice that it no longer serves a channel, because its
/// slot has moved, can be told from a reply. The package cannot tell them apart, and takes the one
/// for the other; so such a connection is dropped, as is one most of whose channels nobody needs.
pub(super) struct SubscriberConnection {
    pub(super) number: u64,
    /// The name of its node in the cluster, once it has channels.
    pub(super) node: Option<Vec<u8>>,
    /// How many of its channels nobody needs any more.
    pub(super) left: usize,
    connection: MultiplexedConnection,
    patience: Duration,
    probe: AbortHandle,
    probe_now: Arc<Notify>,
}

impl SubscriberConnection {
    /// Connects to one node of a cluster, or without one to the server that `target` names.
    pub(super) async fn open<T: Clone + Send + Sync + 'static>(
        target: &Target,
        options: &ConnectionOptions,
        address: Option<&Address>,
        number: u64,
        channels: Arc<Channels<T>>,
        lost: ConnectionLost,
    ) -> Result<Self> {
        let pushes = {
            let lost = lost.clone();
            Pushes::new(move |push| match push.kind {
                PushKind::SMessage => channels.message(&push),
                PushKind::Disconnection | PushKind::SUnsubscribe => {
                    // The receiver is gone when the engine has ended.
                    let _ = lost.send(number);
                }
                _ => {}
            })
        };
        let connection = match address {
            Some(address) => topology::node(target, options, address, pushes).await?,
            None => match topology::connect(target, options, pushes).await? {
                Connection::Single(connection) => connection,
                Connection::Cluster(_) => return Err(topology::is_a_cluster(target)),
            },
        };
        let probe_now = Arc::new(Notify::new());
        let now = Arc::clone(&probe_now);
        let probing = probe(connection.clone(), options.clone(), number, (lost, now));
        Ok(Self {
            number,
            node: None,
            left: 0,
            connection,
            patience: options.timeout,
            probe: options.spawn(probing).abort_handle(),
            probe_now,
        })
    }

    /// Sends a ping now: what has ended another connection may have ended this one.
    pub(super) fn probe(&self) {
        self.probe_now.notify_one();
    }

    /// Subscribes; returns how many of the first channels succeeded: all of them unless the server
    /// has moved one away.
    pub(super) async fn subscribe(&mut self, channels: &[Vec<u8>]) -> RedisResult<usize> {
        let mut subscribed = 0;
        for channels in channels.chunks(CHANNELS_MAX) {
            // A command for each, since the package expects one reply to a command.
            let mut pipeline = Pipeline::new();
            for channel in channels {
                pipeline.cmd("SSUBSCRIBE").arg(channel);
            }
            let asking = self
                .connection
                .send_packed_commands(&pipeline, 0, channels.len());
            let replies = timeout(self.patience, asking)
                .await
                .map_err(|_| topology::late())??;
            let has = |reply: &&Value| matches!(reply, Value::Push { kind, .. } if *kind == PushKind::SSubscribe);
            let had = replies.iter().take_while(has).count();
            subscribed += had;
            if had < channels.len() {
                break;
            }
        }
        Ok(subscribed)
    }

    /// Returns the slots of the nodes, as this one sees them.
    pub(super) async fn slots(&mut self) -> RedisResult<Value> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let asking = self.connection.send_packed_command(&question);
        let reply = timeout(self.patience, asking)
            .await
            .map_err(|_| topology::late())??;
        topology::accepted(reply)
    }
}

impl Drop for SubscriberConnection {
    fn drop(&mut self) {
        self.probe.abort();
    }
}

/// Sends a periodic ping; a connection that does not reply has been lost.
async fn probe(
    mut connection: MultiplexedConnection,
    options: ConnectionOptions,
    number: u64,
    (lost, now): (ConnectionLost, Arc<Notify>),
) {
    for round in 0_u64.. {
        // A server may pause, but not while another connection to it is made anew.
        let patience = tokio::select! {
            () = sleep(options.probe_every) => options.timeout,
            () = now.notified() => options.connect_timeout,
        };
        let echo = format!("{number}-{round}").into_bytes();
        let mut ping = redis::cmd("PING");
        ping.arg(&echo);
        let reply = timeout(patience, connection.send_packed_command(&ping)).await;
        if !matches!(reply, Ok(Ok(Value::BulkString(text))) if text == echo) {
            let _ = lost.send(number);
            return;
        }
    }
}
