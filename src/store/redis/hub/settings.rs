//! Runtime settings of queues.

use std::collections::BTreeMap;

use redis::Value;

use crate::error::Result;
use crate::event::QueueName;
use crate::store::control::{Control, Setting};
use crate::store::redis::hub::registry;
use crate::store::redis::hub::shared_keys::SharedKeys;
use crate::store::redis::script::reader::unreadable;
use crate::store::redis::script::table::script;

script! {
    /// Changes or removes one runtime setting of a queue.
    SET = "set", DRAINS, Hub, [];
    SetArguments<'a> {
        /// The queue, ":" and the name of the setting.
        name: String,
        /// The value; "" removes it.
        value: String,
        /// A random token of 8 bytes.
        token: &'a [u8],
    }
    reply SetReply {}
}

/// Returns the runtime settings of all queues.
pub(in crate::store::redis) async fn controls(
    hub: &SharedKeys,
) -> Result<BTreeMap<QueueName, Control>> {
    let mut command = redis::cmd("HGETALL");
    command.arg(hub.key("control"));
    read_controls(hub.send(&command).await?)
}

/// Returns the runtime settings of one queue.
pub(in crate::store::redis) async fn control_of(
    hub: &SharedKeys,
    queue: &QueueName,
) -> Result<Option<Control>> {
    let names = ["paused", "workers", "rate", "buckets"];
    let fields = names.map(|name| format!("{queue}:{name}"));
    let mut command = redis::cmd("HMGET");
    command.arg(hub.key("control")).arg(&fields);
    let Value::Array(values) = hub.send(&command).await? else {
        return Err(unreadable("HMGET"));
    };
    let set = fields.into_iter().zip(values);
    let set = set.filter(|(_, value)| *value != Value::Nil);
    let set = set.flat_map(|(field, value)| [Value::BulkString(field.into_bytes()), value]);
    Ok(read_controls(Value::Array(set.collect()))?.remove(queue))
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
pub(in crate::store::redis) async fn set(
    hub: &SharedKeys,
    queue: &QueueName,
    setting: Setting,
) -> Result<()> {
    hub.claim_once(true).await?;
    let text = |value: Option<String>| value.unwrap_or_default();
    let (name, value) = match setting {
        Setting::Paused(paused) => ("paused", text(paused.then(|| "1".to_owned()))),
        Setting::Workers(workers) => ("workers", text(workers.map(|it| it.to_string()))),
        Setting::Rate(rate) => ("rate", text(rate.map(|it| it.to_string()))),
        Setting::Buckets(buckets) => ("buckets", text(buckets.map(|it| it.to_string()))),
    };
    let call = hub.call(SetArguments {
        name: format!("{queue}:{name}"),
        value,
        token: &registry::token(),
    });
    hub.run(&call).await.map(drop)
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
