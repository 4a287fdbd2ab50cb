-- Script: changes the due time of an event.
--
-- ARGV[2]  the calling process, which is not notified
-- ARGV[3]  the furthest due time from now, ms
-- ARGV[4]  id
-- ARGV[5]  when: "n" now, "a" and us from now, "t" and ms since the epoch
--
-- Returns {now, 1 if there is earlier work, "changed" or "after" (an attempt may still run), or the
-- kind of its state when it is too late, or "" for an unknown id; due time}.
local id, when = ARGV[4], ARGV[5]
local kind_of_when, due = byte(when), now_ms
if kind_of_when == 97 then
  due = math.ceil((now + when:sub(2)) / 1000)
elseif kind_of_when == 116 then
  due = tonumber(when:sub(2))
  if due - now_ms > tonumber(ARGV[3]) then
    return redis.error_reply("DULY INVALID the delay is " .. math.floor((due - now_ms) / 86400000)
      .. " days, at most " .. math.floor(ARGV[3] / 86400000) .. " are allowed")
  end
end
look_first()
local state = leave_waiting(id)
local kind = state and state:sub(1, 1) or (call("HEXISTS", BODY, id) == 1 and "S" or "")
if kind ~= "S" and kind ~= "R" then
  leave()
  return { now, 0, kind, 0 }
end
local is_due = due <= now_ms
local head, rest = FRESH, ZEROS
if state then
  head, rest = sub(state, 2, 4), sub(state, 21, 45)
end
if kind == "R" and is_due then -- it keeps its place in the list
  call("HSET", STATE, id, "R" .. head .. u64(due) .. sub(state, 13, 53))
elseif is_due then
  call("HSET", STATE, id, "R" .. head .. u64(due) .. u64(now) .. rest .. number)
  call("RPUSH", READY, id .. number)
  call("ZREM", DELAY, id)
else
  call("ZADD", DELAY, due, id)
  if kind == "R" then
    surplus = surplus + 1
    call("HSET", STATE, id, "S" .. head .. u64(due) .. ZERO .. rest)
  end
end
local earlier = wake(ARGV[2])
leave()
return { now, earlier, byte(head) % 2 == 1 and "after" or "changed", due }
