-- Library: what has expired while nobody fetches. It needs `ending` and `sweep`.
--
-- EXPIRY  zset  id -> the time, us, from which a waiting event is of no use, or at which to look at it.
--               One that is leased is parked, and looked at when it waits again.
local PARKED = 9007199254740991 -- the end of what a double counts
local LOOK_AGAIN = 1000000 -- us until an event of a newer duly is looked at again
local ALONE = 65536 -- bytes whose work equals that of an end that shares no command with others

-- Returns from when on an event with these extras is of no use, us, and how it ends then; nothing if it never
-- is.
local function useless_from(due_ms, expires, late, late_us)
  local expires_us = expires and math.min(expires * 1000, PARKED) or math.huge
  local late_from = late and due_ms * 1000 + late_us + 1 or math.huge
  if expires_us == math.huge and late_from == math.huge then
    return nil
  end
  local is_expiry = expires_us <= now or late == "expire"
  return math.min(expires_us, late_from, PARKED), is_expiry
end

-- Ends an event that has expired and waits. Returns whether it did; the entry of any other one in EXPIRY
-- is as it should be afterwards.
local function end_if_expired(id)
  local packed, body = call("HGET", STATE, id), nil
  local it = packed and read_state(packed)
  local kind = it and it.kind or "S"
  if kind == "L" then
    call("ZADD", EXPIRY, "XX", string.format("%.0f", PARKED), id)
    return false
  elseif kind == "S" or kind == "R" then
    body = read_body(id)
  elseif has_ended(kind) and call("HSTRLEN", BODY, id) > 0 then -- left by a call that failed
    check_keys()
    finish_noted(id, kind, it, it.due, read_body(id))
    call("ZREM", DELAY, id)
  end
  local due_ms = body and (kind == "R" and number_at(it.due, 1) or tonumber(call("ZSCORE", DELAY, id) or nil))
  if not due_ms or not has_extras(body) then
    call("ZREM", EXPIRY, id)
    return false
  elseif is_newer(body) then
    call("ZADD", EXPIRY, "XX", now + LOOK_AGAIN, id)
    return false
  end
  local from, is_expiry = useless_from(due_ms, select(2, extras_of(body)))
  if not from or from > now then
    if from then
      call("ZADD", EXPIRY, "XX", string.format("%.0f", from), id)
    else
      call("ZREM", EXPIRY, id)
    end
    return false
  end
  local due, moved, key, unique = u64(due_ms), kind == "R" and it.moved or ZERO, keys_of(body)
  check_keys()
  if is_expiry then
    note_end(id, "\7", due, moved, body)
    write_records()
    leave_ready(kind == "R", id)
    finish_noted(id, "e", it, due, body)
    meta.expired = meta.expired + 1
  else
    note(id, "\4", "\7", 0, due, moved, ZERO .. ZERO, ZERO, key, nil, more_of(body))
    write_records()
    it = it or new_state("D", due, ZERO, sub(body, 5, 12))
    it.kind, it.due, it.moved = "D", due, u64(now)
    call("ZADD", DEAD, 0, id)
    leave_ready(kind == "R", id)
    call("HSET", STATE, id, write_state(it))
    free_unique(id, unique)
    meta.late = meta.late + 1
  end
  if kind ~= "R" then
    call("ZREM", DELAY, id)
  end
  call("ZREM", EXPIRY, id)
  return true
end

-- Ends one event if it has expired and waits, and returns whether it did.
local function end_one_if_expired(id)
  local is_ended = end_if_expired(id)
  spent = spent + ALONE
  drop_stale(is_ended and 1 or 0)
  return is_ended
end

-- Cancels a waiting event, and removes what those before it have left in the ready list.
local function cancel_one(id, it, body)
  local left = it and it.kind == "R" and 1 or 0
  spent = spent + ALONE
  cancel(id, it, body)
  drop_stale(left)
end

-- Takes the unique key of an event for another that `replaces` it: cancels one whose handler has not
-- started. Returns whether it was cancelled; or "overdue" where its lease is to be ended first, or "free"
-- where a call that failed has left it the key, unless that is to be reserved.
local function replace_one(id, it, replaces)
  if it and (it.kind == "D" or has_ended(it.kind)) then
    return (replaces or not hold_left(id, it, read_body(id))) and "free"
  end
  local is_leased = it and it.kind == "L"
  local deadline = is_leased and it.timed and tonumber(redis.pcall("ZSCORE", LEASE, id))
  if deadline and deadline <= now_ms and byte(ARGV.now, -1) ~= 32 then
    return "overdue"
  elseif not replaces then
    return false
  elseif is_leased then
    it.keyless = true
    call("HSET", STATE, id, write_state(it))
    return false
  end
  local body = read_body(id)
  if not body or is_newer(body) then
    return false
  end
  cancel_one(id, it, body)
  return true
end
