-- Library: how events end: tombstones and records.
--
-- ARGV[2]  the dedup window: how many tombstones are kept beyond a time, the cap, that time, us,
--          the time after which none is kept, us, how many ids a call may forget, and how far ahead
--          of now an id's creation time may be, ms
-- ARGV[3]  how many records the outbox keeps
local ENTRY_BYTES = 262144 -- records with payloads: an entry ends with the one that exceeds it
local records -- texts, most of them one record each
local several -- the place of one that stands for more -> how many more
local told -- the bytes of the records beyond their fixed part
local finished -- the time, encoded
local forgets -- how many more ids this call may forget

local function text(it)
  return it and pack(">I2", #it + 1) .. it or "\0\0"
end

-- Appends a record; every number is encoded already. src/store/redis/record.rs decodes it. `more`
-- is the record's extras: of its body, and the actor.
local function note(id, outcome, cause, attempt, due, moved, fetched_started, node, key, error, more)
  if more then
    cause, told = char(byte(cause) + 128), told + #more
  end
  records[#records + 1] = id .. outcome .. cause .. u16(attempt) .. due .. moved
    .. fetched_started .. finished .. node .. text(key) .. text(error) .. (more or "")
end

-- Appends a text that stands for `count` records.
local function note_several(count, its)
  records[#records + 1] = its
  several[#records] = count - 1
end

-- Writes records `from` to `to` as one entry, whose id is the number of the first.
local function write_entry(from, to)
  local after = record + to - from + 1
  for at, more in pairs(several) do
    after = after + (at >= from and at <= to and more or 0)
  end
  local oldest = math.max(math.min(after - ARGV[3], record), 1)
  call("XADD", OUTBOX, "MINID", "=", oldest, record .. "-0", RECORDS == 1 and "r" or "r" .. RECORDS,
    table.concat(records, "", from, to))
  record = after
  -- At once: if a later step fails, the next entry must not request the same number.
  call("HSET", META, "record", record)
end

-- Writes all records of a call as one entry, or as several where they keep payloads: a reader takes
-- an entry as a whole.
local function write_records()
  local from, bytes = 1, 0
  if told > ENTRY_BYTES then
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
  records, several, told = {}, {}, 0
end

-- Divides a batch of tombstones. Returns the items of its first events, at most `most`; how many these
-- are; the rest of it.
local function first_of(batch, most)
  local items, count = {}, 0
  for at = 9, #batch, 17 do
    local item = sub(batch, at, at + 16)
    local left, its = most - count, events_of(item)
    if its > left then
      if left > 0 then
        items[#items + 1] = sub(item, 1, 16) .. char(left)
        item = sub(item, 1, NAME) .. char(byte(item, 16) + left, its - left)
      end
      return items, most, sub(batch, 1, 8) .. item .. sub(batch, at + 17)
    end
    items[#items + 1], count = item, count + its
  end
  return items, count, nil
end

-- Forgets what some items stand for, each of events in one part or of ones that are alone by now.
local function forget_items(items)
  local fields = {}
  read_pages(items)
  for _, item in ipairs(items) do
    local page = is_pageable(item) and page_of(sub(item, 1, NAME))
    if not place_of(item) then
      for _, id in ipairs(ids_of_batch(item)) do
        fields[#fields + 1] = id
      end
    end
    if page then
      local low, high = bits(byte(item, 16) - PLACE, events_of(item))
      page.low, page.high = bit.band(page.low, bit.bnot(low)), bit.band(page.high, bit.bnot(high))
      change(page)
      if page.low == 0 and page.high == 0 then
        fields[#fields + 1] = page.name
        pages[page.name], changed_pages[page.name] = false, nil
      end
    end
  end
  keep_pages()
  if #fields > 0 then
    call("HDEL", STATE, unpack(fields))
  end
end

-- Removes the tombstones outside of the dedup window, the oldest first; of a bucket in which
-- nothing `has_ended` only those that are too old, and those beyond the cap.
local function forget(has_ended)
  local max, cap, keep_us, max_age_us, at_once, ahead_ms =
    ARGV[2]:match("^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$")
  max, cap, keep_us, max_age_us = tonumber(max), tonumber(cap), tonumber(keep_us), tonumber(max_age_us)
  forgets = forgets or tonumber(at_once)
  local until_ms, ahead = nil, now_ms + ahead_ms
  while past > 0 and forgets > 0 do
    local batch = call("LINDEX", PAST, 0)
    if not batch then
      past = 0
      break
    end
    local age = now - number_at(batch, 1)
    local surplus = past - (has_ended and age >= keep_us and math.min(max, cap) or cap)
    if age >= max_age_us then
      surplus = past
    end
    if surplus <= 0 then
      break
    end
    if not until_ms then
      until_ms = tonumber(call("HGET", META, "forgotten") or 0)
      until_ms = until_ms > ahead and now_ms - 1 or until_ms
    end
    local items, count, rest = first_of(batch, math.min(surplus, forgets))
    local last
    for _, item in ipairs(items) do
      local made = sub(item, 1, 6)
      if made ~= last then -- many share one millisecond
        local made_ms = unpack_from(">I6", made)
        -- An id that is further ahead is refused for that.
        until_ms, last = made_ms <= ahead and math.max(until_ms, made_ms) or until_ms, made
      end
    end
    call("LPOP", PAST)
    if rest then
      call("LPUSH", PAST, rest)
    end
    forget_items(items)
    past, forgets = past - count, forgets - count
  end
  if until_ms then
    call("HSET", META, "forgotten", until_ms)
  end
end

-- Remembers events that have ended, and forgets others for them; `items` of a batch, which stand for
-- `count`.
local function remember(items, count)
  call("RPUSH", PAST, finished .. items)
  past = past + count
  forget(true)
end

-- Redis does not roll a script back, so keys of a wrong type fail it here, before it writes.
local function check_keys()
  call("LLEN", PAST)
  call("HLEN", UNIQUE)
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

local HOLDS_MAX, EXPIRED_MAX = 100000, 2

-- Reserves the unique key of a done event for `period`, ms, unless another event has taken it over.
-- Removes a few expired reservations on each call, and those beyond the limit.
local function hold_unique(id, unique, period)
  local held = call("HGET", UNIQUE, unique)
  if not held or sub(held, 1, 16) ~= id then
    return
  end
  local count = call("ZCARD", HOLDS) - (#held > 16 and 1 or 0)
  local first = call("ZRANGE", HOLDS, 0, EXPIRED_MAX, "WITHSCORES")
  for i = 1, #first, 2 do
    local is_free = tonumber(first[i + 1]) <= now_ms and i < 2 * EXPIRED_MAX
    if first[i] ~= unique and (is_free or count >= HOLDS_MAX) then
      call("HDEL", UNIQUE, first[i])
      call("ZREM", HOLDS, first[i])
      count = count - 1
    end
  end
  call("HSET", UNIQUE, unique, id .. u64(now_ms + period))
  call("ZADD", HOLDS, now_ms + period, unique)
end

-- Records the end of an event that is not leased. `due` is its due time, ms, both encoded.
local function note_end(id, outcome, due, moved, body, by)
  note(id, outcome, "\0", 0, due, moved, ZERO .. ZERO, ZERO, (keys_of(body)), nil,
    more_of(body, by))
end

-- Ends an event that is not leased and whose end is recorded; `it`: its state, if it has one.
local function finish_noted(id, kind, it, due, body)
  local key, unique = keys_of(body)
  it = it or new_state(kind, due, ZERO, ZERO)
  it.kind, it.due, it.moved, it.fingerprint = kind, due, ZERO, body and sub(body, 5, 12) or ZERO
  call("HSET", STATE, id, write_state(it))
  call("HDEL", BODY, id)
  if key then
    call("ZREM", BY_KEY, key_entry(key, id))
  end
  free_unique(id, unique)
  if body and has_extras(body) then
    call("ZREM", EXPIRY, id)
  end
  remember(id .. "\0", 1)
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
  finish_noted(id, "c", it, due, body)
  if is_ready then -- its entry in the list is skipped later
    surplus = surplus + 1
  else
    call("ZREM", DELAY, id)
  end
end

-- Each call:
records, several, told, finished, forgets = {}, {}, 0, u64(now), nil
