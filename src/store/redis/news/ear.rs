//! One connection that listens.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushKind, RedisResult, Value};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::Heard;
use crate::error::Result;
use crate::store::redis::options::LinkOptions;
use crate::store::redis::topology::{self, Connection, Pushes};
use crate::store::redis::url::{Address, Target};

/// How many channels are subscribed to in one piece.
const CHANNELS_MAX: usize = 500;

/// Which connection has ended, by its number.
pub(super) type Lost = UnboundedSender<u64>;

/// One connection that listens.
///
/// It never unsubscribes, so that a server that says that it no longer serves a channel, because
/// its slot has moved, can be told from an answer. The package cannot tell them, and takes the one
/// for the other; so such a connection is done with.
pub(super) struct Ear {
    pub(super) number: u64,
    connection: MultiplexedConnection,
    patience: Duration,
    probe: AbortHandle,
}

impl Ear {
    /// Connects to one node of a cluster, or without one to whatever `target` names.
    pub(super) async fn open(
        target: &Target,
        options: &LinkOptions,
        node: Option<&Address>,
        number: u64,
        heard: Arc<Heard>,
        lost: Lost,
    ) -> Result<Self> {
        let pushes = {
            let lost = lost.clone();
            Pushes::new(move |push| match push.kind {
                PushKind::SMessage => heard.message(&push),
                PushKind::Disconnection | PushKind::SUnsubscribe => {
                    // Nobody hears it when the engine has ended, and then nobody needs to.
                    let _ = lost.send(number);
                }
                _ => {}
            })
        };
        let connection = match node {
            Some(node) => topology::node(target, options, node, pushes).await?,
            None => match topology::connect(target, options, pushes).await? {
                Connection::Single(connection) => connection,
                Connection::Cluster(_) => return Err(topology::is_a_cluster(target)),
            },
        };
        let probing = probe(connection.clone(), options.clone(), number, lost);
        Ok(Self {
            number,
            connection,
            patience: options.timeout,
            probe: tokio::spawn(probing).abort_handle(),
        })
    }

    /// Subscribes; answers how many of the first channels it has, all of them unless the server
    /// has sent one away.
    pub(super) async fn subscribe(&mut self, channels: &[Vec<u8>]) -> RedisResult<usize> {
        let mut subscribed = 0;
        for channels in channels.chunks(CHANNELS_MAX) {
            // A command for each, since the package expects one answer to a command.
            let mut pipeline = Pipeline::new();
            for channel in channels {
                pipeline.cmd("SSUBSCRIBE").arg(channel);
            }
            let asking = self
                .connection
                .send_packed_commands(&pipeline, 0, channels.len());
            let answers = timeout(self.patience, asking)
                .await
                .map_err(|_| topology::late())??;
            let has = |answer: &&Value| matches!(answer, Value::Push { kind, .. } if *kind == PushKind::SSubscribe);
            let had = answers.iter().take_while(has).count();
            subscribed += had;
            if had < channels.len() {
                break;
            }
        }
        Ok(subscribed)
    }

    /// Which node has which slots, as this one sees it.
    pub(super) async fn slots(&mut self) -> RedisResult<Value> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let asking = self.connection.send_packed_command(&question);
        let answer = timeout(self.patience, asking)
            .await
            .map_err(|_| topology::late())??;
        topology::accepted(answer)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.probe.abort();
    }
}

/// Asks now and then for an echo; whoever does not answer with it has been lost.
async fn probe(
    mut connection: MultiplexedConnection,
    options: LinkOptions,
    number: u64,
    lost: Lost,
) {
    for round in 0_u64.. {
        sleep(options.probe_every).await;
        let echo = format!("{number}-{round}").into_bytes();
        let mut ping = redis::cmd("PING");
        ping.arg(&echo);
        let answer = timeout(options.timeout, connection.send_packed_command(&ping)).await;
        if !matches!(answer, Ok(Ok(Value::BulkString(text))) if text == echo) {
            let _ = lost.send(number);
            return;
        }
    }
}
