-- Script: adds events. An id that exists changes nothing.
--
-- ARGV[4]  the calling process, which is not notified
-- ARGV[5]  the furthest due time from now, ms
-- ARGV[6]  the earliest and the latest creation time of the ids, ms
-- ARGV[7]  1 if an id occurs more than once
-- ARGV[8]  limit of waiting records, or "" for none
-- ARGV[9..]  the events in order, in runs. A run begins with a number. Above 0: that many events
--            which are due now and are to share a page, whose body follows. 0: one event: id; when,
--            and the policy for a taken unique key: "n" now, "a" and us from now, "t" and ms since
--            the epoch, in capitals to replace; body
-- Returns {now, 1 if there is earlier work, {place, verdict, due, other id} for each event that was
-- not simply accepted}. Verdicts: 1 duplicate, 2 replaced, 3 conflict, 4 too old, 5 too new.
local SHORT = 4096 -- below this, a tighter bound of body lengths is no use
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
local ids, dues, given, replacing, runs, count = {}, {}, {}, {}, {}, 0
local last_when, last_due
local some_due, some_delayed = false, false

-- Returns the due time, or nothing if it is too far ahead.
local function due_at(when)
  local kind = byte(when)
  if kind == 110 or kind == 78 then
    return now_ms
  elseif kind == 97 or kind == 65 then
    return math.ceil((now + sub(when, 2)) / 1000)
  end
  local due = tonumber(sub(when, 2))
  return due - now_ms <= tonumber(ARGV[5]) and due or nil
end

local at = 9
while at <= #ARGV do
  local events = tonumber(ARGV[at])
  if events > 0 then
    local body, from = ARGV[at + 1], 1
    runs[count + 1] = { events = events, body = body }
    for i = count + 1, count + events do
      ids[i], dues[i] = sub(body, from, from + 15), now_ms
      from = from + 20 + unpack_from(">I4", body, from + 16)
    end
    count, some_due, at = count + events, true, at + 2
  else
    local when = ARGV[at + 2]
    if when ~= last_when then -- most events of a batch share it
      last_when, last_due = when, due_at(when)
      if not last_due then
        local days = math.floor((sub(when, 2) - now_ms) / 86400000)
        return redis.error_reply("DULY INVALID the delay is " .. days .. " days, at most "
          .. math.floor(ARGV[5] / 86400000) .. " are allowed")
      end
      some_due, some_delayed = some_due or last_due <= now_ms, some_delayed or last_due > now_ms
    end
    count = count + 1
    ids[count], dues[count], given[count] = ARGV[at + 1], last_due, ARGV[at + 3]
    replacing[count] = byte(when) < 97
    at = at + 4
  end
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

-- Adds the events of a run, of which none is known.
local function add_page(first, events, body)
  entry = entry + 1
  local page, from = u64(entry + 1), 1
  local ref = "P" .. page
  for i = first, first + events - 1 do
    local len = unpack_from(">I4", body, from + 16)
    lengthen(len)
    add_state(ids[i], ref .. pack(">I4B", from, i - first) .. sub(body, from + 24, from + 31))
    from = from + 20 + len
  end
  add_body(page, body)
  add_state(page, "R" .. u16(events) .. u16(events) .. "\0\0\0\1" .. u64(now_ms) .. moved)
  entries[#entries + 1] = page
  surplus, is_ready = surplus - (events - 1), true
end

local function write()
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
  add_ready(id, body, due)
end

-- Returns whether an id was created until then; one derived from a name has no time.
local function is_older(id, until_ms)
  local made = unpack_from(">I6", id)
  return made > 0 and made <= until_ms
end

local function push(i)
  local id, state, known, body = ids[i], states[i], bodies[i], given[i]
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
    elseif not taken(i, unique, replacing[i]) then
      add(i, id, body, key)
      write()
      call("HSET", UNIQUE, unique, id)
    end
  end
end

-- Returns whether all events of a run are new.
local function are_new(first, events)
  for i = first, first + events - 1 do
    if states[i] or bodies[i] then
      return false
    end
  end
  return not (some_old or some_new or rereads)
end

local place = 1
while place <= count do
  local run = runs[place]
  if not run then
    push(place)
    place = place + 1
  elseif are_new(place, run.events) then
    add_page(place, run.events, run.body)
    place = place + run.events
  else -- one by one
    runs[place] = nil
    for i, _, body in each_in(run.body, 1) do
      given[place + i - 1] = body
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
