-- Script: changes the due time of an event.
local id, when = ARGV.id, ARGV.when
local kind_of_when, due = byte(when), now_ms
if kind_of_when == 97 then
  due = math.ceil((now + when:sub(2)) / 1000)
elseif kind_of_when == 116 then
  due = tonumber(when:sub(2))
  if due - now_ms > tonumber(ARGV.delay_max) then
    return redis.error_reply("DULY INVALID the delay is " .. math.floor((due - now_ms) / 86400000)
      .. " days, at most " .. math.floor(ARGV.delay_max / 86400000) .. " are allowed")
  end
end
look_first()
local it = state_alone(id)
local kind = it and it.kind or (call("HEXISTS", BODY, id) == 1 and "S" or "")
if kind ~= "S" and kind ~= "R" then
  keep_counts()
  return REPLY { now = now, earlier = 0, change = kind, due = 0 }
end
call("ZADD", EXPIRY, "XX", now, id) -- it may expire later, or sooner
it = it or new_state("S", ZERO, ZERO, ZERO)
it.due = u64(due)
if kind == "R" and due <= now_ms then -- it keeps its place in the list
  call("HSET", STATE, id, write_state(it))
elseif due <= now_ms then
  it.kind, it.moved, it.entry = "R", u64(now), number
  keep_counts(false, 1, 1, id)
  call("RPUSH", READY, id .. it.entry)
  call("HSET", STATE, id, write_state(it))
  call("ZREM", DELAY, id)
else
  call("ZADD", DELAY, due, id)
  if kind == "R" then
    surplus, it.kind, it.moved = surplus + 1, "S", ZERO
    keep_counts(false, -1, 0, id)
    call("HSET", STATE, id, write_state(it))
    drop_stale(1)
  end
end
local earlier = wake(ARGV.origin)
keep_counts()
return REPLY { now = now, earlier = earlier, change = it.lost and "after" or "changed", due = due }
