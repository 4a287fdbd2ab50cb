-- Script: extends leases that have a deadline of their own.
--
-- ARGV[2]  node
-- ARGV[3]  the new deadline, us from now
-- ARGV[4..] two for each: id; request, in bytes
--
-- Returns {now, a text with "1" for each lease that still existed and "0" for each other}.
local me = ARGV[2]
local node = node_of(me)
local deadline = math.ceil((now + ARGV[3]) / 1000)
local stood = {}
for i = 4, #ARGV, 2 do
  local id, request = ARGV[i], ARGV[i + 1]
  local it = state_of(id)
  local stands = it and it.kind == "L" and it.token == me .. request
  if stands and it.timed then
    call("ZADD", LEASE, deadline, id)
  elseif stands then
    stands = node and not node.reaping -- it lasts as long as the heartbeat
  end
  stood[#stood + 1] = stands and "1" or "0"
end
keep_counts()
return { now, table.concat(stood) }
