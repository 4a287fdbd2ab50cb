-- Script: extends leases that have a deadline of their own.
local me = ARGV.node
local node = node_of(me)
local deadline = math.ceil((now + ARGV.hold) / 1000)
local stood = {}
for i = ARGV.rest, #ARGV, ARGV.width do
  local id, request = ARGV.id[i], ARGV.request[i]
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
return REPLY { now = now, stood = table.concat(stood) }
