//! Buckets that have events and that the registry does not know, so that no consumer looks for them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::error::Result;
use crate::event::BucketKey;
use crate::store::damage::{CheckTask, Damage, DamageKind};
use crate::store::redis::hub::registry;
use crate::store::redis::link::masters::scan;
use crate::store::redis::op::in_parts::part;
use crate::store::redis::op::shared::Shared;

/// How many keys a step looks at.
const STEP: usize = 1_000;

/// How long the registration of a thousand buckets may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Finds such buckets, and registers them if the task says so.
pub(super) async fn find(shared: &Arc<Shared>, task: &CheckTask) -> Result<Vec<Damage>> {
    let known: HashSet<_> = registry::read(&shared.registry)
        .await?
        .into_iter()
        .collect();
    let (mut seen, prefix) = (BTreeSet::new(), &shared.hub.prefix);
    let pattern = format!("{}:{{*}}:body", escaped(prefix));
    let look = |keys: Vec<Vec<u8>>| {
        task.add_looked(keys.len() as u64);
        let buckets = keys.iter().filter_map(|key| bucket_of(prefix, key));
        seen.extend(buckets.filter(|bucket| !known.contains(bucket)));
    };
    scan(&shared.links.work, &pattern, STEP, look).await?;
    // After the walk as well: a bucket is registered before it has events.
    for bucket in registry::read(&shared.registry).await? {
        seen.remove(&bucket);
    }
    let seen: Vec<_> = seen.into_iter().collect();
    for (at, some) in seen.chunks(STEP).enumerate().filter(|_| task.repairs) {
        let until = Instant::now() + PATIENCE;
        let each = some.iter();
        let each = each.map(|bucket| registry::ensure(&shared.registry, bucket, until));
        part(try_join_all(each), at > 0).await?;
    }
    let mut found = Vec::new();
    for bucket in seen {
        let words = "it has events and is not in the registry";
        let damage = Damage {
            repaired: task.repairs,
            bucket: Some(bucket),
            ..Damage::new(DamageKind::Unregistered, words)
        };
        task.list(&mut found, damage);
    }
    Ok(found)
}

/// Returns the bucket of a key of bodies. Other keys may be there without an event: somebody has
/// only asked for one.
fn bucket_of(prefix: &str, key: &[u8]) -> Option<BucketKey> {
    let key = std::str::from_utf8(key).ok()?;
    let (name, part) = key
        .strip_prefix(prefix)?
        .strip_prefix(":{")?
        .split_once("}:")?;
    (part == "body").then(|| registry::bucket_named(name))?
}

/// Escapes what a pattern would take for a wildcard.
fn escaped(prefix: &str) -> String {
    let is_special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '^' | '\\');
    let escaped = prefix.chars().map(|c| {
        if is_special(c) {
            format!("\\{c}")
        } else {
            c.to_string()
        }
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_buckets_are_told_from_others() {
        let bucket = |key: &str| bucket_of("du", key.as_bytes()).map(|it| it.to_string());
        assert_eq!(bucket("du:{mail:3}:body").as_deref(), Some("mail:3"));
        for other in [
            "du:{hub}:registry",
            "du:{mail:3}:meta",
            "du:{mail:x}:body",
            "dux:{mail:3}:body",
            "du:{mail:3}",
            "",
        ] {
            assert_eq!(bucket(other), None, "{other}");
        }
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(escaped("a*b[c]?\\"), "a\\*b\\[c\\]\\?\\\\");
    }
}
