//! A task that keeps every channel subscribed, on the node that has it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::Channels;
use super::connection::{ConnectionLost, SubscriberConnection};
use crate::error::{Error, ErrorKind, Result};
use crate::panics;
use crate::store::redis::link::options::{ConnectionOptions, RECONNECT};
use crate::store::redis::link::topology::Slots;
use crate::store::redis::link::url::{Address, Place, Target};

/// The node of a connection; `None` where there is only one.
type Node = Option<Address>;
type ByNode = HashMap<Node, Vec<Vec<u8>>>;

/// How many channels that nobody needs any more a connection may have, beside as many as it uses.
const LEFT_MAX: usize = 64;

/// The state of the subscription.
pub(super) struct SubscriptionTask<T> {
    target: Target,
    options: ConnectionOptions,
    channels: Arc<Channels<T>>,
    connections: HashMap<Node, SubscriberConnection>,
    /// The number of the connection on which each channel is subscribed.
    subscribed: HashMap<Vec<u8>, u64>,
    /// How many channels there were when those that nobody needs were looked for.
    looked_at: usize,
    /// The slots of the nodes, until something shows that they have changed.
    slots: Option<Slots>,
    next_number: u64,
    lost: ConnectionLost,
    losses: UnboundedReceiver<u64>,
    /// Changes when another connection of the store was replaced.
    replaced: watch::Receiver<u64>,
}

impl<T: Clone + Send + Sync + 'static> SubscriptionTask<T> {
    pub(super) fn new(
        target: Target,
        options: ConnectionOptions,
        channels: Arc<Channels<T>>,
        replaced: watch::Receiver<u64>,
    ) -> Self {
        let (lost, losses) = mpsc::unbounded_channel();
        Self {
            target,
            options,
            channels,
            connections: HashMap::new(),
            subscribed: HashMap::new(),
            looked_at: 0,
            slots: None,
            next_number: 0,
            lost,
            losses,
            replaced,
        }
    }

    /// Runs until it is aborted.
    pub(super) async fn run(mut self) {
        let mut failures = 0_u32;
        let every = self.options.probe_every;
        let mut checks = interval_at(Instant::now() + every, every);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.channels.len() > 2 * self.looked_at + LEFT_MAX {
                self.leave_idle();
            }
            match self.subscribe().await {
                Ok(()) => {
                    failures = 0;
                    let all = Arc::clone(&self.channels);
                    tokio::select! {
                        () = all.grown.notified() => {}
                        Some(number) = self.losses.recv() => self.forget(number),
                        _ = checks.tick() => self.check().await,
                        Ok(()) = self.replaced.changed() => self.probe(),
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    panics::reported(|| {
                        tracing::debug!(failures, "failed to subscribe to every channel: {error}");
                    });
                    self.slots = None;
                    // Pushes go unnoticed meanwhile.
                    for channel in self
                        .channels
                        .missing(|it| !self.subscribed.contains_key(it))
                    {
                        self.channels.subscribed(&channel);
                    }
                    tokio::select! {
                        () = sleep(RECONNECT.jittered(failures)) => {}
                        _ = checks.tick() => self.check().await,
                        Ok(()) = self.replaced.changed() => self.probe(),
                    }
                }
            }
            while let Ok(number) = self.losses.try_recv() {
                self.forget(number);
            }
        }
    }

    async fn check(&mut self) {
        self.leave_replaced().await;
        // Last, as the channels that it leaves are subscribed to again at once.
        self.leave_idle();
    }

    /// Has every connection probed at once.
    fn probe(&self) {
        for connection in self.connections.values() {
            connection.probe();
        }
    }

    /// Leaves the channels that nobody needs any more, and the connections that have many of them.
    fn leave_idle(&mut self) {
        let left = self.channels.remove_idle();
        self.looked_at = self.channels.len();
        for number in left.iter().filter_map(|it| self.subscribed.remove(it)) {
            let mut connections = self.connections.values_mut();
            if let Some(connection) = connections.find(|it| it.number == number) {
                connection.left += 1;
            }
        }
        let mut used: HashMap<u64, usize> = HashMap::new();
        for number in self.subscribed.values() {
            *used.entry(*number).or_default() += 1;
        }
        let is_surplus = |it: &&SubscriberConnection| {
            it.left > used.get(&it.number).copied().unwrap_or(0).max(LEFT_MAX)
        };
        let surplus = self.connections.values().filter(is_surplus);
        let surplus: Vec<u64> = surplus.map(|it| it.number).collect();
        for number in surplus {
            // What it may miss meanwhile is made up for when its channels are subscribed to again.
            self.forget(number);
        }
    }

    /// Subscribes to the missing channels.
    async fn subscribe(&mut self) -> Result<()> {
        let missing = self
            .channels
            .missing(|channel| !self.subscribed.contains_key(channel));
        let (by_node, mut failed) = self.by_node(missing).await?;
        for (node, channels) in by_node {
            // One node that is down must not prevent subscriptions on the others.
            if let Err(error) = self.subscribe_at(node, channels).await {
                failed = Err(error);
            }
        }
        failed?;
        self.channels.set_healthy_with(self.subscribed.len());
        Ok(())
    }

    async fn subscribe_at(&mut self, node: Node, channels: Vec<Vec<u8>>) -> Result<()> {
        let connection = match self.connections.remove(&node) {
            Some(connection) => connection,
            None => self.open(&node).await?,
        };
        // If subscribing fails, the connection is dropped with all its channels.
        let number = connection.number;
        let slots = self.slots.as_ref().zip(node.as_ref());
        let id = slots.and_then(|(slots, node)| slots.id_of(node));
        let id = id.map(<[u8]>::to_vec);
        let connection = self
            .connections
            .entry(node)
            .insert_entry(connection)
            .into_mut();
        connection.node = id;
        let outcome = connection.subscribe(&channels).await;
        let subscribed = match outcome {
            Ok(subscribed) => subscribed,
            Err(error) => {
                self.forget(number);
                let place = self.target.to_string();
                return Err(Error::new(ErrorKind::Unavailable, place).because(error));
            }
        };
        let wanted = channels.len();
        for channel in channels.into_iter().take(subscribed) {
            self.channels.subscribed(&channel);
            self.subscribed.insert(channel, number);
        }
        if subscribed < wanted {
            let words = "a node no longer serves a channel";
            return Err(Error::new(ErrorKind::Unavailable, words));
        }
        Ok(())
    }

    async fn open(&mut self, node: &Node) -> Result<SubscriberConnection> {
        self.next_number += 1;
        let (target, options) = (&self.target, &self.options);
        let (all, lost) = (Arc::clone(&self.channels), self.lost.clone());
        SubscriberConnection::open(target, options, node.as_ref(), self.next_number, all, lost)
            .await
    }

    /// Drops the connections to nodes of a cluster that, as another node says, have been replaced. One
    /// that the others cannot reach goes on as if it had its slots, and hears of no message.
    async fn leave_replaced(&mut self) {
        let Place::Cluster(named) = self.target.place.clone() else {
            return;
        };
        // A node that says nothing is passed over: there is another one the next time.
        let nodes = match &self.slots {
            Some(slots) => slots.masters(),
            None => self.connections.keys().flatten().cloned().collect(),
        };
        let nodes: Vec<_> = nodes.into_iter().chain(named).collect();
        let Some(queried) = fastrand::choice(&nodes) else {
            return;
        };
        let slots = match self.read_slots_of(queried).await {
            Ok(slots) => slots,
            Err(error) => {
                panics::reported(|| {
                    tracing::debug!("failed to read the slots of a cluster: {error}");
                });
                return;
            }
        };
        let nodes: HashMap<u64, &[u8]> = self
            .connections
            .values()
            .filter_map(|it| Some((it.number, it.node.as_deref()?)))
            .collect();
        let is_replaced = |(channel, by): &(&Vec<u8>, &u64)| {
            // What a node says of itself proves nothing.
            let owner = slots.owner(channel).filter(|owner| *owner != queried);
            let owner = owner.and_then(|owner| slots.id_of(owner));
            let node = nodes.get(by);
            owner.is_some_and(|owner| node.is_some_and(|node| owner != *node))
        };
        let replaced = self.subscribed.iter().filter(is_replaced);
        let replaced: HashSet<u64> = replaced.map(|(_, by)| *by).collect();
        // The connection may be there only for this question.
        let used: HashSet<u64> = self.subscribed.values().copied().collect();
        self.connections.retain(|_, it| used.contains(&it.number));
        if replaced.is_empty() {
            return;
        }
        for number in replaced {
            self.forget(number);
        }
        self.slots = Some(slots);
    }

    /// Drops a connection that has ended, and its channels; their slots may have moved.
    fn forget(&mut self, number: u64) {
        let connections = self.connections.len();
        self.connections
            .retain(|_, connection| connection.number != number);
        if self.connections.len() == connections {
            return;
        }
        self.channels.set_healthy(false);
        self.subscribed.retain(|_, by| *by != number);
        self.slots = None;
    }

    /// Groups the channels by node; an error beside them if some have none.
    async fn by_node(&mut self, channels: Vec<Vec<u8>>) -> Result<(ByNode, Result<()>)> {
        let (mut by_node, mut failed) = (ByNode::new(), Ok(()));
        let Place::Cluster(known) = self.target.place.clone() else {
            if !channels.is_empty() {
                by_node.insert(None, channels);
            }
            return Ok((by_node, failed));
        };
        if self.slots.is_none() && !channels.is_empty() {
            self.slots = Some(self.read_slots(&known).await?);
        }
        for channel in channels {
            let owner = self.slots.as_ref().and_then(|slots| slots.owner(&channel));
            let Some(owner) = owner else {
                let words = "the cluster does not serve every slot";
                failed = Err(Error::new(ErrorKind::Unavailable, words));
                continue;
            };
            by_node
                .entry(Some(owner.clone()))
                .or_default()
                .push(channel);
        }
        Ok((by_node, failed))
    }

    /// Reads the slots from a connected node, or from the nodes that the URL names. One that does not
    /// know all of them is believed where no other one knows more.
    async fn read_slots(&mut self, known: &[Address]) -> Result<Slots> {
        let connected = self.connections.keys().flatten().cloned();
        let nodes: Vec<_> = connected.chain(known.iter().cloned()).collect();
        let served = |reply: &Result<Slots>| reply.as_ref().map_or(0, Slots::served);
        let mut last = Err(Error::invalid("no node of the cluster was named"));
        for node in nodes {
            let reply = self.read_slots_of(&node).await;
            if last.is_err() || served(&reply) > served(&last) {
                last = reply;
            }
            if last.as_ref().is_ok_and(Slots::is_complete) {
                break;
            }
        }
        last
    }

    async fn read_slots_of(&mut self, node: &Address) -> Result<Slots> {
        let place = Some(node.clone());
        let mut connection = match self.connections.remove(&place) {
            Some(connection) => connection,
            None => self.open(&place).await?,
        };
        let reply = connection.slots().await;
        let number = connection.number;
        self.connections.insert(place, connection);
        let slots = reply.and_then(|reply| Slots::read(reply, node));
        slots.map_err(|error| {
            self.forget(number);
            Error::new(ErrorKind::Unavailable, format!("redis at {node}")).because(error)
        })
    }
}
