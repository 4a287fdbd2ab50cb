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
  records[#records + 1] = id .. outcome .. cause
    .. string.char(math.floor(attempt / 256), attempt % 256) .. due .. moved .. fetched_started
    .. finished .. node .. text(key) .. text(error)
end

-- One entry for all records of a call. Its id is the number of the first of them.
local function write_records()
  if #records > 0 then
    call("XADD", OUTBOX, "MINID", "=", math.max(record - ARGV[3], 1), record .. "-0", "r",
      table.concat(records))
    record = record + #records
  end
end

-- Ids of these leave the past when it is too long, the first to end first.
local function remember(ids)
  if #ids == 0 then
    return
  end
  local surplus = call("RPUSH", PAST, unpack(ids)) - ARGV[2]
  if surplus > 0 then
    local forgotten = call("LPOP", PAST, surplus)
    call("HDEL", STATE, unpack(forgotten))
    local until_ms = tonumber(call("HGET", META, "forgotten") or 0)
    for _, id in ipairs(forgotten) do
      until_ms = math.max(until_ms, (unpack_from(">I6", id)))
    end
    call("HSET", META, "forgotten", until_ms)
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
  note(id, outcome, "\0", 0, due, moved, ZEROS:sub(1, 16), ZEROS:sub(1, 8), key)
  local fingerprint = body and body:sub(5, 12) or ZEROS:sub(1, 8)
  local haunted = state and pack("B", byte(state, 2) % 2) or "\0"
  local tries = state and state:sub(3, 4) or "\0\0"
  local settled = state and state:sub(21, 37) or NEVER
  call("HSET", STATE, id, kind .. haunted .. tries .. due .. fingerprint .. settled)
  call("HDEL", BODY, id)
  free_unique(id, unique)
  remember({ id })
end
