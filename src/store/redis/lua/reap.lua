-- Takes back what silent nodes hold and what is past its own deadline.
--
-- ARGV[4]  whom not to wake: the process that asks
-- ARGV[5]  most events to take back, at most 1000
-- ARGV[6..] two for each silent node: node; the last heartbeat seen of it
--
-- Returns {now, 1 if there is earlier work, ready again, dead, 1 if there is more to take back,
-- next deadline or false, then two for each node that holds something: node, heartbeat}.
local limit = math.min(tonumber(ARGV[5]), 1000)
check_keys()
call("ZCARD", LEASE)
local back, dead, delayed, changes, uniques = {}, {}, {}, {}, {}
local deadlines, ended = {}, {} -- leases that end: ids; node -> what `end_leases` takes
local emptied = {} -- nodes of which nothing is left to be taken
local taken, ready = 0, 0

local function is_full()
  return taken >= limit or is_spent()
end

-- Ends a lease against its holder's will. The attempt counts, as nobody can know whether its
-- handler had started.
local function take_back(id, state)
  local attempt = attempt_of(state)
  local allowed = byte(state, 70) * 256 + byte(state, 71)
  local head = "\1" .. u16(math.min(attempt + 1, 65535))
  local due, rest = sub(state, 5, 12), sub(state, 21, 45)
  local key, unique, more
  if byte(state, 2) >= 4 then
    local body = read_body(id)
    key, unique = keys_of(body)
    more = more_of(body)
  end
  note(id, "\8", "\6", attempt, due, sub(state, 13, 20), sub(state, 62, 69) .. ZERO,
    sub(state, 46, 53), key, nil, more)
  taken = taken + 1
  changes[2 * taken - 1] = id
  if attempt >= allowed then
    dead[#dead + 1], dead[#dead + 2] = 0, id
    changes[2 * taken] = "D" .. head .. due .. u64(now) .. rest
    if unique then
      uniques[#uniques + 1] = { id, unique }
    end
  else
    ready = ready + 1
    if number_at(state, 5) <= now_ms then
      back[#back + 1] = id .. number
      changes[2 * taken] = "R" .. head .. due .. u64(now) .. rest .. number
    else -- it was read ahead, and waits on
      delayed[#delayed + 1], delayed[#delayed + 2] = number_at(state, 5), id
      changes[2 * taken] = "S" .. head .. due .. ZERO .. rest
    end
  end
end

-- Notes that a lease ends, one that lasts as long as the heartbeat or one with a deadline.
local function end_lease(state, has_deadline)
  local holder, request = sub(state, 46, 53), sub(state, 54, 61)
  local of = ended[holder] or { kept = {}, timed = {} }
  local by_request = has_deadline and of.timed or of.kept
  by_request[request] = (by_request[request] or 0) + 1
  ended[holder] = of
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
    if #field == 16 and sub(field, 1, 8) == id then
      batches[#batches + 1] = field
    end
  end
  table.sort(batches, function(a, b)
    return number_at(a, 9) < number_at(b, 9)
  end)
  return batches
end

-- Counts leases off that are still counted although nothing is held: a call that failed midway has
-- left them so.
local function forget_leases(id)
  local node = node_of(id)
  if node and node.kept > 0 then
    leased, node.kept, node.reaping = leased - node.kept, 0, false
    for _, batch in ipairs(node.timed == 0 and batches_of(id) or {}) do
      call("HDEL", HELD, batch, "#" .. batch)
    end
    keep_node(id, node)
  end
end

local function reap_node(node)
  for _, batch in ipairs(batches_of(node.id)) do
    if is_full() then
      return
    end
    local held, ids = call("HGET", HELD, batch), {}
    for at = 1, #held, 16 do
      ids[#ids + 1] = sub(held, at, at + 15)
    end
    for i, state in ipairs(call("HMGET", STATE, unpack(ids))) do
      if is_full() then
        return
      end
      local is_held = state and byte(state) == 76 and sub(state, 46, 61) == batch
      if is_held and math.floor(byte(state, 2) / 2) % 2 == 0 then
        take_back(ids[i], state)
        end_lease(state, false)
      end
    end
  end
  emptied[#emptied + 1] = node.id
end

for _, node in ipairs(all_nodes()) do
  if node.reaping and not is_full() then
    reap_node(node)
  end
end

local past_deadline = not is_full()
  and call("ZRANGE", LEASE, "-inf", now_ms, "BYSCORE", "LIMIT", 0, limit - taken) or {}
for i, state in ipairs(#past_deadline > 0 and call("HMGET", STATE, unpack(past_deadline)) or {}) do
  if is_full() then
    break
  end
  deadlines[i] = past_deadline[i]
  if state and byte(state) == 76 and math.floor(byte(state, 2) / 2) % 2 == 1 then
    take_back(past_deadline[i], state)
    end_lease(state, true)
  end
end

-- Redis does not roll a script back. So the records come first, and an event is put where it goes
-- before its state says that it is there: what is left half done is still leased, and the reap that
-- comes next does all of it.
write_records()
if #dead > 0 then
  call("ZADD", DEAD, unpack(dead))
end
if #delayed > 0 then
  call("ZADD", DELAY, unpack(delayed))
end
if #back > 0 then
  call("RPUSH", READY, unpack(back))
end
if taken > 0 then
  call("HSET", STATE, unpack(changes))
end
for _, it in ipairs(uniques) do
  free_unique(it[1], it[2])
end
if #deadlines > 0 then
  call("ZREM", LEASE, unpack(deadlines))
end
for holder, of in pairs(ended) do
  local node = node_of(holder)
  if node then
    end_leases(holder, node, of.kept, of.timed)
  end
end
for _, id in ipairs(emptied) do
  forget_leases(id)
end
forget(false)

local more = #call("ZRANGE", LEASE, "-inf", now_ms, "BYSCORE", "LIMIT", 0, 1) > 0
local deadline = call("ZRANGE", LEASE, 0, 0, "WITHSCORES")[2]
local answer = { now, wake(ARGV[4]), ready, #dead / 2, 0, deadline and tonumber(deadline) or false }
for _, node in ipairs(all_nodes()) do
  more = more or node.reaping
  if node.kept > 0 then
    answer[#answer + 1], answer[#answer + 2] = node.id, node.beat
  end
end
answer[5] = more and 1 or 0
leave()
return answer
