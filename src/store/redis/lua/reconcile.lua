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
look_first()
local me, from, to = ARGV[6], number_at(ARGV[7], 1), number_at(ARGV[8], 1)
local stated = {}
for i = 11, #ARGV, 2 do
  local ids = {}
  for at = 1, #ARGV[i + 1], 16 do
    ids[ARGV[i + 1]:sub(at, at + 15)] = true
  end
  stated[ARGV[i]] = ids
end

local node, more = node_of(me), 0
if node and announce(node, tonumber(ARGV[9]), tonumber(ARGV[10])) then
  keep_node(me, node)
end
for _, batch in ipairs(node and batches_of(me) or {}) do
  if more == 1 then -- the next call handles the rest
    break
  end
  local request = sub(batch, 9)
  local ids, holds = {}, stated[request] or {}
  if number_at(request, 1) >= from and number_at(request, 1) <= to then
    ids = ids_of(batch)
  end
  local states = find_all(ids)
  for i = 1, #ids do
    local state = states[i]
    if is_kept(state, batch) and not holds[ids[i]] then
      if is_full() then
        more = 1
        break
      end
      leave_page(ids[i])
      take_back(ids[i], state, not may_have_started(node, request, i))
      end_lease(batch, false)
    end
  end
end
write_taken()
forget(false)
local earlier = wake(ARGV[4])
keep_counts()
return { now, earlier, ready, #dead / 2, more }
