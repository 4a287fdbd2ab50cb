-- Script: revives dead events: they are ready now, with all their attempts; each leaves a record.
-- An event whose unique key was taken meanwhile loses it.
local by = ARGV.by ~= "" and sub(ARGV.by, 2) or nil
local due, moved = u64(now_ms), u64(now)
local ids, entries, changes, uniques, seen = {}, {}, {}, {}, {}
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
  if body and not is_newer(body) then
    local _, unique = keys_of(body)
    if has_extras(body) then
      call("ZADD", EXPIRY, now, id)
    end
    note_end(id, "\9", due, ZERO, body, by)
    ids[#ids + 1], entries[#entries + 1] = id, id .. number
    it.kind, it.attempt, it.due, it.moved, it.entry = "R", 1, due, moved, number
    it.interruptions = 0
    changes[#changes + 1], changes[#changes + 2] = id, write_state(it)
    if unique then
      uniques[#uniques + 1] = { unique, id }
    end
  end
end
write_records()
if #ids > 0 then
  keep_counts()
  write_all("RPUSH", READY, entries)
  for _, it in ipairs(uniques) do
    local held = call("HGET", UNIQUE, it[1])
    local is_over = held and #held > 16 and number_at(held, 17) <= now_ms
    if is_over then
      call("ZREM", HOLDS, it[1])
    end
    if is_over or not held then
      call("HSET", UNIQUE, it[1], it[2])
    end
  end
  write_all("HSET", STATE, changes)
  write_all("ZREM", DEAD, ids)
end
local earlier = wake(ARGV.origin)
keep_counts()
return REPLY { now = now, earlier = earlier, changed = #ids, looked = looked }
