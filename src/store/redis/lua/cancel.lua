-- Script: cancels an event, and reports whether an attempt may still run.
--
-- ARGV[4]  id
--
-- Returns {now, "cancelled" or "after" (an attempt may still run), or the kind of its state when it
-- is too late, or "" for an unknown id}.
local id = ARGV[4]
local page, part, place = place_of(id)
if page and part.kind == "S" then -- what most are: all that is known of it is in its page
  local it = own_state(part, place)
  check_keys()
  note_end(id, "\6", it.due, ZERO)
  write_records()
  it.kind = "c"
  leave_part(page, part, { place }, { [place] = write_state(it) })
  remember(id .. "\0", 1)
  keep_counts()
  return { now, "cancelled" }
end
if not page and call("ZSCORE", EXPIRY, id) then
  end_if_expired(id)
end
local it = leave_waiting(id)
local body = call("HGET", BODY, id)
if body and is_newer(body) then
  return redis.error_reply("DULY CORRUPT the event was written by a newer duly, in a form that this "
    .. "version cannot read; cancel it with that one")
end
local kind = it and it.kind or (body and "S" or "")
local truth = it and it.lost and "after" or "cancelled"
if kind == "S" or kind == "R" then
  cancel(id, it, body)
  kind = truth
elseif kind == "c" then
  kind = truth
end
keep_counts()
return { now, kind }
