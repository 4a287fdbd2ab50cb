-- Script: moves due events to the ready list.
--
-- ARGV[2]  limit, at most 1000
-- ARGV[3]  "", or the calling process, which has no capacity: the others are notified if events are
--          ready afterwards
--
-- Returns {now, moved, ready events, next due time or false}; if `moved` reaches the limit, call
-- again.
local due = call("ZRANGE", DELAY, "-inf", now_ms, "BYSCORE", "LIMIT", 0, ARGV[2], "WITHSCORES")
local count = #due / 2
if count > 0 then
  local ids, entries, changes, moved = {}, {}, {}, u64(now)
  for i = 1, count do
    ids[i] = due[2 * i - 1]
  end
  local states = call("HMGET", STATE, unpack(ids))
  for i, id in ipairs(ids) do
    local state, at = states[i], u64(tonumber(due[2 * i]))
    local head, rest = FRESH, ZEROS
    if state then
      head, rest = sub(state, 2, 4), sub(state, 21, 45)
    end
    entries[i] = id .. number
    changes[2 * i - 1] = id
    changes[2 * i] = "R" .. head .. at .. moved .. rest .. number
  end
  -- Insert before removing: Redis does not roll a script back, and an id that is in both places is
  -- skipped where it does not belong, while an id in neither is lost.
  call("HSET", STATE, unpack(changes))
  call("RPUSH", READY, unpack(entries))
  call("ZREMRANGEBYRANK", DELAY, 0, count - 1)
end
local ready = ready_len()
if ARGV[3] ~= "" and ready > 0 then
  call("SPUBLISH", WAKE, "!" .. ARGV[3])
end
leave()
return { now, count, ready, next_due() or false }
