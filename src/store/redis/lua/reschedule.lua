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
local it = state_alone(id)
local kind = it and it.kind or (call("HEXISTS", BODY, id) == 1 and "S" or "")
if kind ~= "S" and kind ~= "R" then
  keep_counts()
  return { now, 0, kind, 0 }
end
call("ZADD", EXPIRY, "XX", now, id) -- it may expire later, or sooner
it = it or new_state("S", ZERO, ZERO, ZERO)
it.due = u64(due)
if kind == "R" and due <= now_ms then -- it keeps its place in the list
  call("HSET", STATE, id, write_state(it))
elseif due <= now_ms then
  it.kind, it.moved, it.entry = "R", u64(now), number
  keep_counts()
  call("RPUSH", READY, id .. number)
  call("HSET", STATE, id, write_state(it))
  call("ZREM", DELAY, id)
else
  call("ZADD", DELAY, due, id)
  if kind == "R" then
    surplus, it.kind, it.moved = surplus + 1, "S", ZERO
    call("HSET", STATE, id, write_state(it))
    drop_stale(1)
  end
end
local earlier = wake(ARGV[2])
keep_counts()
return { now, earlier, it.lost and "after" or "changed", due }
