//! Pushes that answer only once the servers have confirmed more than they do by themselves.

use std::sync::Arc;
use std::time::Duration;

use crate::core::op::{Answer, NewEvent, Reply};
use crate::core::push::Attempts;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::store::Durability;
use crate::store::redis::admit::check_push;
use crate::store::redis::answer::Parts;
use crate::store::redis::check::Found;
use crate::store::redis::durable::{Reached, Wait};
use crate::store::redis::push;
use crate::store::redis::registry;
use crate::store::redis::shared::Shared;

/// How long replicas and disks are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Pushes, and waits until the events are as durable as `wanted`.
pub(super) async fn push(
    shared: &Arc<Shared>,
    found: &Found,
    bucket: &BucketKey,
    events: &[NewEvent],
    wanted: Durability,
) -> Result<Answer> {
    let wait = wait(found, wanted)?;
    check_push(bucket, events)?;
    let until = tokio::time::Instant::now() + shared.options.retry_for;
    registry::ensure(shared, bucket, until).await?;
    let call = shared.terms().push(&shared.keys(bucket), events.iter());
    let link = shared.links.for_pushes(bucket);
    let (value, reached) = link.run_durably(call.script, &call.command, wait).await?;
    let parts = Parts::of(call.script.name, value)?;
    let (now_us, is_earlier, pushed) = push::read(parts, events.iter(), &Attempts::default())?;
    shared.learn(now_us);
    if is_earlier {
        shared.tell(bucket);
    }
    push::tell_of_replaced(shared, bucket, &pushed);
    is_reached(wanted, &reached)?;
    Ok(Answer {
        now_us,
        reply: Reply::Pushed(pushed),
    })
}

/// What has to be waited for.
fn wait(found: &Found, wanted: Durability) -> Result<Wait> {
    match wanted {
        Durability::Replicated(replicas) => Ok(Wait {
            disk: false,
            replicas,
            timeout: PATIENCE,
        }),
        Durability::Disk if found.waits_for_disk => Ok(Wait {
            disk: true,
            replicas: 0,
            timeout: PATIENCE,
        }),
        _ => Err(Error::invalid(format!(
            "a push that survives {wanted:?} was asked for; the server, of version {}, reaches \
             {:?} and cannot confirm more. Set `appendonly yes` with `appendfsync always`, or use \
             Redis 7.2 or later with an append-only file",
            found.version, found.durability
        ))),
    }
}

fn is_reached(wanted: Durability, reached: &Reached) -> Result<()> {
    let (so, words) = match wanted {
        Durability::Replicated(replicas) => (
            reached.replicas >= replicas,
            format!("reached {} replicas, not {replicas},", reached.replicas),
        ),
        _ => (reached.disk, "was not synced to disk".to_owned()),
    };
    match so {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Unknown,
            format!(
                "the push happened but {words} within {PATIENCE:?}; pushing the same ids again is \
                 safe"
            ),
        )),
    }
}
