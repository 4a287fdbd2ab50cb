-- Script: cancels an event, and reports whether an attempt may still run.
local id = ARGV.id
call("LLEN", READY) -- one of a wrong type fails it here, before it writes
if call("ZSCORE", EXPIRY, id) then
  end_one_if_expired(id)
end
local it = state_alone(id)
local body = call("HGET", BODY, id)
if body and is_newer(body) then
  return redis.error_reply("DULY INVALID the event was written by a newer duly, in a form that this "
    .. "version cannot read; cancel it with that one")
end
local kind = it and it.kind or (body and "S" or "")
local truth = it and it.lost and "after" or "cancelled"
if kind == "S" or kind == "R" then
  cancel_one(id, it, body)
  kind = truth
elseif kind == "c" then
  kind = truth
  if body then -- left by a call that failed
    check_keys()
    finish_noted(id, "c", it, it.due, body)
  end
  call("ZREM", DELAY, id)
end
keep_counts()
return REPLY { now = now, kind = kind }
