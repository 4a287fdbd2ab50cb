-- Script: takes back the leases of some requests that the node reports it does not hold: their
-- settlement was lost in a failover.
--
-- ARGV[4]  the calling process, which is not notified
-- ARGV[5]  limit of events to take back, at most 1000
-- ARGV[6]  node
-- ARGV[7]  the first of the requests, and ARGV[8] the last one, encoded
-- ARGV[9]  the last fetch on whose leases handlers of the node may have started, and ARGV[10] on
--          how many of them, from the first one
-- ARGV[11..] two for each request of which the node holds something: request, encoded; ids
--
-- Returns {now, 1 if there is earlier work, ready again, dead, 1 if there is more to take back}.
check_keys()
call("ZCARD", LEASE)
look_first()
local me, stated, all = ARGV[6], {}, {}
for i = 11, #ARGV, 2 do
  local ids = ids_of_batch(ARGV[i + 1])
  stated[ARGV[i]] = ids
  for _, id in ipairs(ids) do
    all[#all + 1] = id
  end
end
local states = {} -- of what the node holds
for i, packed in ipairs(read_all("HMGET", STATE, all)) do
  states[all[i]] = packed
end

local node, more = node_of(me), 0
if node and announce(node, tonumber(ARGV[9]), tonumber(ARGV[10])) then
  keep_node(me, node)
end
-- Of a batch of which the node holds as many leases as there are nothing is lost, and nothing is read:
-- there are no more such than it states, and each other one ends.
for batch in node and batches_of(me, ARGV[7], ARGV[8]) or function() end do
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
local earlier = wake(ARGV[4])
keep_counts()
return { now, earlier, ready, #dead / 2, more }
