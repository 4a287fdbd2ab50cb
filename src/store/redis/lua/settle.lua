-- Ends attempts, each only under the lease it belongs to, and writes their records.
--
-- ARGV[4]  node
-- ARGV[5]  whom not to wake: the process that asks
-- ARGV[6]  the longest delay, us
-- ARGV[7..] three for each: id; verdict (a ack, t retry, z snooze, b bury, x discard, e expire,
--           r release), request, fetched and started, us, in bytes, then for t and z the delay, us,
--           in bytes, then for t and b the cause, a byte; "" or "=" and the error
--
-- Returns {now, 1 if there is earlier work, a text with "1" for each that was accepted and "0" for
-- each whose lease was lost}.
local me, first, count = ARGV[4], 7, (#ARGV - 6) / 3
local ids = {}
for i = 1, count do
  ids[i] = ARGV[first + 3 * i - 3]
end
if count == 0 then
  leave()
  return { now, 0, "" }
end
local states = call("HMGET", STATE, unpack(ids))
local node
local changed, verdicts = {}, {}
local changes, gone, ended_ids, front, back, delayed, dead = {}, {}, {}, {}, {}, {}, {}
local ended, timed, deadlines = {}, {}, {}
local NOBODY = ZEROS:sub(1, 16)

local function put(id, state)
  local n = #changes
  changes[n + 1], changes[n + 2] = id, state
  changed[id] = state
end

-- The event waits once more. `base` is its state up to the due time and after it.
local function wait(id, head, due_ms, rest)
  if due_ms <= now_ms then
    local number = new_entry()
    put(id, "R" .. head .. u64(due_ms) .. rest .. u64(now) .. number)
    back[#back + 1] = id .. number
  else
    put(id, "S" .. head .. u64(due_ms) .. rest)
    local n = #delayed
    delayed[n + 1], delayed[n + 2] = due_ms, id
  end
end

local function conclude(id, state, said, verdict, request, error)
  local flags = byte(state, 2)
  local haunted = string.char(flags % 2)
  local due, moved, times = state:sub(5, 12), state:sub(38, 45), said:sub(10, 25)
  local settled = me .. request .. string.char(verdict)
  if verdict == 114 then -- release: the handler never started
    local head, rest = haunted .. state:sub(3, 4), state:sub(13, 20) .. settled
    local due_ms = number_at(state, 5)
    if due_ms * 1000 > now then
      wait(id, head, due_ms, rest)
    else
      local number = new_entry()
      put(id, "R" .. head .. due .. rest .. moved .. number)
      front[#front + 1] = id .. number
    end
    return
  end
  local key, unique
  if flags >= 4 then
    key, unique = keys_of(call("HGET", BODY, id))
  end
  local tries = math.min(tries_of(state) + 1, 65535)
  local tries_bytes = string.char(math.floor(tries / 256), tries % 256)
  local function over(kind, outcome, attempt, kept_tries)
    note(id, outcome, "\0", attempt, due, moved, times, me, key, error)
    put(id, kind .. haunted .. kept_tries .. state:sub(5, 20) .. settled)
    gone[#gone + 1], ended_ids[#ended_ids + 1] = id, id
    free_unique(id, unique)
  end
  if verdict == 97 then
    over("d", "\1", tries, state:sub(3, 4))
  elseif verdict == 120 then
    over("d", "\5", tries, state:sub(3, 4))
  elseif verdict == 101 then
    over("e", "\7", 0, state:sub(3, 4))
  elseif verdict == 122 then
    note(id, "\3", "\0", tries, due, moved, times, me, key, error)
    local delay = math.min(number_at(said, 26), tonumber(ARGV[6]))
    local due_ms = delay == 0 and now_ms or math.ceil((now + delay) / 1000)
    wait(id, haunted .. state:sub(3, 4), due_ms, state:sub(13, 20) .. settled)
  else
    local attempts = byte(state, 70) * 256 + byte(state, 71)
    local head = haunted .. tries_bytes
    if verdict == 116 and tries < attempts then
      note(id, "\2", said:sub(34, 34), tries, due, moved, times, me, key, error)
      local delay = math.min(number_at(said, 26), tonumber(ARGV[6]))
      local due_ms = delay == 0 and now_ms or math.ceil((now + delay) / 1000)
      wait(id, head, due_ms, state:sub(13, 20) .. settled)
    else
      note(id, "\4", said:sub(verdict == 116 and 34 or 26):sub(1, 1), tries, due, moved, times, me,
        key, error)
      put(id, "D" .. head .. state:sub(5, 20) .. settled .. u64(now))
      dead[#dead + 1], dead[#dead + 2] = 0, id
      free_unique(id, unique)
    end
  end
end

for i = 1, count do
  local id, said = ids[i], ARGV[first + 3 * i - 2]
  local state = changed[id] or states[i]
  local verdict, request = byte(said), said:sub(2, 9)
  if state and byte(state) == 76 and state:sub(46, 61) == me .. request then
    if math.floor(byte(state, 2) / 2) % 2 == 1 then
      timed[request] = (timed[request] or 0) + 1
      deadlines[#deadlines + 1] = id
    else
      ended[request] = (ended[request] or 0) + 1
    end
    local error = ARGV[first + 3 * i - 1]
    conclude(id, state, said, verdict, request, error ~= "" and error:sub(2) or nil)
    verdicts[i] = "1"
  elseif state and state:sub(21, 36) == me .. request and byte(state, 37) == verdict then
    verdicts[i] = "1" -- a repeat
  else
    verdicts[i] = "0"
  end
end

-- The states first: they say where each event is. Redis does not roll a script back.
if #changes > 0 then
  call("HSET", STATE, unpack(changes))
  write_records()
  if #back > 0 then
    call("RPUSH", READY, unpack(back))
  end
  if #front > 0 then -- what is handed back comes first, in its order
    local reversed = {}
    for i = #front, 1, -1 do
      reversed[#reversed + 1] = front[i]
    end
    call("LPUSH", READY, unpack(reversed))
  end
  if #delayed > 0 then
    call("ZADD", DELAY, unpack(delayed))
  end
  if #dead > 0 then
    call("ZADD", DEAD, unpack(dead))
  end
  if #gone > 0 then
    call("HDEL", BODY, unpack(gone))
    remember(ended_ids)
  end
  if #deadlines > 0 then
    call("ZREM", LEASE, unpack(deadlines))
  end
  node = node_of(me)
  if node then
    end_leases(me, node, ended, timed)
  end
end
local earlier = 0
if #back + #front + #delayed > 0 then
  earlier = wake(ARGV[5])
end
leave()
return { now, earlier, table.concat(verdicts) }
