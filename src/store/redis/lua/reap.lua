-- Takes back what silent nodes hold and what is past its own deadline.
--
-- ARGV[4]  whom not to wake: the process that asks
-- ARGV[5]  most events to take back, at most 1000
-- ARGV[6..] two for each silent node: node; the last heartbeat seen of it
--
-- Returns {now, 1 if there is earlier work, ready again, dead, 1 if there is more to take back,
-- next deadline or false, then two for each node that holds something: node, heartbeat}.
local limit, taken = math.min(tonumber(ARGV[5]), 1000), { ready = 0, dead = 0 }

-- Ends a lease against its holder's will. The attempt counts, as nobody can know whether its
-- handler had started.
local function take_back(id, state)
  local attempt = attempt_of(state)
  local allowed = byte(state, 70) * 256 + byte(state, 71)
  local head = "\1" .. u16(math.min(attempt + 1, 65535))
  local due, rest = sub(state, 5, 12), sub(state, 21, 45)
  local key, unique, more
  if byte(state, 2) >= 4 then
    local body = call("HGET", BODY, id)
    key, unique = keys_of(body)
    more = more_of(body)
  end
  note(id, "\8", "\6", attempt, due, sub(state, 13, 20), sub(state, 62, 69) .. ZERO,
    sub(state, 46, 53), key, nil, more)
  if attempt >= allowed then
    call("ZADD", DEAD, 0, id)
    call("HSET", STATE, id, "D" .. head .. due .. u64(now) .. rest)
    free_unique(id, unique)
    taken.dead = taken.dead + 1
  else
    if number_at(state, 5) <= now_ms then
      call("RPUSH", READY, id .. number)
      call("HSET", STATE, id, "R" .. head .. due .. u64(now) .. rest .. number)
    else -- it was read ahead, and waits on
      call("ZADD", DELAY, number_at(state, 5), id)
      call("HSET", STATE, id, "S" .. head .. due .. ZERO .. rest)
    end
    taken.ready = taken.ready + 1
  end
end

local function is_full()
  return taken.ready + taken.dead >= limit
end

for i = 6, #ARGV, 2 do
  local node = node_of(ARGV[i])
  if node and node.kept > 0 and node.beat == tonumber(ARGV[i + 1]) and not node.reaping then
    node.reaping, node.lost = true, true
    keep_node(ARGV[i], node)
  end
end

-- The batches of a node, the first request first.
local function batches_of(id)
  local batches = {}
  for _, field in ipairs(call("HKEYS", HELD)) do
    if #field == 16 and field:sub(1, 8) == id then
      batches[#batches + 1] = field
    end
  end
  table.sort(batches, function(a, b)
    return number_at(a, 9) < number_at(b, 9)
  end)
  return batches
end

local function reap_node(node)
  local ended = {}
  for _, batch in ipairs(batches_of(node.id)) do
    local held, ids = call("HGET", HELD, batch), {}
    for at = 1, #held, 16 do
      ids[#ids + 1] = held:sub(at, at + 15)
    end
    local request = batch:sub(9)
    for i, state in ipairs(call("HMGET", STATE, unpack(ids))) do
      if is_full() then
        break
      end
      local is_held = state and byte(state) == 76 and state:sub(46, 61) == batch
      if is_held and math.floor(byte(state, 2) / 2) % 2 == 0 then
        take_back(ids[i], state)
        ended[request] = (ended[request] or 0) + 1
      end
    end
  end
  end_leases(node.id, node, ended, {})
end

for _, node in ipairs(all_nodes()) do
  if node.reaping and not is_full() then
    reap_node(node)
  end
end

while not is_full() do
  local id = call("ZRANGE", LEASE, "-inf", now_ms, "BYSCORE", "LIMIT", 0, 1)[1]
  if not id then
    break
  end
  local state = call("HGET", STATE, id)
  call("ZREM", LEASE, id)
  if state and byte(state) == 76 then
    take_back(id, state)
    local holder = state:sub(46, 53)
    local node = node_of(holder)
    if node then
      end_leases(holder, node, {}, { [state:sub(54, 61)] = 1 })
    end
  end
end
write_records()
forget(false)

local more = #call("ZRANGE", LEASE, "-inf", now_ms, "BYSCORE", "LIMIT", 0, 1) > 0
local deadline = call("ZRANGE", LEASE, 0, 0, "WITHSCORES")[2]
local answer = { now, wake(ARGV[4]), taken.ready, taken.dead, 0, deadline and tonumber(deadline) or false }
for _, node in ipairs(all_nodes()) do
  more = more or node.reaping
  if node.kept > 0 then
    answer[#answer + 1], answer[#answer + 2] = node.id, node.beat
  end
end
answer[5] = more and 1 or 0
leave()
return answer
