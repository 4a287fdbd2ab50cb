-- Script: takes back the leases of some requests that the node reports it does not hold: their
-- settlement was lost in a failover.
check_keys()
call("ZCARD", LEASE)
look_first()
local me, stated, all = ARGV.node, {}, {}
for i = ARGV.rest, #ARGV, ARGV.width do
  local ids = ids_of_batch(ARGV.ids[i])
  stated[ARGV.token[i]] = ids
  for _, id in ipairs(ids) do
    all[#all + 1] = id
  end
end
local states = {} -- of what the node holds
for i, packed in ipairs(read_all("HMGET", STATE, all)) do
  states[all[i]] = packed
end

local node, more = node_of(me), 0
if node and announce(node, tonumber(ARGV.started), tonumber(ARGV.starts)) then
  keep_node(me, node)
end
-- Of a batch of which the node holds as many leases as there are nothing is lost, and nothing is read:
-- there are no more such than it states, and each other one ends.
for batch in node and batches_of(me, ARGV.from, ARGV.through) or function() end do -- until `is_full`
  local holds, leases = {}, 0
  for _, id in ipairs(stated[sub(batch, 9)] or {}) do
    leases = leases + (is_under(states[id], batch) and not holds[id] and 1 or 0)
    holds[id] = true
  end
  if leases ~= tonumber(call("HGET", HELD, "#" .. batch) or 0) then
    if is_full() or not take_batch(node, batch, holds) then
      more = 1 -- the next call handles the rest
      break
    end
  end
end
write_taken()
forget(false)
local earlier = wake(ARGV.origin)
keep_counts()
return REPLY { now = now, earlier = earlier, ready = ready, dead = #dead / 2, more = more }
