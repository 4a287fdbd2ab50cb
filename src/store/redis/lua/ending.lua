-- How events end: the memory of what is over, and the records.
--
-- ARGV[2]  how many ended events are remembered, or "" where none can end
-- ARGV[3]  how many records the outbox keeps
local records = {}

local finished = u64(now)

local function text(it)
  return it and pack(">I2", #it + 1) .. it or "\0\0"
end

-- One record; every number is in its bytes already. src/store/redis/record.rs reads it.
local function note(id, outcome, cause, attempt, due, moved, fetched_started, node, key, error)
  records[#records + 1] = id .. outcome .. cause .. u16(attempt) .. due .. moved
    .. fetched_started .. finished .. node .. text(key) .. text(error)
end

-- One entry for all records of a call. Its id is the number of the first of them.
local function write_records()
  if #records > 0 then
    call("XADD", OUTBOX, "MINID", "=", math.max(record - ARGV[3], 1), record .. "-0", "r",
      table.concat(records))
    record = record + #records
    -- At once: if a later step fails, the next entry must not ask for the same number.
    call("HSET", META, "record", record)
  end
end

-- Forgets the ids of events that ended first, so many.
local function forget(surplus)
  local until_ms, last = tonumber(call("HGET", META, "forgotten") or 0), nil
  while surplus > 0 do
    local batch, ids = call("LPOP", PAST), {}
    for i = 1, math.min(#batch / 16, surplus) do
      ids[i] = sub(batch, 16 * i - 15, 16 * i)
      local made = sub(ids[i], 1, 6)
      if made ~= last then -- many are of one millisecond
        until_ms, last = math.max(until_ms, (unpack_from(">I6", made))), made
      end
    end
    if #batch > 16 * #ids then
      call("LPUSH", PAST, sub(batch, 16 * #ids + 1))
    end
    call("HDEL", STATE, unpack(ids))
    surplus = surplus - #ids
    past = past - #ids
  end
  call("HSET", META, "forgotten", until_ms)
end

-- These have ended; when there are too many, the first to end are forgotten.
local function remember(ids)
  call("RPUSH", PAST, table.concat(ids))
  past = past + #ids
  if past > tonumber(ARGV[2]) then
    forget(past - ARGV[2])
  end
end

-- The unique key is free again, unless another event has taken it over.
local function free_unique(id, unique)
  if unique and call("HGET", UNIQUE, unique) == id then
    call("HDEL", UNIQUE, unique)
  end
end

-- Ends one event that nobody holds; it must have left its index. `due` is its due time, ms.
local function finish(id, kind, outcome, state, due, moved, body)
  local key, unique = keys_of(body)
  note(id, outcome, "\0", 0, due, moved, ZERO .. ZERO, ZERO, key)
  local head = state and sub(state, 2, 4) or FRESH
  local fingerprint = body and sub(body, 5, 12) or ZERO
  local settled = state and sub(state, 29, 45) or sub(ZEROS, 1, 17)
  call("HSET", STATE, id, kind .. head .. due .. ZERO .. fingerprint .. settled)
  call("HDEL", BODY, id)
  free_unique(id, unique)
  remember({ id })
end
