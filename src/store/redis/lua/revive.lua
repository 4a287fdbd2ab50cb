-- Makes dead events ready again, due now, with all their attempts. One whose unique key was taken
-- meanwhile lives on without it.
--
-- ARGV[2]  whom not to wake: the process that asks
-- ARGV[3..] ids
--
-- Returns {now, 1 if there is earlier work, how many}.
local revived = 0
for i = 3, #ARGV do
  local id = ARGV[i]
  local state = call("HGET", STATE, id)
  if state and byte(state) == 68 then
    local _, unique = keys_of(call("HGET", BODY, id))
    call("HSET", STATE, id, "R" .. sub(state, 2, 2) .. "\0\1" .. u64(now_ms) .. u64(now)
      .. sub(state, 21, 45) .. number)
    call("RPUSH", READY, id .. number)
    call("ZREM", DEAD, id)
    if unique then
      call("HSETNX", UNIQUE, unique, id)
    end
    revived = revived + 1
  end
end
local earlier = wake(ARGV[2])
leave()
return { now, earlier, revived }
