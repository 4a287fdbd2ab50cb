//! A client for a cluster, with an independent connection to each node.
//!
//! A call goes to the node that has its slot, so a node that hangs or is gone delays only its own
//! calls. The client follows redirections of moved slots, and reads the slots anew whenever a node
//! does not respond.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::{Mutex, MutexGuard, RwLock};
use redis::cluster_routing::Slot;
use redis::{Arg, Cmd, ErrorKind as Theirs, Pipeline, RedisError, RedisResult, Value};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::node::{Calls, Node, send};
use super::retry::{RetryDecision, is_done_in_part, is_of_the_connection};
use super::slots::{Slots, ask_slots};
use super::{HEDGE, Pushes, late, reply_by};
use crate::backoff::Backoff;
use crate::panics;
use crate::store::redis::link::options::ConnectionOptions;
use crate::store::redis::link::url::{Address, Target};

/// The limit of retries of a call that did not happen. The delays between them add up to less than
/// half a second, so the result is known long before the call's timeout.
const RETRIES: u32 = 6;
const WAITS: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(200));
/// Slots that were read within this time are not read again.
const FRESH: Duration = Duration::from_millis(50);
/// A connection to every node of a cluster; its clones share it.
#[derive(Clone)]
pub(in crate::store::redis) struct Cluster(Arc<Inner>);

struct Inner {
    target: Target,
    options: ConnectionOptions,
    pushes: Pushes,
    /// The nodes that the URL names.
    named: Vec<Address>,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    slots: RwLock<Arc<Slots>>,
    /// When the slots were last read; locked during a read.
    read_at: tokio::sync::Mutex<Option<Instant>>,
}

/// The target of the next attempt.
struct Redirect {
    address: Address,
    asking: bool,
}

/// Connects to a cluster through `named`; one node that responds is enough.
pub(super) async fn connect(
    target: &Target,
    options: &ConnectionOptions,
    named: &[Address],
    pushes: Pushes,
) -> RedisResult<Cluster> {
    let cluster = Cluster(Arc::new(Inner {
        target: target.clone(),
        options: options.clone(),
        pushes,
        named: named.to_vec(),
        nodes: Mutex::default(),
        slots: RwLock::default(),
        read_at: tokio::sync::Mutex::default(),
    }));
    cluster.read_slots(Instant::now()).await?;
    options.spawn(probe(Arc::downgrade(&cluster.0), options.probe_every));
    Ok(cluster)
}

/// Probes the connections to the nodes while nothing uses them.
async fn probe(cluster: Weak<Inner>, every: Duration) {
    loop {
        sleep(every).await;
        let Some(inner) = cluster.upgrade() else {
            return;
        };
        let nodes: Vec<_> = Cluster(inner).nodes().values().map(Arc::clone).collect();
        join_all(nodes.iter().map(|node| node.probe())).await;
    }
}

impl Cluster {
    /// Sends one command to the node that has the slot of its key, or to any. Also returns whether
    /// an attempt before the last may have executed it.
    pub(super) async fn ask(&self, command: &Cmd, deadline: Instant) -> (RedisResult<Value>, bool) {
        let (values, is_repeat) = self
            .carry(slot_of(command), Calls::One(command), deadline)
            .await;
        let value = values.map(|values| values.into_iter().next().unwrap_or(Value::Nil));
        (value, is_repeat)
    }

    /// Sends several commands in one pipeline to the node that has `slot`.
    pub(super) async fn ask_all(
        &self,
        commands: &Pipeline,
        slot: Option<Slot>,
        deadline: Instant,
    ) -> (RedisResult<Vec<Value>>, bool) {
        self.carry(slot, Calls::Many(commands), deadline).await
    }

    /// Sends one command to every node; returns the replies of reachable ones, in no order.
    pub(super) async fn ask_everywhere(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> RedisResult<Vec<Value>> {
        let everywhere = self.slots().everywhere();
        let queries = everywhere.into_iter().map(|address| async move {
            let node = self.node(&address);
            let asking = async {
                let up = node.connection().await?;
                let call = up.health.call(deadline);
                let asking = send(up.connection, Calls::One(command), false);
                let reply = up.health.or_ended(asking).await;
                call.over();
                node.answered(&up.health, &reply).await;
                reply
            };
            let patience = deadline.min(Instant::now() + self.0.options.attempt_timeout());
            reply_by(patience, asking).await
        });
        let (mut values, mut away) = (Vec::new(), None);
        for reply in join_all(queries).await {
            match reply {
                Ok(reply) => values.extend(reply),
                Err(error) if is_of_the_connection(&error) => away = Some(error),
                Err(error) => return Err(error),
            }
        }
        match away {
            Some(error) if values.is_empty() => Err(error),
            Some(error) => {
                panics::reported(|| tracing::debug!(%error, "cluster node unavailable"));
                Ok(values)
            }
            None => Ok(values),
        }
    }

    async fn carry(
        &self,
        slot: Option<Slot>,
        calls: Calls<'_>,
        deadline: Instant,
    ) -> (RedisResult<Vec<Value>>, bool) {
        let (mut may_have_happened, mut redirect, mut waits) = (false, None, 0);
        for attempt in 0.. {
            let began = Instant::now();
            let to = redirect.take();
            let outcome = self.attempt(slot, to, calls, deadline).await;
            let error = match &outcome {
                Ok(values) => match values.first() {
                    // Where one of many was carried out, none is sent again.
                    Some(Value::ServerError(error)) if !is_done_in_part(values) => {
                        RedisError::from(error.clone())
                    }
                    _ => return (outcome, may_have_happened),
                },
                Err(error) => error.clone(),
            };
            let again = RetryDecision::after(&error);
            let is_over =
                again == RetryDecision::Never || attempt == RETRIES || Instant::now() >= deadline;
            if is_over {
                return (outcome, may_have_happened);
            }
            may_have_happened |= again == RetryDecision::Unknown;
            redirect = self.redirect(&error);
            if again != RetryDecision::AtOnce {
                // A failing node reports its own error; the old slots are the best guess then.
                let _ = timeout_at(deadline, self.read_slots(began)).await;
            }
            if redirect.is_none() {
                waits += 1;
                sleep(WAITS.jittered(waits)).await;
            }
        }
        (Err(late()), may_have_happened) // unreachable, as the attempts are counted
    }

    /// Makes one attempt. After half of the call's timeout it waits on only while its node still
    /// has the slot.
    async fn attempt(
        &self,
        slot: Option<Slot>,
        to: Option<Redirect>,
        calls: Calls<'_>,
        deadline: Instant,
    ) -> RedisResult<Vec<Value>> {
        let began = Instant::now();
        let asking = to.as_ref().is_some_and(|to| to.asking);
        let address = to.map(|to| to.address).or_else(|| self.owner(slot));
        let Some(address) = address else {
            let words = "the cluster names no node for the slot";
            return Err(RedisError::from((Theirs::ClusterConnectionNotFound, words)));
        };
        let node = self.node(&address);
        let connected = timeout_at(deadline, node.connection()).await;
        let no_time = || {
            let words = "a node did not accept the connection in time";
            RedisError::from((Theirs::ClusterConnectionNotFound, words))
        };
        let up = connected.unwrap_or_else(|_| Err(no_time()))?;
        let health = up.health;
        let call = match calls {
            Calls::One(_) => health.call(deadline),
            Calls::Many(_) => health.blocking_call(), // it may end with a `WAIT`
        };
        let reply = async {
            let reply = pin!(health.or_ended(send(up.connection, calls, asking)));
            match calls {
                Calls::One(_) => node.watched(&health, reply).await,
                Calls::Many(_) => reply.await,
            }
        };
        tokio::pin!(reply);
        let half = deadline.min(began + self.0.options.attempt_timeout());
        let mut answered = timeout_at(half, &mut reply).await;
        if answered.is_err() && half < deadline {
            let _ = timeout_at(deadline, self.read_slots(began)).await;
            let is_owner = slot.is_some() && self.owner(slot).as_ref() == Some(&address);
            if is_owner {
                answered = timeout_at(deadline, &mut reply).await;
            }
        }
        call.over();
        match answered {
            Ok(answered) => {
                node.answered(&health, &answered).await;
                answered
            }
            Err(_) => {
                node.unanswered(&health).await;
                Err(late())
            }
        }
    }

    /// Returns where an error redirects the call.
    fn redirect(&self, error: &RedisError) -> Option<Redirect> {
        let (place, _) = error.redirect_node()?;
        let (host, port) = place.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let host = match host {
            // A node that does not know its own address means itself.
            "" | "?" => return None,
            host => host.trim_matches(['[', ']']).to_owned(),
        };
        Some(Redirect {
            address: Address { host, port },
            asking: error.code() == Some("ASK"),
        })
    }

    /// Returns the node that has a slot; without a slot a master, preferably a connected one.
    pub(super) fn owner(&self, slot: Option<Slot>) -> Option<Address> {
        let slots = self.slots();
        match slot {
            Some(slot) => slots.owner_of(slot).cloned(),
            // The URL may name one that has left.
            None if slots.served() > 0 => self.by_nearness(slots.masters()).into_iter().next(),
            None => self.by_nearness(self.0.named.clone()).into_iter().next(),
        }
    }

    /// Returns nodes in a new order, connected ones first.
    fn by_nearness(&self, mut nodes: Vec<Address>) -> Vec<Address> {
        fastrand::shuffle(&mut nodes);
        let mut seen = std::collections::HashSet::new();
        nodes.retain(|address| seen.insert(address.clone()));
        nodes.sort_by_cached_key(|address| !self.node(address).is_up());
        nodes
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        let Inner {
            target,
            options,
            pushes,
            ..
        } = &*self.0;
        let mut nodes = self.nodes();
        let made = || Arc::new(Node::new(address.clone(), target, options, pushes.clone()));
        Arc::clone(nodes.entry(address.clone()).or_insert_with(made))
    }

    /// Reads the slots from the first node that responds, unless they were read after `since`. One
    /// that does not know all of them is believed where no other one knows more.
    async fn read_slots(&self, since: Instant) -> RedisResult<()> {
        let mut read_at = self.0.read_at.lock().await;
        if read_at.is_some_and(|at| at >= since || at.elapsed() < FRESH) {
            return Ok(());
        }
        let patience = self.0.options.connect_timeout;
        let mut known = self.slots().masters();
        known.extend(self.0.named.iter().cloned());
        let queries = self
            .by_nearness(known)
            .into_iter()
            .zip(0..)
            .map(|(address, place)| {
                let node = self.node(&address);
                async move {
                    sleep(HEDGE * place).await;
                    let up = node.connection().await?;
                    let asking = timeout(patience, ask_slots(up.connection, &address));
                    asking.await.unwrap_or_else(|_| Err(late()))
                }
                .boxed()
            });
        let mut queries: FuturesUnordered<_> = queries.collect();
        let (mut last, mut fullest) = (Err(late()), Slots::default());
        let until = Instant::now() + patience;
        while !fullest.is_complete() {
            let next = match fullest.served() {
                0 => queries.next().await,
                _ => timeout_at(until, queries.next()).await.unwrap_or(None),
            };
            match next {
                Some(Ok(slots)) if slots.served() > fullest.served() => {
                    (last, fullest) = (Ok(()), slots);
                }
                Some(Ok(_)) => last = Ok(()),
                Some(Err(error)) if last.is_err() => last = Err(error),
                Some(Err(_)) => {}
                None => break,
            }
        }
        if fullest.served() > 0 {
            self.replace(fullest);
        }
        if last.is_ok() {
            *read_at = Some(Instant::now());
        }
        last
    }

    /// Replaces the slots, and drops nodes that have left the cluster, unless the URL names them.
    fn replace(&self, slots: Slots) {
        let (known, named) = (slots.everywhere(), &self.0.named);
        self.nodes()
            .retain(|address, _| known.contains(address) || named.contains(address));
        *self.0.slots.write() = Arc::new(slots);
    }

    fn slots(&self) -> Arc<Slots> {
        let slots = self.0.slots.read();
        Arc::clone(&slots)
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Address, Arc<Node>>> {
        // Every change under the lock is one step.
        self.0.nodes.lock()
    }
}

/// Returns the slot of a command's first key, if it has one.
fn slot_of(command: &Cmd) -> Option<Slot> {
    let words = |at: usize| match command.args_iter().nth(at) {
        Some(Arg::Simple(word)) => Some(word),
        _ => None,
    };
    let name = words(0)?.to_ascii_uppercase();
    let at = match &name[..] {
        b"EVAL" | b"EVALSHA" | b"FCALL" if words(2)? == b"0" => return None,
        b"EVAL" | b"EVALSHA" | b"FCALL" => 3,
        b"CLIENT" | b"CLUSTER" | b"CONFIG" | b"FUNCTION" | b"INFO" | b"PING" | b"SCRIPT"
        | b"TIME" | b"WAIT" | b"WAITAOF" => return None,
        _ => 1,
    };
    words(at).map(Slot::for_key)
}
