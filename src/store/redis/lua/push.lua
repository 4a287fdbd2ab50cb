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
  local waiting = record - 1 - tonumber(call("HGET", META, "trimmed") or 0)
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
local bodies = call("HMGET", BODY, unpack(ids))
local made_first, made_last = ARGV[6]:match("^(%d+) (%d+)$")
local ahead = now_ms + ARGV[2]:match("%d+$")
local some_old, some_new = false, tonumber(made_last) > ahead
local forgotten

-- Reads the watermark of forgotten ids. No id that was ever accepted is so far ahead: a watermark
-- that is, from a time when the clock was wrong or ids of any time were accepted, would close the
-- bucket to all.
local function look_at_forgotten()
  forgotten = tonumber(call("HGET", META, "forgotten") or -1)
  if forgotten > ahead then
    forgotten = now_ms - 1
    call("HSET", META, "forgotten", forgotten)
  end
  some_old = tonumber(made_first) <= forgotten
end
look_at_forgotten()

-- Whether the data just read may have changed: this push has ended other events, or repeats an id.
local rereads = ARGV[7] == "1"
local answer = { now, 0 }
local added, delayed, ready, entries, keyed = {}, {}, {}, {}, {}
local bodies_len, delayed_len, ready_count = 0, 0, 0
local moved = u64(now)
local head, head_due, score, score_due
local tail = sub(ZEROS, 1, 17) .. number

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
    if ready_count > 0 then
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
    look_at_forgotten()
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
  added[bodies_len + 1], added[bodies_len + 2] = id, body
  bodies_len = bodies_len + 2
  if due > now_ms then
    if due ~= score_due then
      score, score_due = string.format("%.0f", due), due
    end
    delayed[delayed_len + 1], delayed[delayed_len + 2] = score, id
    delayed_len = delayed_len + 2
    return
  end
  if due ~= head_due then
    head, head_due = "R" .. FRESH .. u64(due) .. moved, due
  end
  ready_count = ready_count + 1
  ready[2 * ready_count - 1] = id
  ready[2 * ready_count] = head .. sub(body, 5, 12) .. tail
  entries[ready_count] = id .. number
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
  if known and not state and not call("ZSCORE", DELAY, id) then
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
answer[2] = wake(ARGV[4])
leave()
return answer
