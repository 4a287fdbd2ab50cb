-- Looks events up.
--
-- ARGV[2..] ids
--
-- Returns {now, then four for each: state or false, body or false, due time of the delay set or
-- false, deadline of a lease that has one of its own or false}.
local answer = { now }
if #ARGV > 1 then
  local ids = { unpack(ARGV, 2) }
  local states, bodies = call("HMGET", STATE, unpack(ids)), call("HMGET", BODY, unpack(ids))
  local dues, deadlines = call("ZMSCORE", DELAY, unpack(ids)), call("ZMSCORE", LEASE, unpack(ids))
  for i = 1, #ids do
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = states[i], bodies[i], dues[i]
    answer[n + 4] = deadlines[i]
  end
end
leave()
return answer
