-- Script: adds events. An id that exists changes nothing.
--
-- ARGV[4]  the calling process, which is not notified
-- ARGV[5]  the furthest due time from now, ms
-- ARGV[6]  the earliest and the latest creation time of the ids, ms
-- ARGV[7]  1 if an id occurs more than once
-- ARGV[8]  limit of waiting records, or "" for none
-- ARGV[9..]  three for each event: id; when, and the policy for a taken unique key: "n" now, "a"
--            and us from now, "t" and ms since the epoch, in capitals to replace; body
-- Returns {now, 1 if there is earlier work, {place, verdict, due, other id} for each event that was
-- not simply accepted}. Verdicts: 1 duplicate, 2 replaced, 3 conflict, 4 too old, 5 too new.
local SHORT = 4096 -- below this, a tighter bound of body lengths is no use
local first, count = 9, (#ARGV - 8) / 3
if ARGV[8] ~= "" then
  local waiting = record - 1 - tonumber(meta[5] or 0)
  if waiting >= tonumber(ARGV[8]) then -- some may have been dropped before the limit was set
    local oldest = call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]
    waiting = math.min(waiting, oldest and record - tonumber(oldest[1]:match("^%d+")) or 0)
  end
  if waiting >= tonumber(ARGV[8]) then
    return redis.error_reply("DULY FULL " .. waiting .. " records of this bucket wait for the "
      .. "journal, which is the limit: check why the journal does not take them")
  end
end
local ids, dues = {}, {}
local last_when, last_due
local some_due, some_delayed = false, false
for i = 1, count do
  local at = first + 3 * i
  local when = ARGV[at - 2]
  if when ~= last_when then -- most events of a batch share it
    last_when = when
    local kind = byte(when)
    if kind == 110 or kind == 78 then
      last_due = now_ms
    elseif kind == 97 or kind == 65 then
      last_due = math.ceil((now + sub(when, 2)) / 1000)
    else
      last_due = tonumber(sub(when, 2))
      if last_due - now_ms > tonumber(ARGV[5]) then
        return redis.error_reply("DULY INVALID the delay is "
          .. math.floor((last_due - now_ms) / 86400000) .. " days, at most "
          .. math.floor(ARGV[5] / 86400000) .. " are allowed")
      end
    end
    some_due, some_delayed = some_due or last_due <= now_ms, some_delayed or last_due > now_ms
  end
  ids[i], dues[i] = ARGV[at - 3], last_due
end
if count == 0 then
  leave()
  return { now, 0 }
end

if longest > SHORT and call("HLEN", BODY) == 0 then
  longest = 0
end
local states = call("HMGET", STATE, unpack(ids))
-- Only what is in the delay set may have a body and no state.
local bodies = call("ZCARD", DELAY) > 0 and call("HMGET", BODY, unpack(ids)) or {}
local made_first, made_last = ARGV[6]:match("^(%d+) (%d+)$")
local ahead = now_ms + ARGV[2]:match("%d+$")
local some_old, some_new = false, tonumber(made_last) > ahead
local forgotten

-- Reads the watermark of forgotten ids. No id that was ever accepted is so far ahead: a watermark
-- that is, from a time when the clock was wrong or ids of any time were accepted, would close the
-- bucket to all.
local function look_at_forgotten(now_is)
  forgotten = tonumber(now_is or -1)
  if forgotten > ahead then
    forgotten = now_ms - 1
    call("HSET", META, "forgotten", forgotten)
  end
  some_old = tonumber(made_first) <= forgotten
end
look_at_forgotten(meta[4])

-- Whether the data just read may have changed: this push has ended other events, or repeats an id.
local rereads = ARGV[7] == "1"
local answer = { now, 0 }
local added, delayed, ready, entries, keyed = {}, {}, {}, {}, {}
local bodies_len, delayed_len, ready_count = 0, 0, 0
local paged, paged_bodies, paged_bytes = {}, {}, 0 -- those of the next page
-- Before the change, where it matters: whether anything is ready, and the next due time. And what is
-- added: the earliest due time of delayed events, and whether any is ready.
local was_ready, was_due = some_due and ready_len() > 0, some_delayed and next_due()
local earliest, is_ready = math.huge, false
local moved = u64(now)
local head, head_due, score, score_due
local tail = sub(ZEROS, 1, 17) .. number

local function add_body(field, body)
  added[bodies_len + 1], added[bodies_len + 2] = field, body
  bodies_len = bodies_len + 2
end

local function add_state(field, state)
  ready_count = ready_count + 1
  ready[2 * ready_count - 1], ready[2 * ready_count] = field, state
end

local function add_ready(id, body, due)
  if due ~= head_due then
    head, head_due = "R" .. FRESH .. u64(due) .. moved, due
  end
  add_body(id, body)
  add_state(id, head .. sub(body, 5, 12) .. tail)
  entries[#entries + 1] = id .. number
end

-- Makes a page of the events that were set aside for one. An event without company is better off
-- alone.
local function end_page()
  local count = #paged
  if count == 1 then
    add_ready(paged[1], paged_bodies[1], now_ms)
  elseif count > 1 then
    entry = entry + 1
    local page, at, parts = u64(entry + 1), 1, {}
    for i, id in ipairs(paged) do
      local body = paged_bodies[i]
      local len = #body
      parts[3 * i - 2], parts[3 * i - 1], parts[3 * i] = id, pack(">I4", len), body
      add_state(id, pack(">c1c8I4", "P", page, at) .. sub(body, 5, 12))
      at = at + 20 + len
    end
    add_body(page, table.concat(parts))
    add_state(page, "R" .. u16(count) .. u16(count) .. "\0\0\0\1" .. u64(now_ms) .. moved)
    entries[#entries + 1] = page
    surplus = surplus - (count - 1)
  end
  if count > 0 then
    paged, paged_bodies, paged_bytes = {}, {}, 0
  end
end

local function write()
  end_page()
  if bodies_len > 0 then
    if #keyed > 0 then -- an index entry without an event is skipped
      call("ZADD", BY_KEY, unpack(keyed))
      keyed = {}
    end
    -- The body first: an id without one is skipped, and a body without a state is no duplicate for
    -- the repeated push.
    call("HSET", BODY, unpack(added))
    if delayed_len > 0 then
      call("ZADD", DELAY, unpack(delayed))
    end
    if #entries > 0 then
      call("RPUSH", READY, unpack(entries))
      call("HSET", STATE, unpack(ready))
    end
    added, delayed, ready, entries = {}, {}, {}, {}
    bodies_len, delayed_len, ready_count = 0, 0, 0
  end
end

local function due_of(id, state)
  if state and byte(state) ~= 83 then
    return number_at(state, 5)
  end
  return tonumber(call("ZSCORE", DELAY, id) or 0)
end

-- Returns whether the unique key is taken; replaces its event if requested and not yet started.
local function taken(i, unique, replaces)
  write()
  local other = call("HGET", UNIQUE, unique)
  if not other then
    return false
  elseif #other > 16 then -- reserved by a done event
    if replaces or number_at(other, 17) <= now_ms then
      call("ZREM", HOLDS, unique)
      return false
    end
    answer[#answer + 1] = { i, 1, dues[i], sub(other, 1, 16) }
    return true
  end
  local state = call("HGET", STATE, other)
  if not replaces then
    answer[#answer + 1] = { i, 1, due_of(other, state), other }
    return true
  end
  local waits = not state or byte(state) ~= 76 -- not leased: its handler has not started
  local body = waits and read_body(other)
  if body and not is_newer(body) then
    cancel(other, state, body)
    answer[#answer + 1] = { i, 2, dues[i], other }
    look_at_forgotten(call("HGET", META, "forgotten"))
    rereads = true
  end
  return false
end

local function add(i, id, body, key)
  local due = dues[i]
  lengthen(#body)
  if key then
    keyed[#keyed + 1], keyed[#keyed + 2] = 0, key_entry(key, id)
  end
  if due > now_ms then
    if due ~= score_due then
      score, score_due = string.format("%.0f", due), due
    end
    add_body(id, body)
    delayed[delayed_len + 1], delayed[delayed_len + 2] = score, id
    delayed_len, earliest = delayed_len + 2, math.min(earliest, due)
    return
  end
  is_ready = true
  if due < now_ms or #body > PAGED_MAX or byte(body) >= 240 or byte(body) % 16 >= 2 then
    end_page()
    return add_ready(id, body, due)
  end
  if #paged == PAGE_MAX or paged_bytes + #body > PAGE_BYTES then
    end_page()
  end
  local n = #paged + 1
  paged[n], paged_bodies[n], paged_bytes = id, body, paged_bytes + #body
end

-- Returns whether an id was created until then; one derived from a name has no time.
local function is_older(id, until_ms)
  local made = unpack_from(">I6", id)
  return made > 0 and made <= until_ms
end

for i = 1, count do
  local id, state, known = ids[i], states[i], bodies[i]
  local body = ARGV[first + 3 * i - 1]
  if rereads then
    write()
    state, known = call("HGET", STATE, id), call("HGET", BODY, id)
  end
  if is_in_page(state) then
    state = own_state(state)
  elseif state and not known then
    known = call("HGET", BODY, id)
  elseif known and not state and not call("ZSCORE", DELAY, id) then
    known = nil -- left by a push that failed midway
  end
  if known or state then
    local fingerprint = known and sub(known, 5, 12) or sub(state, 21, 28)
    local same = fingerprint == sub(body, 5, 12)
    answer[#answer + 1] = { i, same and 1 or 3, due_of(id, state), id }
  elseif some_new and (unpack_from(">I6", id)) > ahead then
    answer[#answer + 1] = { i, 5, dues[i], id }
  elseif some_old and is_older(id, forgotten) then
    answer[#answer + 1] = { i, 4, dues[i], id }
  else
    local key, unique
    if has_extras(body) then
      key, unique = keys_of(body)
    end
    if not unique then
      add(i, id, body, key)
    elseif not taken(i, unique, byte(ARGV[first + 3 * i - 2]) < 97) then
      add(i, id, body, key)
      write()
      call("HSET", UNIQUE, unique, id)
    end
  end
end
write()
if earliest < (was_due or math.huge) or (is_ready and not was_ready) then
  call("SPUBLISH", WAKE, ARGV[4])
  answer[2] = 1
end
leave()
return answer
