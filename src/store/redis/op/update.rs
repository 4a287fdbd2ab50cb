//! Replaces the payload of an event, and of a dead one that is revived with it.

use crate::codec::body;
use crate::core::engine::check_by;
use crate::core::op::{ChangeOutcome, DeadLetterEdit, Reply, Response};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{BucketKey, EventId, Payload, State};
use crate::store::redis::link::managed::ScriptReply;
use crate::store::redis::op::look::look;
use crate::store::redis::op::reply::{changed, check_repeat, is_changed, state};
use crate::store::redis::op::revive::ReviveReply;
use crate::store::redis::op::shared::Shared;
use crate::store::redis::script::call::CallContext;
use crate::store::redis::script::names::reply_placed;
use crate::store::redis::script::reader::ReplyReader;
use crate::store::redis::script::source::lua;
use crate::store::redis::script::table::{Text, script};

script! {
    /// Replaces the body of an event, if it is still the one that was read; a dead event leaves a
    /// record.
    UPDATE = "update", FILLS, Ending, ["bucket", "state", "page", "bytes", "body", "ending"];
    UpdateArguments<'a> {
        id: EventId,
        /// The first bytes of the body that was read, which identify it.
        read: &'a [u8],
        /// The new body.
        new: &'a [u8],
        /// The actor.
        by: Text<'a>,
        /// Whether to change only a dead one.
        dead_only: bool,
    }
    reply UpdateReply {
        now: u64,
        /// "changed" or "after" (an attempt may still run) or "again" (its body has changed since), or
        /// the kind of its state when it is too late, or "" for an unknown id.
        change: Vec<u8>,
        due: u64,
        /// Whether a record was written.
        recorded: bool,
    }
}

script! {
    /// Edits a dead event and revives it, in one step: the scripts that do the one and the other, as
    /// functions of one script. The second runs only if the first has changed the event, and neither if
    /// its expiry has passed.
    EDIT_AND_REVIVE = "edit_and_revive", FILLS, Ending,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "unreaped", "unexpired"]
        from &edit_and_revive_source();
    EditAndReviveArguments<'a> {
        /// As of an update, and of a revive.
        read: &'a [u8],
        new: &'a [u8],
        by: Text<'a>,
        dead_only: bool,
        origin: &'a str,
    }
    each Edited {
        /// The only event.
        id: EventId,
    }
    reply EditAndReviveReply {
        now: u64,
        change: Vec<u8>,
        due: u64,
        recorded: bool,
        earlier: bool,
    }
}

fn edit_and_revive_source() -> String {
    let (edit, revive) = (UpdateReply::FIELDS, ReviveReply::FIELDS);
    let edited =
        "local edited = edit()\nlocal change, due = edited[REPLY.change], edited[REPLY.due]\n";
    [
        "local function edit()\n",
        &reply_placed(lua!("update"), edit),
        "end\nlocal function revive()\n",
        &reply_placed(lua!("revive"), revive),
        "end\ncheck_keys()\nlocal it, body = state_alone(ARGV.id), call('HGET', BODY, ARGV.id)\n",
        "local is_dead = it and it.kind == 'D' and body and sub(body, 1, #ARGV.read) == ARGV.read\n",
        "if is_dead and has_extras(body) and has_expired(body) then\n",
        "  return REPLY { now = now, change = 'e', due = 0, recorded = 0, earlier = 0 }\nend\n",
        &reply_placed(edited, edit),
        "if change ~= 'changed' and change ~= 'after' then\n",
        "  return REPLY { now = now, change = change, due = due, recorded = 0, earlier = 0 }\nend\n",
        &reply_placed("local earlier = revive()[REPLY.earlier]\n", revive),
        "return REPLY { now = now, change = change, due = now_ms, recorded = 1, earlier = earlier }\n",
    ]
    .concat()
}

/// The limit of retries of an update after concurrent changes.
const RACES_MAX: usize = 16;

/// Replaces the payload of an event.
///
/// The body is read and rebuilt here, as its checksum needs the whole envelope; the script accepts
/// it only if the event is unchanged.
pub(in crate::store::redis) async fn update(
    shared: &Shared,
    bucket: &BucketKey,
    id: EventId,
    payload: &Payload,
    by: Option<&str>,
    dead_only: bool,
) -> Result<Response> {
    check_by(by)?;
    for _ in 0..RACES_MAX {
        let (_, mut parts) = look(shared, bucket, &[id]).await?;
        let (_, bytes) = (parts.optional()?, parts.optional()?);
        let read = bytes.unwrap_or_default();
        let new = if read.is_empty() {
            Vec::new()
        } else {
            let mut envelope = body::decode(id, &bucket.queue, &read)?;
            envelope.payload = payload.clone();
            body::encode(&envelope)
        };
        let head = &read[..read.len().min(body::HEAD_LEN)];
        let arguments = UpdateArguments {
            id,
            read: head,
            new: &new,
            by: Text(by),
            dead_only,
        };
        let call = shared.terms(bucket).call(arguments);
        let link = shared.links.for_pushes(bucket);
        let ScriptReply { value, is_repeat } = shared.run_script(bucket, link, &call).await?;
        let parts = ReplyReader::of(call.script.name, value)?;
        let (now_us, changed, has_recorded) = read_updated(parts)?;
        check_repeat(is_repeat, changed.as_ref().is_some_and(is_changed))?;
        if let Some(changed) = changed {
            if has_recorded {
                shared.outboxes.tell(bucket);
            }
            return Ok(Response {
                now_us,
                reply: Reply::Updated(changed),
            });
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("event {id} was not updated, because concurrent updates came first each time"),
    ))
}

/// Replaces the payload of a dead letter that is still as it was read, and revives it, in one script.
pub(in crate::store::redis) async fn edit_and_revive(
    shared: &Shared,
    bucket: &BucketKey,
    edit: &DeadLetterEdit,
) -> Result<Response> {
    let id = edit.id;
    check_by(edit.by.as_deref())?;
    let (now_us, mut parts) = look(shared, bucket, &[id]).await?;
    let (kind, bytes) = (parts.optional()?, parts.optional()?);
    let response = |now_us, changed| Response {
        now_us,
        reply: Reply::Updated(changed),
    };
    let read = bytes.unwrap_or_default();
    let kind = kind.and_then(|kind| kind.first().copied());
    let found = match kind {
        Some(kind) => state(kind)?,
        None if read.is_empty() => return Ok(response(now_us, ChangeOutcome::NotFound)),
        None => State::Scheduled,
    };
    if found != State::Dead || read.is_empty() {
        return Ok(response(now_us, ChangeOutcome::TooLate(found)));
    }
    let mut envelope = body::decode(id, &bucket.queue, &read)?;
    if envelope.fingerprint() != edit.was {
        return Ok(response(now_us, ChangeOutcome::TooLate(State::Dead)));
    }
    envelope.payload = edit.payload.clone();
    let head = &read[..read.len().min(body::HEAD_LEN)];
    let new = body::encode(&envelope);
    let mut terms = shared.terms(bucket);
    let call = |terms: &CallContext<'_>| {
        let arguments = EditAndReviveArguments {
            read: head,
            new: &new,
            by: Text(edit.by.as_deref()),
            dead_only: true,
            origin: &terms.origin,
        };
        Ok(terms.call(arguments).with_rows([Edited { id }]))
    };
    let link = shared.links.for_pushes(bucket);
    let (mut parts, is_repeat) = shared.call_unexpired(&mut terms, link, call).await?;
    let reply = EditAndReviveReply::read(&mut parts)?;
    // It changed since it was read: it is dead, and not as it was.
    let change = changed(&reply.change, reply.due)?.unwrap_or(ChangeOutcome::TooLate(State::Dead));
    check_repeat(is_repeat, is_changed(&change))?;
    if reply.recorded {
        shared.learn(&terms, reply.now);
        shared.outboxes.tell(bucket);
    }
    if reply.earlier {
        shared.tell(bucket);
    }
    Ok(response(reply.now, change))
}

/// Decodes the reply of an update: the time, the result, which is `None` when a concurrent change came
/// first and it must be retried, and whether it wrote a record.
pub fn read_updated(mut parts: ReplyReader) -> Result<(u64, Option<ChangeOutcome>, bool)> {
    let reply = UpdateReply::read(&mut parts)?;
    Ok((
        reply.now,
        changed(&reply.change, reply.due)?,
        reply.recorded,
    ))
}
