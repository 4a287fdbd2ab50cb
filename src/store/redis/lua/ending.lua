-- Library: how events end: tombstones and records.
local TOMBSTONES = 64 -- of one entry
local ENTRY_BYTES = 262144 -- records with payloads: an entry ends with the one that exceeds it
local records -- texts
local extra_bytes -- the bytes of the records beyond their fixed part
local finished -- the time, encoded
local forgets -- how many more ids this call may forget

local function text(it)
  return it and pack(">I2", #it + 1) .. it or "\0\0"
end

-- Appends a record; every number is encoded already. src/store/redis/op/record.rs decodes it. `more`
-- is the record's extras: of its body, and the actor.
local function note(id, outcome, cause, attempt, due, moved, fetched_started, node, key, error, more)
  if more then
    cause, extra_bytes = char(byte(cause) + 128), extra_bytes + #more
  end
  records[#records + 1] = id .. outcome .. cause .. u16(attempt) .. due .. moved
    .. fetched_started .. finished .. node .. text(key) .. text(error) .. (more or "")
end

-- Writes records `from` to `to` as one entry, whose id is the number of the first. A process that has
-- a limit of the outbox notes it for a day; one without a limit, which says so by a `-`, drops nothing
-- that is kept by that. A call drops so many records: where a limit was lowered, later ones do the rest.
local function write_entry(from, to)
  local DROPPED_MAX = 20000
  local first, max, kept, till = record, tonumber(ARGV.records_max), 0, 0
  if meta[7] then
    kept, till = unpack_from(">dd", meta[7])
  end
  if max < 0 then
    max = till > now and math.max(kept, -max) or -max
  elseif kept ~= max or till < now + 43200000000 then
    meta[7] = pack(">dd", max, now + 86400000000)
    call("HSET", META, "kept", meta[7])
  end
  record = record + to - from + 1
  -- First: if a later step fails, the next entry must not request the same number.
  call("HSET", META, "record", record)
  local least = math.max(math.min(record - max, first), 1)
  if not meta.drops_until and least - tonumber(meta[5] or 0) > DROPPED_MAX then -- they may be gone already
    local oldest = call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]
    meta.drops_until = oldest and oldest[1]:match("^%d+") + DROPPED_MAX
  end
  least = math.min(least, meta.drops_until or least)
  call("XADD", OUTBOX, "MINID", "=", least, first .. "-0", -- `DROPPED_MAX` records
    RECORDS == 1 and "r" or "r" .. RECORDS, table.concat(records, "", from, to))
end

-- Writes all records of a call as one entry, or as several where they keep payloads: a reader takes
-- an entry as a whole.
local function write_records()
  local from, bytes = 1, 0
  if extra_bytes > ENTRY_BYTES then
    for i = 1, #records - 1 do
      bytes = bytes + #records[i]
      if bytes >= ENTRY_BYTES then
        write_entry(from, i)
        from, bytes = i + 1, 0
      end
    end
  end
  if #records > 0 then
    write_entry(from, #records)
  end
  records, extra_bytes = {}, 0
end

-- Raises the watermark of forgotten ids, before they are: never past now, as that would refuse every id
-- until then. Of those whose time is still to come there is another one, of ids alone that are so, too.
local function raise_forgotten(ids, ahead)
  local until_ms, last, last_ahead = tonumber(call("HGET", META, "forgotten") or 0), nil, 0
  until_ms = until_ms > ahead and now_ms - 1 or until_ms
  for _, id in ipairs(ids) do
    local made = sub(id, 1, 6)
    if made ~= last then -- many share one millisecond
      local made_ms = unpack_from(">I6", made)
      until_ms, last = made_ms <= now_ms and math.max(until_ms, made_ms) or until_ms, made
      last_ahead = made_ms > now_ms and made_ms <= ahead and math.max(last_ahead, made_ms) or last_ahead
    end
  end
  if last_ahead > 0 then
    local was = tonumber(call("HGET", META, "ahead") or 0)
    call("HSET", META, "ahead", was <= ahead and math.max(was, last_ahead) or last_ahead)
  end
  call("HSET", META, "forgotten", until_ms)
end

-- Adds ids to the end of the tombstones. Few share an entry, as one that is forgotten in part is written
-- again.
local function put_past(ids)
  local entries = {}
  for from = 1, #ids, TOMBSTONES do
    entries[#entries + 1] = finished .. table.concat(ids, "", from, math.min(from + TOMBSTONES - 1, #ids))
  end
  write_all("RPUSH", PAST, entries)
end

-- Removes the tombstones outside of the dedup window, the oldest first; of a bucket in which
-- nothing `has_ended` only those that are too old, and those beyond the cap.
local function forget(has_ended)
  local max, cap, keep_us, max_age_us, at_once, ahead_ms =
    ARGV.window:match("^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$")
  max, cap, keep_us, max_age_us = tonumber(max), tonumber(cap), tonumber(keep_us), tonumber(max_age_us)
  forgets = forgets or tonumber(at_once)
  local ids, kept, entries, rest = {}, {}, 0, nil
  local last_ms = now_ms + ahead_ms
  while past > 0 and forgets > 0 and #kept < 256 do -- an entry of the list, which has few
    local batch = call("LINDEX", PAST, entries)
    if not batch then
      past = #kept
      break
    end
    local age = now - number_at(batch, 1)
    local limit = has_ended and age >= keep_us and math.min(max, cap) or cap
    if age >= max_age_us then
      limit = 0
    end
    local its, seen_of_it = ids_of_batch(sub(batch, 9)), 0
    while seen_of_it < #its and past > limit and forgets > 0 and #kept < 256 do -- `TOMBSTONES` ids
      local id = its[seen_of_it + 1]
      local made = unpack_from(">I6", id)
      -- One whose time is still to come is put behind the others, up to twice the cap: no watermark
      -- can say that it is forgotten.
      if made > now_ms and made <= last_ms and past <= 2 * math.max(cap, 1) then
        kept[#kept + 1] = id
      else
        ids[#ids + 1], past = id, past - 1
      end
      seen_of_it, forgets = seen_of_it + 1, forgets - 1
    end
    if #its == 0 then -- a check has left none
      forgets = forgets - 1
    elseif seen_of_it == 0 then
      break
    end
    rest = seen_of_it < #its and sub(batch, 1, 8) .. sub(batch, 9 + 16 * seen_of_it)
    entries = entries + (rest and 0 or 1)
    if rest then
      break
    end
  end
  if entries > 0 or rest then
    if #ids > 0 then
      raise_forgotten(ids, last_ms)
    end
    put_past(kept) -- twice in the list after a call that fails here
    write_all("HDEL", STATE, ids)
    for _, id in ipairs(meta.changed and ids or {}) do -- a push has read their data
      meta.changed[id] = true
    end
    if entries > 0 then
      call("LTRIM", PAST, entries, -1) -- as many as were read
    end
    if rest then
      call("LSET", PAST, 0, rest)
    end
  end
end

-- Remembers events that have ended, and forgets others for them.
local function remember(ids)
  put_past(ids)
  past = past + #ids
  forget(true)
end

-- Redis does not roll a script back, so keys of a wrong type fail it here, before it writes.
local function check_keys()
  call("LLEN", PAST)
  call("HLEN", UNIQUE)
  call("ZCARD", HOLDS)
  call("ZCARD", DEAD)
  call("ZCARD", DELAY)
end

-- Frees the unique key, unless another event has taken it over.
local function free_unique(id, unique)
  local held = unique and call("HGET", UNIQUE, unique)
  if held and sub(held, 1, 16) == id then
    call("HDEL", UNIQUE, unique)
    if #held > 16 then
      call("ZREM", HOLDS, unique)
    end
  end
end

-- Returns until when the unique key of an event that has `ended`, encoded, stays reserved, ms, if that is to
-- come; the same of an end and of whoever meets what a settle that failed has left.
local function reserved_until(kind, ended, period)
  local till = period and (kind == "d" or kind == "x") and math.floor(number_at(ended, 1) / 1000) + period
  return till and till > now_ms and till or nil
end

-- Reserves the unique key of a done event, unless another event has taken it over. Removes a few expired
-- reservations on each call, and those beyond the limit.
local function hold_unique(id, unique, till)
  local held = call("HGET", UNIQUE, unique)
  if not held or sub(held, 1, 16) ~= id then
    return
  end
  local count = call("ZCARD", HOLDS) - (#held > 16 and 1 or 0)
  local expired_max = 2
  local first = call("ZRANGE", HOLDS, 0, expired_max, "WITHSCORES")
  for i = 1, #first, 2 do
    local is_free = tonumber(first[i + 1]) <= now_ms and i < 2 * expired_max
    if first[i] ~= unique and (is_free or count >= RUST.HOLDS_MAX) then
      call("HDEL", UNIQUE, first[i])
      call("ZREM", HOLDS, first[i])
      count = count - 1
    end
  end
  call("HSET", UNIQUE, unique, id .. u64(till))
  call("ZADD", HOLDS, till, unique)
end

-- Reserves the unique key of an event that a settle which failed has left, and returns whether it did.
local function hold_left(id, it, body)
  local _, unique = keys_of(body)
  local till = unique and reserved_until(it.kind, it.moved, unique_for(body))
  if till then
    hold_unique(id, unique, till)
  end
  return till
end

-- Records the end of an event that is not leased. `due` is its due time, ms, both encoded.
local function note_end(id, outcome, due, moved, body, by)
  note(id, outcome, "\0", 0, due, moved, ZERO .. ZERO, ZERO, (keys_of(body)), nil,
    more_of(body, by))
end

-- Ends an event that is not leased and whose end is recorded; `it`: its state, if it has one. The caller
-- remembers it then, and removes its body last: one that has ended and has a body was left by a call that
-- failed.
local function finish(id, kind, it, due, body)
  local key, unique = keys_of(body)
  it = it or new_state("S", due, ZERO, ZERO)
  it.moved = has_ended(it.kind) and it.moved or finished
  it.kind, it.due, it.fingerprint = kind, due, body and sub(body, 5, 12) or ZERO
  call("HSET", STATE, id, write_state(it))
  if key then
    call("ZREM", BY_KEY, key_entry(key, id))
  end
  if not hold_left(id, it, body) then
    free_unique(id, unique)
  end
end

-- Ends such an event and remembers it.
local function finish_noted(id, kind, it, due, body)
  finish(id, kind, it, due, body)
  remember({ id })
  call("HDEL", BODY, id)
  if body and has_extras(body) then
    call("ZREM", EXPIRY, id)
  end
end

-- Notes that an event ends, whose entry in the ready list is skipped later if it `is_ready`.
local function leave_ready(is_ready, id)
  if is_ready then
    surplus = surplus + 1
    keep_counts(false, -1, 0, id)
  end
end

-- Cancels a waiting event. The record comes first: an event that has ended without one never gets
-- it.
local function cancel(id, it, body)
  local is_ready = it and it.kind == "R"
  local due, moved = nil, ZERO
  if is_ready then
    due, moved = it.due, it.moved
  else
    due = u64(tonumber(call("ZSCORE", DELAY, id)))
  end
  check_keys()
  note_end(id, "\6", due, moved, body)
  write_records()
  leave_ready(is_ready, id)
  finish_noted(id, "c", it, due, body)
  if not is_ready then
    call("ZREM", DELAY, id)
  end
end

-- Each call:
records, extra_bytes, finished, forgets = {}, 0, u64(now), nil
