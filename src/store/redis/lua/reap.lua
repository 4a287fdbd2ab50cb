-- Script: takes back the leases of silent nodes and those past their own deadline.
check_lease_keys()
look_first()
local LAST = string.rep("\255", 8) -- beyond every request
local FREED_MAX = 1000 -- unique keys
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

repeat -- nodes that hold something
  local from = #holders > 0 and "(" .. holders[#holders] .. LAST or "-"
  local batch = call("ZRANGE", REQUESTS, from, "+", "BYLEX", "LIMIT", 0, 1)[1]
  holders[#holders + 1] = batch and sub(batch, 1, 8)
until not batch
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
forget(false)

-- Frees unique keys that events which are done have reserved until now.
for _, unique in ipairs(call("ZRANGE", HOLDS, "-inf", now_ms, "BYSCORE", "LIMIT", 0, FREED_MAX)) do
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
