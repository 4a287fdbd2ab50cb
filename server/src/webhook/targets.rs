//! The targets in the shared state: read, set, remove.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::target::{Disabled, Target, TargetKey, TargetRow};
use super::vault::TargetVault;
use super::{Deps, TARGETS_FEW, TARGETS_MAX, TARGETS_OF_NAMESPACE_MAX, TARGETS_RESERVED, Webhooks};
use crate::shared::{Result, SharedState, StateError, Table};

/// How many that are disabled, and are no more, are removed when all are read, and for how long that
/// is tried: each read begins with another one.
const ORPHANS_MAX: usize = 100;
const ORPHANS_TIME_MAX: Duration = Duration::from_secs(5);
/// The first pause after a removal that failed; it doubles.
const ORPHANS_PAUSE: Duration = Duration::from_millis(100);

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetResult {
    /// The target is new.
    Created,
    /// The target is another one now.
    Changed,
    /// Another request has created or removed it at the same time; nothing was changed.
    Conflict,
    /// There are as many targets as there may be, in these words.
    Full(String),
}

/// Reads every target; one that cannot be read is reported, and left out. Returns also the keys of
/// what was disabled and is no target.
pub(super) async fn read_all(deps: &Deps) -> Result<(BTreeMap<TargetKey, Target>, Vec<String>)> {
    read(deps, "").await
}

/// Forgets that targets are gone whose webhooks are gone as well, each by itself, and again where that
/// fails, as while the shared state takes no change.
pub(super) async fn remove_orphans(shared: &SharedState, orphans: &[String]) {
    let begin = fastrand::usize(..orphans.len().max(1));
    let keys = orphans.iter().cycle().skip(begin);
    let mut left: Vec<&String> = keys.take(orphans.len().min(ORPHANS_MAX)).collect();
    let (ends, mut pause) = (Instant::now() + ORPHANS_TIME_MAX, ORPHANS_PAUSE);
    loop {
        let (mut failed, mut last) = (Vec::new(), None);
        for key in left {
            // A state that does not reply takes its time for each of them.
            if last.is_some() && Instant::now() >= ends {
                failed.push(key);
            } else if let Err(error) = remove_orphan(shared, key).await {
                failed.push(key);
                last = Some(error);
            }
        }
        let Some(error) = last else { return };
        let now = Instant::now();
        if now >= ends {
            let keys = failed;
            tracing::warn!(?keys, %error, "webhooks that are gone are still noted as disabled");
            return;
        }
        sleep(pause.min(ends - now)).await;
        (left, pause) = (failed, pause * 2);
    }
}

/// Forgets that a target is gone where its webhook is gone as well.
pub(super) async fn remove_orphan(shared: &SharedState, key: &str) -> Result<()> {
    let tables = (Table::WebhooksDisabled, Table::Webhooks);
    shared.remove_orphan(tables, key).await
}

/// Returns the targets, and the keys of what was disabled and is no target.
async fn read(deps: &Deps, prefix: &str) -> Result<(BTreeMap<TargetKey, Target>, Vec<String>)> {
    let shared = &deps.shared;
    let rows = shared.list(Table::Webhooks, prefix).await?;
    let disabled = shared.list(Table::WebhooksDisabled, prefix).await?;
    let mut disabled: BTreeMap<_, _> = disabled.into_iter().collect();
    let targets = rows.into_iter().filter_map(|(key, row)| {
        let (text, of_key) = (&key, disabled.remove(&key));
        let key = TargetKey::parse(&key)?;
        let target = parse(&deps.vault, &key, &row, of_key.as_deref());
        if let Err(why) = &target {
            tracing::error!(webhook = text, why, "stored webhook cannot be read");
        }
        Some((key, target.ok()?))
    });
    let targets = targets.collect();
    Ok((targets, disabled.into_keys().collect()))
}

fn parse(
    vault: &TargetVault,
    key: &TargetKey,
    stored: &str,
    disabled: Option<&str>,
) -> std::result::Result<Target, String> {
    let row = serde_json::from_str::<TargetRow>(&vault.open(key, stored)?);
    let disabled = disabled.and_then(|text| serde_json::from_str::<Disabled>(text).ok());
    Target::new(row.map_err(|error| error.to_string())?, disabled)
}

impl Webhooks {
    /// Returns a target; or why what is stored of it cannot be read.
    pub(crate) async fn get(
        &self,
        key: &TargetKey,
    ) -> Result<Option<std::result::Result<Target, String>>> {
        let text = key.to_string();
        let shared = self.shared();
        let Some(row) = shared.get(Table::Webhooks, &text).await? else {
            return Ok(None);
        };
        let disabled = shared.get(Table::WebhooksDisabled, &text).await?;
        let vault = &self.deps().vault;
        Ok(Some(parse(vault, key, &row, disabled.as_deref())))
    }

    /// Returns the targets of a namespace, by queue.
    pub(crate) async fn list(
        &self,
        pool: &str,
        namespace: &str,
    ) -> Result<BTreeMap<TargetKey, Target>> {
        let read = read(self.deps(), &TargetKey::prefix(pool, namespace)).await;
        read.map(|(targets, _)| targets)
    }

    /// Sets the target of a queue; every server follows within a second. With `is_new` only where
    /// there is none, else only where there is one. Whoever sets or removes one has the turn of its
    /// namespace.
    pub(crate) async fn set(
        &self,
        key: &TargetKey,
        row: &TargetRow,
        is_new: bool,
    ) -> Result<SetResult> {
        let (text, shared) = (key.to_string(), self.shared());
        let encoded = serde_json::to_string(row);
        let encoded = encoded.map_err(|error| StateError::new(&text, &error))?;
        let encoded = self.deps().vault.seal(key, row.revision, &encoded);
        let encoded = encoded.map_err(|why| StateError::new(&text, &why))?;
        let result = if is_new {
            let _adding = self.adding.lock().await;
            match self.full(key).await? {
                Some(why) => SetResult::Full(why),
                None if shared.put_new(Table::Webhooks, &text, &encoded).await? => {
                    SetResult::Created
                }
                None => SetResult::Conflict,
            }
        } else if shared.get(Table::Webhooks, &text).await?.is_some() {
            shared.put(Table::Webhooks, &text, &encoded).await?;
            SetResult::Changed
        } else {
            SetResult::Conflict
        };
        self.refresh().await;
        Ok(result)
    }

    /// Returns why there is no room for a new target, if so.
    async fn full(&self, key: &TargetKey) -> Result<Option<String>> {
        let others = self.shared().list(Table::Webhooks, "").await?;
        let of_namespace = TargetKey::prefix(&key.pool, &key.namespace);
        let siblings = others
            .iter()
            .filter(|(other, _)| other.starts_with(&of_namespace));
        Ok(no_room(siblings.count(), others.len()))
    }

    /// Removes the target of a queue: on this server no more requests begin, on the others within a
    /// second. Returns whether there was one.
    pub(crate) async fn remove(&self, key: &TargetKey) -> Result<bool> {
        let (text, shared) = (key.to_string(), self.shared());
        let is_known = shared.get(Table::Webhooks, &text).await?.is_some();
        shared.remove(Table::Webhooks, &text).await?;
        shared.remove(Table::WebhooksDisabled, &text).await?;
        self.refresh().await;
        Ok(is_known)
    }
}

/// Returns why a namespace with so many targets has no room for another one among all. It tells
/// nothing of how many others have.
fn no_room(of_namespace: usize, of_all: usize) -> Option<String> {
    let most = match of_namespace {
        0..TARGETS_FEW => TARGETS_MAX,
        TARGETS_FEW..TARGETS_OF_NAMESPACE_MAX => TARGETS_MAX - TARGETS_RESERVED,
        _ => {
            return Some(format!(
                "the namespace has {TARGETS_OF_NAMESPACE_MAX} webhooks, the most; remove one first"
            ));
        }
    };
    let text = || {
        format!(
            "there are {most} webhooks or more in all namespaces, the most of a server but for those \
             that are kept for namespaces with less than {TARGETS_FEW}"
        )
    };
    (of_all >= most).then(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_with_many_webhooks_leave_room_to_those_with_few() {
        let (mut namespaces, mut all) = ([0; 8], 0);
        // Each takes as many as it gets, one after the other.
        for namespace in &mut namespaces {
            while no_room(*namespace, all).is_none() {
                *namespace += 1;
                all += 1;
            }
        }
        assert_eq!(namespaces, [250, 250, 250, 10, 10, 10, 10, 10]);
        let other_text = no_room(10, all).unwrap();
        assert!(other_text.contains("in all namespaces"), "{other_text}");
        assert_eq!(
            no_room(10, 750),
            Some(other_text),
            "by how many is not said"
        );
        assert!(no_room(9, 999).is_none() && no_room(0, 1_000).is_some());
    }
}
