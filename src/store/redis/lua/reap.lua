-- Script: takes back the leases of silent nodes and those past their own deadline.
check_keys()
call("ZCARD", LEASE)
look_first()
local LAST = string.rep("\255", 8) -- beyond every request
local FREED_MAX = 1000 -- unique keys
local emptied = {} -- nodes without leases left

for i = ARGV.rest, #ARGV, ARGV.width do
  local node = node_of(ARGV.silent[i])
  if node and node.kept > 0 and node.beat == tonumber(ARGV.beat[i]) and not node.reaping then
    node.reaping, node.lost = true, true
    keep_node(ARGV.silent[i], node)
  end
end

-- Subtracts leases that are still counted but no longer held, left by a call that failed midway.
local function forget_leases(id)
  local node = node_of(id)
  if node and node.kept > 0 then
    leased, node.kept, node.reaping = leased - node.kept, 0, false
    keep_node(id, node)
  end
end

local function reap_node(node)
  for batch in batches_of(node.id, ZERO, LAST) do -- `LOOKED_MAX` ids
    if is_full() or not take_batch(node, batch, {}) then
      return
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
for i, packed in ipairs(read_all("HMGET", STATE, past_deadline)) do
  if is_full() then
    break
  end
  deadlines[i] = past_deadline[i]
  local it = packed and read_state(packed)
  if it and it.kind == "L" and it.timed then
    take_back(past_deadline[i], it)
    end_lease(it.token, true)
  end
end

write_taken()
for _, id in ipairs(emptied) do
  forget_leases(id)
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

local more = #call("ZRANGE", LEASE, "-inf", now_ms, "BYSCORE", "LIMIT", 0, 1) > 0
local deadline = call("ZRANGE", LEASE, 0, 0, "WITHSCORES")[2]
local answer = REPLY { now = now, earlier = wake(ARGV.origin), ready = ready, dead = #dead / 2, more = 0,
  next_deadline = deadline and tonumber(deadline) or false }
for _, node in ipairs(all_nodes()) do
  more = more or node.reaping
  if node.kept > 0 then
    answer[#answer + 1], answer[#answer + 2] = node.id, node.beat
  end
end
answer[REPLY.more] = more and 1 or 0
keep_counts()
return answer
