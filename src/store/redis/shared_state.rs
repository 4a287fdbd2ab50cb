//! State that all nodes share: the key format, membership, runtime settings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;

use crate::core::membership::{Member, MemberInfo, Membership};
use crate::error::{Error, ErrorKind, Result};
use crate::event::QueueName;
use crate::record::NodeId;
use crate::store::control::{Control, Setting};
use crate::store::redis::decode::{ReplyReader, unreadable};
use crate::store::redis::encode::Call;
use crate::store::redis::keys;
use crate::store::redis::registry;
use crate::store::redis::scripts;
use crate::store::redis::settings_watch::SettingsWatch;
use crate::store::redis::shared::Shared;

/// How long a member that does not poll stays listed.
const LISTED_FOR: Duration = Duration::from_secs(60);

/// The key format is checked once in this many membership polls: every two seconds.
const FORMAT_EVERY: u32 = 8;

/// The settings of the servers are looked at once in this many membership polls: every minute.
const SETTINGS_EVERY: u32 = 240;

/// The process's view of the shared state.
#[derive(Default)]
pub(super) struct SharedState {
    settings: SettingsWatch,
    /// Whether the key format was checked.
    is_claimed: AtomicBool,
    /// The number of membership polls.
    calls: AtomicU32,
    /// The queues of known members.
    queues: Mutex<HashMap<NodeId, Arc<[QueueName]>>>,
}

pub(super) fn key(shared: &Shared, part: &str) -> Vec<u8> {
    keys::hub(&shared.prefix, part).into_bytes()
}

/// The format of all keys except the bodies, which carry their own; `src/docs/storage.md` describes
/// it.
const FORMAT: &str = "6";

/// Refuses an unknown key format. If there is none, writes it if `writes`; returns whether there is one
/// now.
async fn claim(shared: &Shared, writes: bool) -> Result<bool> {
    let hub = key(shared, "hub");
    let mut question = redis::cmd("HGET");
    question.arg(&hub).arg("format");
    let mut answer = shared.send(&shared.links.hub, &question).await?;
    // Only if it is missing: a server whose memory is full refuses writes, and must drain.
    if answer == Value::Nil {
        if !writes {
            return Ok(false);
        }
        let mut command = redis::cmd("HSETNX");
        command.arg(&hub).arg("format").arg(FORMAT);
        shared.send(&shared.links.hub, &command).await?;
        answer = shared.send(&shared.links.hub, &question).await?;
    }
    match answer {
        Value::BulkString(format) => check_format(shared, &format).map(|()| true),
        _ => Err(unreadable("HGET")),
    }
}

/// Refuses an unknown key format.
fn check_format(shared: &Shared, format: &[u8]) -> Result<()> {
    if format == FORMAT.as_bytes() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the keys under prefix {:?} have format {}, this duly knows format {FORMAT}: they were \
         written by another version of duly; use that one, or another prefix",
        shared.prefix,
        String::from_utf8_lossy(format)
    )))
}

/// Announces that a node is alive, and returns the other members.
pub(super) async fn poll_members(shared: &Shared, me: MemberInfo) -> Result<Membership> {
    let is_member = !me.queues.is_empty();
    shared.hub.claim_once(shared, is_member).await?;
    let calls = shared.hub.calls.fetch_add(1, Ordering::Relaxed);
    let asks_for_format = calls.is_multiple_of(FORMAT_EVERY);
    if calls % SETTINGS_EVERY == SETTINGS_EVERY - 1 {
        shared.hub.settings.watch(shared);
    }
    let mut act = if me.leaves { "leaves" } else { "stays" };
    loop {
        let script = &scripts::POLL_MEMBERS;
        let keys = ["members", "queues", "hub"].map(|part| key(shared, part));
        let mut command = script.call(false, keys.into_iter());
        match shared.terms().now_us {
            Some(now_us) => command.arg(now_us),
            None => command.arg(""),
        };
        let node = me.node.0.to_be_bytes();
        let member: &[u8] = if is_member { &node } else { b"" };
        command.arg(member).arg(act);
        match act {
            "queues" => command.arg(lines(&me.queues)),
            _ => command.arg(""),
        };
        command.arg(LISTED_FOR.as_millis());
        command.arg(u8::from(asks_for_format));
        let value = shared
            .run(&shared.links.hub, &Call { script, command })
            .await?;
        let mut parts = ReplyReader::of(script.name, value)?;
        let buckets_version = read_version(&parts.bytes()?);
        let controls_version = read_version(&parts.bytes()?);
        let is_known = parts.is_so()?;
        match &parts.bytes()?[..] {
            b"none" if is_member => {
                claim(shared, true).await?; // the server has lost it
            }
            b"" | b"none" => {}
            format => check_format(shared, format).map_err(|error| shared.fence(error))?,
        }
        if is_member && !is_known && act == "stays" {
            act = "queues";
            continue;
        }
        return Ok(Membership {
            members: with_queues(shared, read_members(parts)?).await?,
            buckets_version,
            controls_version,
        });
    }
}

/// Returns a token as a number; 0 before the first change.
fn read_version(token: &[u8]) -> u64 {
    token.try_into().map_or(0, u64::from_be_bytes)
}

/// Decodes the members and the numbers of their last polls, ordered by id.
pub fn read_members(mut parts: ReplyReader) -> Result<Vec<(NodeId, u64)>> {
    let mut members = Vec::new();
    while !parts.is_empty() {
        members.push((parts.node()?, parts.number()?));
    }
    members.sort_unstable();
    Ok(members)
}

/// Adds the queues that the members consume, each read once.
async fn with_queues(shared: &Shared, members: Vec<(NodeId, u64)>) -> Result<Vec<Member>> {
    let unknown: Vec<NodeId> = {
        let mut queues = shared.hub.queues();
        queues.retain(|node, _| members.iter().any(|(member, _)| member == node));
        let unknown = members.iter().map(|(node, _)| *node);
        unknown.filter(|node| !queues.contains_key(node)).collect()
    };
    if !unknown.is_empty() {
        let mut command = redis::cmd("HMGET");
        command.arg(key(shared, "queues"));
        for node in &unknown {
            command.arg(&node.0.to_be_bytes());
        }
        let value = shared.send(&shared.links.hub, &command).await?;
        let mut parts = ReplyReader::of("poll_members", value)?;
        for node in unknown {
            // A member that has left meanwhile consumes nothing.
            let queues = read_queues(&mut parts)?;
            shared.hub.queues().insert(node, queues);
        }
    }
    let queues = shared.hub.queues();
    let member = |(node, beat)| Member {
        node,
        beat,
        queues: queues.get(&node).map(Arc::clone).unwrap_or_default(),
    };
    Ok(members.into_iter().map(member).collect())
}

/// Decodes the queues of one member, a line each.
pub fn read_queues(parts: &mut ReplyReader) -> Result<Arc<[QueueName]>> {
    let lines = parts.optional()?.unwrap_or_default();
    let lines = String::from_utf8(lines).map_err(|_| unreadable("poll_members"))?;
    let queue =
        |line| QueueName::new(line).map_err(|error| unreadable("poll_members").because(error));
    lines.lines().map(queue).collect()
}

/// Returns the runtime settings of all queues.
pub(super) async fn controls(shared: &Shared) -> Result<BTreeMap<QueueName, Control>> {
    let mut command = redis::cmd("HGETALL");
    command.arg(key(shared, "control"));
    read_controls(shared.send(&shared.links.hub, &command).await?)
}

/// The controls of every queue, as a server lists them.
pub fn read_controls(value: Value) -> Result<BTreeMap<QueueName, Control>> {
    let mut controls = BTreeMap::<QueueName, Control>::new();
    for (field, value) in pairs(value)? {
        let wrong = || unreadable("set");
        let (queue, name) = field.rsplit_once(':').ok_or_else(wrong)?;
        let setting = match name {
            "paused" => Setting::Paused(value == "1"),
            "workers" => Setting::Workers(value.parse().ok()),
            "rate" => Setting::Rate(value.parse().ok()),
            "buckets" => Setting::Buckets(value.parse().ok()),
            _ => continue, // written by a newer duly
        };
        let queue = QueueName::new(queue).map_err(|error| wrong().because(error))?;
        let control = controls.entry(queue).or_default();
        // A value that no duly has set is ignored.
        if setting.is_possible() {
            *control = control.with(setting);
        }
    }
    Ok(controls)
}

/// Changes one runtime setting of a queue.
pub(super) async fn set(shared: &Shared, queue: &QueueName, setting: Setting) -> Result<()> {
    shared.hub.claim_once(shared, true).await?;
    let text = |value: Option<String>| value.unwrap_or_default();
    let (name, value) = match setting {
        Setting::Paused(paused) => ("paused", text(paused.then(|| "1".to_owned()))),
        Setting::Workers(workers) => ("workers", text(workers.map(|it| it.to_string()))),
        Setting::Rate(rate) => ("rate", text(rate.map(|it| it.to_string()))),
        Setting::Buckets(buckets) => ("buckets", text(buckets.map(|it| it.to_string()))),
    };
    let script = &scripts::SET;
    let mut command = script.call(
        false,
        ["control", "members"].iter().map(|part| key(shared, part)),
    );
    command
        .arg(format!("{queue}:{name}"))
        .arg(value)
        .arg(&registry::token());
    shared
        .run(&shared.links.hub, &Call { script, command })
        .await?;
    Ok(())
}

impl SharedState {
    /// Checks the key format at the start, which writes nothing: under a mistyped prefix there is
    /// nothing, and nothing is left behind by a look. While the cluster node that has it is unavailable, the
    /// first successful membership poll checks it.
    pub(super) async fn claim_at_start(&self, shared: &Shared) -> Result<()> {
        match self.claim_once(shared, false).await {
            Err(error) if shared.is_cluster() && is_away(&error) => {
                tracing::warn!(
                    %error,
                    "the server that has the registry of nodes and buckets is away: this program \
                     starts on what its settings say"
                );
                Ok(())
            }
            claimed => claimed,
        }
    }

    /// Checks the key format, until it has been found, and writes it if there is none and `writes`.
    pub(super) async fn claim_once(&self, shared: &Shared, writes: bool) -> Result<()> {
        if !self.is_claimed.load(Ordering::Acquire) && claim(shared, writes).await? {
            self.is_claimed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn queues(&self) -> parking_lot::MutexGuard<'_, HashMap<NodeId, Arc<[QueueName]>>> {
        self.queues.lock()
    }
}

/// Returns whether no server responded, so that a retry may succeed.
pub(super) fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
}

fn lines(queues: &[QueueName]) -> String {
    let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
    names.join("\n")
}

/// Decodes a hash into pairs of texts.
fn pairs(value: Value) -> Result<Vec<(String, String)>> {
    let text = |value: Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| unreadable("HGETALL")),
        _ => Err(unreadable("HGETALL")),
    };
    match value {
        Value::Map(pairs) => pairs
            .into_iter()
            .map(|(field, value)| Ok((text(field)?, text(value)?)))
            .collect(),
        Value::Array(flat) => {
            let flat: Result<Vec<String>> = flat.into_iter().map(text).collect();
            let mut flat = flat?.into_iter();
            let mut pairs = Vec::new();
            while let (Some(field), Some(value)) = (flat.next(), flat.next()) {
                pairs.push((field, value));
            }
            Ok(pairs)
        }
        _ => Err(unreadable("HGETALL")),
    }
}
