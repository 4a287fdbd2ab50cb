//! Pushes that wait for confirmed durability, beyond what the servers offer by default.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::op::{NewEvent, Reply, Response};
use crate::core::push::Attempts;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;
use crate::store::durability::Durability;
use crate::store::redis::link::managed::durable::{DurabilityWait, ReachedDurability};
use crate::store::redis::op::admit::check_push;
use crate::store::redis::op::push::{self, PAUSES};
use crate::store::redis::op::push_script;
use crate::store::redis::op::server_facts::ServerFacts;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::CallContext;

/// The timeout for replicas.
const REPLICATED_WITHIN: Duration = Duration::from_secs(1);
/// The timeout for disks: with `appendfsync everysec` a server syncs once a second, and two seconds
/// later when the sync before goes on.
const SYNCED_WITHIN: Duration = Duration::from_secs(4);

/// Pushes, and waits until the events are as durable as `wanted`; split like any push.
pub(in crate::store::redis) async fn push(
    shared: &Arc<Shared>,
    found: &ServerFacts,
    bucket: &BucketKey,
    events: Vec<NewEvent>,
    wanted: Durability,
) -> Result<Response> {
    let wait = wait(found, wanted)?;
    check_push(bucket, &events)?;
    let mut whole = push::CombinedReply::default();
    for part in push::parts_of(events) {
        let mut rest = &part[..];
        while !rest.is_empty() {
            let pushed = push_part(shared, bucket, rest, (wanted, wait)).await;
            rest = &rest[whole.add(pushed)?..];
        }
    }
    Ok(whole.response())
}

/// Pushes a part that fits into one call, or the first events of one, as the script decides; retries
/// while the servers do not respond.
async fn push_part(
    shared: &Arc<Shared>,
    bucket: &BucketKey,
    events: &[NewEvent],
    terms: (Durability, DurabilityWait),
) -> Result<Response> {
    let _reserved = shared.capacity.reserve(bucket, events)?;
    let now = Instant::now();
    let (deadline, until) = (now + shared.push_timeout(), now + shared.options.retry_for);
    let (mut failures, mut attempts) = (0, Attempts::default());
    loop {
        let times = (terms.1, until, deadline);
        let tried = attempt(shared, bucket, events, times, &mut attempts);
        let error = match tried.await {
            Ok((response, reached)) => return is_reached(terms, &reached).map(|()| response),
            Err(error) => Arc::new(error),
        };
        failures += 1;
        let next = Instant::now() + PAUSES.after(failures);
        if !attempts.failed(error.kind()) || next > until {
            return Err(push::given_up(&attempts, &error));
        }
        tokio::time::sleep(PAUSES.jittered(failures)).await;
    }
}

async fn attempt(
    shared: &Arc<Shared>,
    bucket: &BucketKey,
    events: &[NewEvent],
    (wait, until, deadline): (DurabilityWait, Instant, Instant),
    attempts: &mut Attempts,
) -> Result<(Response, ReachedDurability)> {
    push::register(shared, bucket, until).await?;
    // A pipeline with its wait brings a server no library; a script it brings once.
    let terms = CallContext {
        calls_functions: false,
        ..shared.terms(bucket)
    };
    let call = push_script::call(&terms, events.iter());
    let link = shared.links.for_pushes(bucket);
    let unheard = shared.unheard(bucket, &call);
    let carried = link.run_durably(call.script, &call.command, wait, deadline);
    let carried = carried.await;
    unheard.ended(&carried, |(reply, _)| reply.is_repeat);
    let (reply, reached) = carried?;
    let pushed = push::decided(shared, (&terms, &call), reply, events.iter(), attempts).await?;
    let (now_us, reply) = (pushed.now_us, Reply::Pushed(pushed.reports));
    Ok((Response { now_us, reply }, reached))
}

/// Returns the confirmation to wait for.
fn wait(found: &ServerFacts, wanted: Durability) -> Result<DurabilityWait> {
    match wanted {
        Durability::Replicated(replicas) => Ok(DurabilityWait {
            disk: false,
            replicas,
            timeout: REPLICATED_WITHIN,
        }),
        Durability::Disk if found.waits_for_disk => Ok(DurabilityWait {
            disk: true,
            replicas: 0,
            timeout: SYNCED_WITHIN,
        }),
        _ => Err(Error::invalid(format!(
            "a push of durability {wanted:?} was requested; the server, of version {}, offers \
             {:?} and cannot confirm more. Set `appendonly yes` with `appendfsync always`, or use \
             Redis 7.2 or later with an append-only file",
            found.version, found.durability
        ))),
    }
}

fn is_reached(
    (wanted, wait): (Durability, DurabilityWait),
    reached: &ReachedDurability,
) -> Result<()> {
    let (so, words) = match wanted {
        Durability::Replicated(replicas) => (
            reached.replicas >= replicas,
            format!("reached {} replicas, not {replicas},", reached.replicas),
        ),
        _ => (reached.disk, "was not synced to disk".to_owned()),
    };
    if so {
        Ok(())
    } else {
        let within = wait.timeout;
        Err(Error::new(
            ErrorKind::Unknown,
            format!(
                "the push happened but {words} within {within:?}; pushing the same ids again is \
             safe"
            ),
        ))
    }
}
