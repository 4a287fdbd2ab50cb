-- Library: what has expired while nobody fetches. It needs `ending`.
--
-- EXPIRY  zset  id -> the time, us, from which a waiting event is of no use, or at which to look at it.
--               One that is leased is parked, and looked at when it waits again.
local PARKED = 9007199254740991 -- the end of what a double counts
local LOOK_AGAIN = 1000000 -- us until an event of a newer duly is looked at again

-- Returns from when on an event is of no use, us, and how it ends then; nothing if it never is.
local function useless_from(body, due_ms)
  local _, expires, late, late_us = extras_of(body)
  local expires_us = expires and math.min(expires * 1000, PARKED) or math.huge
  local late_from = late and due_ms * 1000 + late_us + 1 or math.huge
  if expires_us == math.huge and late_from == math.huge then
    return nil
  end
  local is_expiry = expires_us <= now or late == "expire"
  return math.min(expires_us, late_from, PARKED), is_expiry
end

-- Ends an event that has expired and waits. Returns whether it did, and whether it had expired and
-- was not too late; the entry of any other one in EXPIRY is as it should be afterwards.
local function end_if_expired(id)
  local packed, body = call("HGET", STATE, id), nil
  local it = packed and read_state(packed)
  local kind = it and it.kind or "S"
  if kind == "L" then
    call("ZADD", EXPIRY, "XX", string.format("%.0f", PARKED), id)
    return false
  elseif kind == "S" or kind == "R" then
    body = read_body(id)
  end
  local due_ms = body and (kind == "R" and number_at(it.due, 1) or tonumber(call("ZSCORE", DELAY, id) or nil))
  if not due_ms or not has_extras(body) then
    call("ZREM", EXPIRY, id)
    return false
  elseif is_newer(body) then
    call("ZADD", EXPIRY, "XX", now + LOOK_AGAIN, id)
    return false
  end
  local from, is_expiry = useless_from(body, due_ms)
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
    finish_noted(id, "e", it, due, body)
  else
    note(id, "\4", "\7", 0, due, moved, ZERO .. ZERO, ZERO, key, nil, more_of(body))
    write_records()
    it = it or new_state("D", due, ZERO, sub(body, 5, 12))
    it.kind, it.due, it.moved = "D", due, u64(now)
    call("ZADD", DEAD, 0, id)
    call("HSET", STATE, id, write_state(it))
    free_unique(id, unique)
  end
  if kind == "R" then -- its entry in the list is skipped later
    surplus = surplus + 1
  else
    call("ZREM", DELAY, id)
  end
  call("ZREM", EXPIRY, id)
  return true, is_expiry
end

-- Removes entries of the ready list that stand for no event any more from the end that `from` and `to`
-- are at. Returns whether it removed all that it looked at.
local function drop_stale_at(from, to)
  local entries, ids, numbers, ends = call("LRANGE", READY, from, to), {}, {}, {}
  read_pages(entries)
  for i, entry_of in ipairs(entries) do
    local its = #entry_of == ENTRY_OF_PART
    for _, id in ipairs(its and ids_in(entry_of) or { sub(entry_of, 1, 16) }) do
      ids[#ids + 1], numbers[#ids + 1] = id, sub(entry_of, its and 18 or 17)
    end
    ends[i] = #ids
  end
  local states, stale = read_all("HMGET", STATE, ids), 0
  for i = from == 0 and 1 or #entries, from == 0 and #entries or 1, from == 0 and 1 or -1 do
    local is_live = #entries[i] == ENTRY_OF_PART and part_of(entries[i], "R")
    for at = (ends[i - 1] or 0) + 1, ends[i] do
      is_live = is_live or is_placed(states[at], numbers[at])
    end
    if is_live then
      break
    end
    stale = stale + 1
  end
  if stale > 0 then
    surplus = surplus - stale
    keep_counts()
    call("LTRIM", READY, from == 0 and stale or 0, from == 0 and -1 or -stale - 1)
  end
  return stale > 0 and stale == #entries
end

local LOOKED_AT, LOOKED_AT_ALL = 8, 512

-- Removes entries of events that have left the ready list from both of its ends, more than one event
-- leaves behind; where all seem to be such, many. Each is looked at, since counts may be wrong.
local function drop_stale()
  local len = surplus > 0 and call("LLEN", READY) or 0
  local many = surplus >= len and LOOKED_AT_ALL or LOOKED_AT
  if len > 0 and not drop_stale_at(0, many - 1) then
    drop_stale_at(-many, -1)
  end
end
