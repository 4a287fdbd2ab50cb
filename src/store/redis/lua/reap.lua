-- Script: takes back the leases of silent nodes and those past their own deadline.
check_lease_keys()
look_first()
local LAST = string.rep("\255", 8) -- beyond every request
local HOLDERS_MAX = RUST.BATCH_MAX
local FREED_MAX, MANY = 250, 100 -- unique keys; leases: a call that takes back so many does nothing else
local SOME, GONE = 16, 600000000 -- nodes of which a call looks for leftovers; us that they are silent
local emptied = {} -- nodes without leases left
local holders = {} -- nodes with leases that last as long as their heartbeat, by their ids

for i = ARGV.rest, #ARGV, ARGV.width do
  local node = node_of(ARGV.silent[i])
  if node and node.kept > 0 and node.beat == tonumber(ARGV.beat[i]) and not node.reaping then
    node.reaping, node.lost = true, true
    keep_node(ARGV.silent[i], node)
  end
end

-- Subtracts leases that are still counted of a node and that no request has, left by a call that failed
-- midway.
local function forget_leases(id, node)
  if node and node.kept > 0 and not batches_of(id, ZERO, LAST)() then
    leased, node.kept, node.reaping = leased - node.kept, 0, false
    keep_node(id, node)
  end
end

local function reap_node(id, node)
  for batch in batches_of(id, ZERO, LAST) do -- `LOOKED_MAX` ids
    if is_full() or not take_batch(node, batch, {}) then
      return
    end
  end
  emptied[#emptied + 1] = id
end

-- Where there may be more than are looked at, each minute has others: a node is silent only to who sees it
-- again and again.
local minute = math.floor(now / 60000000)
local first = call("ZCARD", REQUESTS) > HOLDERS_MAX and char(math.fmod(97 * minute, 256)) or ""
local from, to, is_around = first == "" and "-" or "[" .. first, "+", first == ""
while #holders < HOLDERS_MAX do -- nodes that hold something
  local batch = call("ZRANGE", REQUESTS, from, to, "BYLEX", "LIMIT", 0, 1)[1]
  if batch then
    holders[#holders + 1] = sub(batch, 1, 8)
    from = "(" .. sub(batch, 1, 8) .. LAST
  elseif is_around then
    break
  else
    from, to, is_around = "-", "(" .. first, true
  end
end
for _, id in ipairs(holders) do
  local node = node_of(id)
  if node and node.reaping and not is_full() then
    reap_node(id, node)
  end
end

take_overdue()

write_taken()
for _, id in ipairs(emptied) do
  forget_leases(id, node_of(id))
end
local some = call("HRANDFIELD", NODES, SOME, "WITHVALUES")
for i = 1, #some, 2 do
  local node = read_node(some[i + 1])
  if node.reaping or now - node.seen > GONE then
    forget_leases(some[i], node)
  end
end
if taken < MANY then
  forget(false)
end

-- Frees unique keys that events which are done have reserved until now.
local freed = taken < MANY and FREED_MAX or 0
for _, unique in ipairs(call("ZRANGE", HOLDS, "-inf", now_ms, "BYSCORE", "LIMIT", 0, freed)) do
  local its = call("HGET", UNIQUE, unique)
  if its and #its > 16 and number_at(its, 17) <= now_ms then
    call("HDEL", UNIQUE, unique)
  end
  call("ZREM", HOLDS, unique)
end

local earlier_ready, earlier_dead = taken_earlier()
if earlier_ready + earlier_dead > 0 then
  call("HDEL", META, "taken")
end
local more = has_overdue()
local deadline = call("ZRANGE", LEASE, 0, 0, "WITHSCORES")[2]
local reply = REPLY { now = now, earlier = wake(ARGV.origin), ready = earlier_ready + ready,
  dead = earlier_dead + #dead / 2, more = 0, next_deadline = deadline and tonumber(deadline) or false }
for _, id in ipairs(holders) do
  local node = node_of(id)
  if node and node.kept > 0 then
    more = more or node.reaping
    reply[#reply + 1], reply[#reply + 2] = id, node.beat
  end
end
reply[REPLY.more] = more and 1 or 0
keep_counts()
return reply
