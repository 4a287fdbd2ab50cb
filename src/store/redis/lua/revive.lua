-- Script: revives dead events: they are ready now, with all their attempts; each leaves a record.
-- An event whose unique key was taken meanwhile loses it; one whose expiry has passed stays dead, as
-- the next call would end it.
local by = ARGV.by ~= "" and sub(ARGV.by, 2) or nil
local due, moved = u64(now_ms), u64(now)
local ids, entries, changes, uniques, freed, seen = {}, {}, {}, {}, {}, {}
check_keys()
look_first()
local looked = 0
for i = ARGV.rest, #ARGV do
  if is_spent() then
    break
  end
  looked = looked + 1
  local id = ARGV.id[i]
  local it = not seen[id] and state_of(id)
  seen[id] = true
  local body = it and it.kind == "D" and read_body(id)
  if body and not is_newer(body) and not (has_extras(body) and has_expired(body)) then
    local _, unique = keys_of(body)
    if has_extras(body) then
      call("ZADD", EXPIRY, now, id)
    end
    note_end(id, "\9", due, ZERO, body, by)
    ids[#ids + 1], entries[#entries + 1] = id, id .. number
    it.kind, it.attempt, it.due, it.moved, it.entry = "R", 1, due, moved, number
    it.interruptions, it.keyless = 0, false
    if unique then
      local held = uniques[unique] or call("HGET", UNIQUE, unique)
      local is_over = held and #held > 16 and number_at(held, 17) <= now_ms
      it.keyless = held and held ~= id and not is_over
      if is_over then
        freed[#freed + 1] = unique
      end
      if not it.keyless then
        uniques[unique] = id
      end
    end
    changes[#changes + 1], changes[#changes + 2] = id, write_state(it)
  elseif it and it.kind ~= "D" then -- left by a call that failed
    call("ZREM", DEAD, id)
  end
end
write_records()
if #ids > 0 then
  keep_counts(false, #ids, #ids, ids[1])
  write_all("RPUSH", READY, entries)
  write_all("ZREM", HOLDS, freed)
  for unique, id in pairs(uniques) do
    call("HSET", UNIQUE, unique, id)
  end
  write_all("HSET", STATE, changes)
  write_all("ZREM", DEAD, ids)
end
local earlier = wake(ARGV.origin)
keep_counts()
return REPLY { now = now, earlier = earlier, changed = #ids, looked = looked }
