-- Leases events to a node: ready ones in their order, then scheduled ones that are due soon.
--
-- ARGV[4]  node
-- ARGV[5]  request, a number, and ARGV[6] its bytes: a request that is not greater than the last
--          one leases nothing and answers what is still held under its number
-- ARGV[7]  most ready events
-- ARGV[8]  how long before its due time an event may be leased, us, and ARGV[9] most of those
-- ARGV[10] for how long, us, or "" for as long as the node's heartbeat lasts
--
-- Returns {now, ready events left, next due time or false, then two for each delivery: id, due
-- time, moved, attempts before it, all in bytes; body}. A node that was believed dead is refused.
local BATCH_MAX = 1000
local me, request, token = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local node = node_of(me) or new_node()
node.seen = now
local answer = { now, 0, false }

local function deliver(id, state, body)
  local n = #answer
  answer[n + 1] = id .. state:sub(5, 12) .. state:sub(38, 45) .. state:sub(3, 4)
  answer[n + 2] = body
end

local function done()
  keep_node(me, node)
  answer[2], answer[3] = ready_len(), next_due() or false
  write_records()
  leave()
  return answer
end

if node.reaping or node.lost then
  node.lost = false
  node.refused, node.last = math.max(node.refused, request), math.max(node.last, request)
end
if request <= node.refused then
  keep_node(me, node)
  leave()
  return redis.error_reply("DULY LEASELOST the node was believed dead and what it held is given "
    .. "to others; drop it and fetch again")
end

if request <= node.last then
  local batch = call("HGET", HELD, me .. token)
  local ids = {}
  for at = 1, #(batch or ""), 16 do
    ids[#ids + 1] = batch:sub(at, at + 15)
  end
  local states = #ids > 0 and call("HMGET", STATE, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    local state = states[i]
    if state and byte(state) == 76 and state:sub(46, 61) == me .. token then
      deliver(id, state, call("HGET", BODY, id))
    end
  end
  if #answer > 3 and node.kept > 0 and not node.reaping then
    node.beat = node.beat + 1
  end
  return done()
end
node.last = request

local deadline = ARGV[10] ~= "" and math.ceil((now + ARGV[10]) / 1000)
local held, changes, deadlines = {}, {}, {}
local lease = me .. token .. u64(now)
local moved_now = u64(now)
local aside = BATCH_MAX -- how many events of no use it may still set aside

-- Whether the event is still of use; if not, it ends here.
local function fresh(id, state, body, due, due_ms, moved)
  if not has_extras(body) then
    return true, ATTEMPTS, 0
  end
  local attempts, expires, late, late_us, key, unique = extras_of(body)
  local passed = late and math.max(now - due_ms * 1000, 0) > late_us
  if (expires and expires * 1000 <= now) or (passed and late == "expire") then
    finish(id, "e", "\7", state, due, moved, body)
    return false
  end
  if passed then
    note(id, "\4", "\7", 0, due, moved, ZEROS:sub(1, 16), ZEROS:sub(1, 8), key)
    call("HSET", STATE, id, "D" .. state:sub(2, 4) .. due .. state:sub(13, 37) .. u64(now))
    call("ZADD", DEAD, 0, id)
    free_unique(id, unique)
    return false
  end
  return true, attempts, (key or unique) and 4 or 0
end

local function take(id, state, body, due, due_ms, moved)
  local is_fresh, attempts, keyed = fresh(id, state, body, due, due_ms, moved)
  if not is_fresh then
    aside = aside - 1
    return
  end
  local flags = byte(state, 2) % 2 + keyed + (deadline and 2 or 0)
  local n = #changes
  changes[n + 1] = id
  changes[n + 2] = "L" .. string.char(flags) .. state:sub(3, 4) .. due .. body:sub(5, 12)
    .. state:sub(21, 37) .. moved .. lease .. string.char(math.floor(attempts / 256), attempts % 256)
  held[#held + 1] = id
  if deadline then
    deadlines[#deadlines + 1], deadlines[#deadlines + 2] = deadline, id
  end
  n = #answer
  answer[n + 1] = id .. due .. moved .. state:sub(3, 4)
  answer[n + 2] = body
end

-- Leases take effect before their events leave the list or the set they wait in.
local function write()
  if #changes > 0 then
    call("HSET", STATE, unpack(changes))
    if deadline then
      call("ZADD", LEASE, unpack(deadlines))
    end
    changes, deadlines = {}, {}
  end
end

local limit = math.min(tonumber(ARGV[7]), BATCH_MAX)
while #held < limit and aside > 0 do
  local want = math.min(limit - #held, aside)
  local entries = call("LRANGE", READY, 0, want - 1)
  if #entries == 0 then
    break
  end
  local ids = {}
  for i, entry in ipairs(entries) do
    ids[i] = entry:sub(1, 16)
  end
  local states, bodies = call("HMGET", STATE, unpack(ids)), call("HMGET", BODY, unpack(ids))
  local passed_over = 0
  for i, id in ipairs(ids) do
    local state = states[i]
    if state and byte(state) == 82 and state:sub(46) == entries[i]:sub(17) then
      if bodies[i] then
        take(id, state, bodies[i], state:sub(5, 12), number_at(state, 5), state:sub(38, 45))
      else
        call("HDEL", STATE, id) -- somebody has deleted its body by hand
      end
    else
      passed_over = passed_over + 1
    end
  end
  write()
  stale = stale - passed_over
  call("LTRIM", READY, #entries, -1)
end

local until_ms = math.floor((now + ARGV[8]) / 1000)
limit = math.min(#held + ARGV[9], BATCH_MAX)
while #held < limit and aside > 0 do
  local want = math.min(limit - #held, aside)
  local due = call("ZRANGE", DELAY, "-inf", until_ms, "BYSCORE", "LIMIT", 0, want, "WITHSCORES")
  local count = #due / 2
  if count == 0 then
    break
  end
  local ids = {}
  for i = 1, count do
    ids[i] = due[2 * i - 1]
  end
  local states, bodies = call("HMGET", STATE, unpack(ids)), call("HMGET", BODY, unpack(ids))
  for i, id in ipairs(ids) do
    local due_ms = tonumber(due[2 * i])
    if bodies[i] then
      local state = states[i] or ("S\0\0\0" .. ZEROS)
      take(id, state, bodies[i], u64(due_ms), due_ms, moved_now)
    else
      call("HDEL", STATE, id) -- somebody has deleted its body by hand
    end
  end
  write()
  call("ZREMRANGEBYRANK", DELAY, 0, count - 1)
end

if #held > 0 then
  call("HSET", HELD, me .. token, table.concat(held), "#" .. me .. token, #held)
  leased = leased + #held
  if deadline then
    node.timed = node.timed + #held
  else
    node.kept = node.kept + #held
    node.beat = node.beat + 1
  end
end
return done()
