//! The reply to `INFO`.

use std::collections::HashMap;
use std::fmt;

use redis::Value;

/// A version of Redis, or the compatible Redis version that Valkey reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store::redis) struct Version(
    pub(in crate::store::redis) u16,
    pub(in crate::store::redis) u16,
    pub(in crate::store::redis) u16,
);

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let mut part = || parts.next().flatten();
        Some(Self(part()?, part()?, part().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The fields of a reply to `INFO` that are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct Info {
    pub(in crate::store::redis) version: Version,
    pub(in crate::store::redis) maxmemory_policy: String,
    pub(in crate::store::redis) has_aof: bool,
    pub(in crate::store::redis) is_cluster: bool,
}

impl Info {
    pub(in crate::store::redis) fn read(reply: Value) -> Option<Self> {
        let mut fields = fields(reply)?;
        let is_on = |fields: &HashMap<String, String>, name: &str| {
            fields.get(name).is_some_and(|value| value == "1")
        };
        Some(Self {
            version: Version::parse(fields.get("redis_version")?)?,
            has_aof: is_on(&fields, "aof_enabled"),
            is_cluster: is_on(&fields, "cluster_enabled"),
            maxmemory_policy: fields.remove("maxmemory_policy").unwrap_or_default(),
        })
    }
}

/// Returns the lines `name:value` of a reply.
pub(in crate::store::redis) fn fields(reply: Value) -> Option<HashMap<String, String>> {
    let text = match reply {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok()?,
        Value::VerbatimString { text, .. } => text,
        _ => return None,
    };
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()));
    Some(pairs.collect())
}
