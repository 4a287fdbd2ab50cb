-- Looks events up.
--
-- ARGV[2..] ids
--
-- Returns {now, then three for each: state or false, body or false, due time of the delay set or
-- false}.
local answer = { now }
if #ARGV > 1 then
  local ids = { unpack(ARGV, 2) }
  local states, bodies = call("HMGET", STATE, unpack(ids)), call("HMGET", BODY, unpack(ids))
  local dues = call("ZMSCORE", DELAY, unpack(ids))
  for i = 1, #ids do
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = states[i], bodies[i], dues[i]
  end
end
leave()
return answer
