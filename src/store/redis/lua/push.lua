-- Adds events. An id that exists changes nothing.
--
-- ARGV[4]  whom not to wake: the process that asks
-- ARGV[5]  the furthest due time from now, ms
-- ARGV[6..]  three for each event: id; when and what to do if its unique key is taken: "n" now,
--            "a" and us from now, "t" and ms since the epoch, in capitals to replace; body
--
-- Returns {now, 1 if there is earlier work, {place, verdict, due, other id} for each event that
-- was not simply accepted}. Verdicts: 1 duplicate, 2 replaced, 3 conflict, 4 too old.
local first, count = 6, (#ARGV - 5) / 3
local ids, dues = {}, {}
for i = 1, count do
  local when = ARGV[first + 3 * i - 2]
  local kind = byte(when)
  local due
  if kind == 110 or kind == 78 then
    due = now_ms
  elseif kind == 97 or kind == 65 then
    due = math.ceil((now + when:sub(2)) / 1000)
  else
    due = tonumber(when:sub(2))
    if due - now_ms > tonumber(ARGV[5]) then
      return redis.error_reply("DULY INVALID the delay is " .. math.floor((due - now_ms) / 86400000)
        .. " days, at most " .. math.floor(ARGV[5] / 86400000) .. " are allowed")
    end
  end
  ids[i], dues[i] = ARGV[first + 3 * i - 3], due
end
if count == 0 then
  leave()
  return { now, 0 }
end

local states = call("HMGET", STATE, unpack(ids))
local bodies = call("HMGET", BODY, unpack(ids))
local forgotten = tonumber(call("HGET", META, "forgotten") or -1)
local answer = { now, 0 }
local seen, replaced = {}, false -- ids of this very push; whether it has ended others
local added, delayed, ready, entries = {}, {}, {}, {}
local moved = u64(now)

local function write()
  if #added > 0 then
    -- The body first: an id without one is passed over, and a body without a place is found by
    -- the push that comes again.
    call("HSET", BODY, unpack(added))
    if #delayed > 0 then
      call("ZADD", DELAY, unpack(delayed))
    end
    if #ready > 0 then
      call("HSET", STATE, unpack(ready))
      call("RPUSH", READY, unpack(entries))
    end
    added, delayed, ready, entries = {}, {}, {}, {}
  end
end

local function due_of(id, state)
  if state and byte(state) ~= 83 then
    return number_at(state, 5)
  end
  return tonumber(call("ZSCORE", DELAY, id) or 0)
end

-- Whether the unique key is taken; replaces the one that has it where that is asked for and it has
-- not begun.
local function taken(i, id, unique, replaces)
  write()
  local other = call("HGET", UNIQUE, unique)
  if not other then
    return false
  end
  local state = call("HGET", STATE, other)
  local kind = state and byte(state)
  if not replaces then
    answer[#answer + 1] = { i, 1, due_of(other, state), other }
    return true
  end
  if kind ~= 76 then -- not leased: its handler has not started
    local due, at = unwait(other, state)
    finish(other, "c", "\6", state, due, at, call("HGET", BODY, other))
    answer[#answer + 1] = { i, 2, dues[i], other }
    replaced = true
    forgotten = tonumber(call("HGET", META, "forgotten") or -1)
  end
  return false
end

for i = 1, count do
  local id, state, known, due = ids[i], states[i], bodies[i], dues[i]
  local body = ARGV[first + 3 * i - 1]
  if seen[id] or replaced then
    write()
    state, known = call("HGET", STATE, id), call("HGET", BODY, id)
  end
  if known or state then
    local same
    if known then
      same = known:sub(5, 12) == body:sub(5, 12)
    else
      same = state:sub(13, 20) == body:sub(5, 12)
    end
    answer[#answer + 1] = { i, same and 1 or 3, due_of(id, state), id }
  elseif forgotten >= 0 and (unpack_from(">I6", id)) <= forgotten then
    answer[#answer + 1] = { i, 4, due, id }
  else
    local _, unique = keys_of(body)
    local replaces = byte(ARGV[first + 3 * i - 2]) < 97
    if not (unique and taken(i, id, unique, replaces)) then
      local n = #added
      added[n + 1], added[n + 2] = id, body
      seen[id] = true
      if due <= now_ms then
        n = #ready
        ready[n + 1] = id
        local number = new_entry()
        ready[n + 2] = "R\0\0\0" .. u64(due) .. ZEROS:sub(1, 25) .. moved .. number
        entries[#entries + 1] = id .. number
      else
        n = #delayed
        delayed[n + 1], delayed[n + 2] = due, id
      end
      if unique then
        write()
        call("HSET", UNIQUE, unique, id)
      end
    end
  end
end
write()
write_records()
answer[2] = wake(ARGV[4])
leave()
return answer
