-- Script: moves due events to the ready list.
--
-- ARGV[2]  limit, at most 1000
-- ARGV[3]  "", or the calling process, which has no capacity: the others are notified if events are
--          ready afterwards
--
-- Returns {now, moved, ready events, next due time or false}; if `moved` reaches the limit, call
-- again.
local count, limit = 0, tonumber(ARGV[2])
while count < limit do
  local due = call("ZRANGE", DELAY, "-inf", now_ms, "BYSCORE", "LIMIT", 0, limit - count, "WITHSCORES")
  if #due == 0 then
    break
  end
  local ids, dues, entries, changes, moved, looked = {}, {}, {}, {}, u64(now), 0
  for i = 1, #due, 2 do
    local member = due[i]
    if #member == 16 then
      ids[#ids + 1], dues[#dues + 1] = member, due[i + 1]
      entries[#entries + 1], count = member .. number, count + 1
    else
      local page, part = scheduled_part(sub(member, 1, 16))
      if page then
        local rest
        if count + part.count > limit then
          part, rest = divide(page, part, limit - count)
        end
        part.kind, part.times, part.tail = "R", sub(part.times, 1, 8) .. moved, number .. ZERO .. ZERO
        change(page)
        entries[#entries + 1] = entry_of_part(page, part)
        count, surplus = count + part.count, surplus - part.count + 1
        paged = paged + (rest and rest.count - 1 or 0)
      end
      paged = paged - events_of(member) + 1
    end
    looked = looked + 1
    if count >= limit then
      break
    end
  end
  for i, state in ipairs(#ids > 0 and call("HMGET", STATE, unpack(ids)) or {}) do
    changes[2 * i - 1], changes[2 * i] = ids[i], due_state(state, u64(tonumber(dues[i])) .. moved, ZERO)
  end
  -- Insert before removing: Redis does not roll a script back, and an id that is in both places is
  -- skipped where it does not belong, while an id in neither is lost.
  local len = add_pages(changes, 2 * #ids)
  if len > 0 then
    call("HSET", STATE, unpack(changes, 1, len))
    call("RPUSH", READY, unpack(entries))
  end
  if looked > 0 then
    call("ZREMRANGEBYRANK", DELAY, 0, looked - 1)
  end
end
local ready = ready_len()
if ARGV[3] ~= "" and ready > 0 then
  call("SPUBLISH", WAKE, "!" .. ARGV[3])
end
keep_counts()
return { now, count, ready, next_due() or false }
