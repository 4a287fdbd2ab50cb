-- Script: adds events. An id that exists changes nothing. It ends early where it has read too much of
-- events that have these ids, or these unique keys; the caller pushes the others again. A push of new ids
-- without unique keys reads none, and is one step.
local EVENT_MAX = RUST.PART_BODY_MAX -- the longest body of an event in a part
local DIVIDED = 320 -- bytes whose work equals that of an event of a page that is divided
local SHORT = 4096 -- below this, a tighter bound of body lengths is no use
local records_max = tonumber(ARGV.records_max)
if records_max < 0 and meta[7] then -- the caller has no limit; another process may
  local kept, till = unpack_from(">dd", meta[7])
  records_max = till > now and kept or records_max
end
if records_max >= RUST.RECORDS_END then
  local most, waiting = records_max - RUST.RECORDS_END, record - 1 - tonumber(meta[5] or 0)
  if waiting >= most then -- some may have been dropped before the limit was set
    local oldest = call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]
    waiting = math.min(waiting, oldest and record - tonumber(oldest[1]:match("^%d+")) or 0)
  end
  if waiting >= most then
    return redis.error_reply("DULY FULL " .. waiting .. " records of this bucket wait for the "
      .. "journal, which is the limit: check why the journal does not take them")
  end
end
local ids, dues, given, replacing, parts, count = {}, {}, {}, {}, {}, 0
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
  return due - now_ms <= tonumber(ARGV.delay_max) and due or nil
end

local firsts = {} -- ids of those that may be in pages
for at = ARGV.rest, #ARGV, ARGV.width do
  local id, when, its = ARGV.id[at], ARGV.when[at], tonumber(ARGV.count[at])
  if when ~= last_when then -- most events of a batch share it
    last_when, last_due = when, due_at(when)
    if not last_due then
      local days = math.floor((sub(when, 2) - now_ms) / 86400000)
      return redis.error_reply("DULY INVALID the delay is " .. days .. " days, at most "
        .. math.floor(ARGV.delay_max / 86400000) .. " are allowed")
    end
    some_due, some_delayed = some_due or last_due <= now_ms, some_delayed or last_due > now_ms
  end
  firsts[#firsts + 1] = id
  if its > 1 then
    local part = { id = id, due = last_due, count = its, body = ARGV.body[at] }
    parts[count + 1] = part
    for i, one in ipairs(ids_in(id .. char(its))) do
      ids[count + i] = one
    end
  else
    ids[count + 1], dues[count + 1], given[count + 1] = id, last_due, ARGV.body[at]
    replacing[count + 1] = byte(when) < 97
  end
  count = count + its
end
if count == 0 then
  keep_counts(true)
  return REPLY { now = now, earlier = 0 }
end

if longest > SHORT and call("HLEN", BODY) == 0 then
  longest = 0
end
read_pages(firsts)
local states = read_all("HMGET", STATE, ids)
-- Only what is in the delay set may have a body and no state.
local known_dues = call("ZCARD", DELAY) > 0 and read_all("ZMSCORE", DELAY, ids) or {}
local made_first, made_last = ARGV.made:match("^(%d+) (%d+)$")
local ahead = now_ms + ARGV.window:match("%d+$")
local some_old, some_new = false, tonumber(made_last) > ahead
local forgotten

-- Reads the watermarks of forgotten ids; one of them counts for ids alone whose time is still to come. No
-- id that was ever accepted is so far ahead: a watermark that is, from a time when the clock was wrong or
-- ids of any time were accepted, would close the bucket to all.
local function look_at_forgotten(now_is)
  forgotten = tonumber(now_is or -1)
  if forgotten > ahead then
    forgotten = now_ms - 1
    call("HSET", META, "forgotten", forgotten)
  end
  meta.ahead = tonumber(made_last) > now_ms and tonumber(call("HGET", META, "ahead") or 0) or 0
  some_old = tonumber(made_first) <= forgotten or (meta.ahead > now_ms and meta.ahead <= ahead)
end
look_at_forgotten(meta[4])

-- Ids whose data may have changed since it was read: of events that this push has ended, of those that were
-- forgotten for them, and of those that it has pushed before. Their data is read again.
meta.changed = {}
local reply = REPLY { now = now, earlier = 0 }
local added, delayed, ready, entries, keyed, sizes, expiring = {}, {}, {}, {}, {}, {}, {}
local is_halted = false -- by a lease that is over and is to be ended first
local own = {} -- events of this push that have a unique key: none is over before it
local bodies_len, delayed_len, ready_count, in_parts = 0, 0, 0, 0
-- Before the change, where it matters: whether anything is ready, and the next due time. And what is
-- added: the earliest due time of delayed events, and whether any is ready.
local was_ready, was_due = some_due and ready_len() > 0, some_delayed and next_due()
local earliest, is_ready = math.huge, false
local moved = u64(now)
local times, times_due, score, score_due

local function add_body(field, body)
  added[bodies_len + 1], added[bodies_len + 2] = field, body
  bodies_len = bodies_len + 2
end

local function add_state(field, state)
  ready_count = ready_count + 1
  ready[2 * ready_count - 1], ready[2 * ready_count] = field, state
end

local function add_ready(id, body, due)
  if due ~= times_due then
    times, times_due = u64(due) .. moved, due
  end
  add_body(id, body)
  add_state(id, new_ready(times, sub(body, 5, 12)))
  entries[#entries + 1] = id .. number
end

-- Adds a part, of whose events none is known.
local function add_part(part)
  local name, due, member = sub(part.id, 1, NAME), part.due, part.id .. char(part.count)
  local page = pages[name] or new_page(name, "")
  local first = byte(part.id, 16) - PLACE
  local its = { kind = "R", first = first, count = part.count, base = first, times = u64(due) .. moved,
    number = number }
  page.parts[#page.parts + 1], changed_pages[name] = its, page
  add_body(part.id .. "p", part.body)
  lengthen(EVENT_MAX)
  if due > now_ms then
    its.kind, its.times = "S", u64(due) .. u64(0)
    delayed[delayed_len + 1], delayed[delayed_len + 2] = string.format("%.0f", due), member
    delayed_len, earliest = delayed_len + 2, math.min(earliest, due)
    sizes_of(sizes, member, due)
  else
    entries[#entries + 1] = member .. number
    surplus, in_parts, is_ready = surplus - (part.count - 1), in_parts + part.count, true
  end
end

-- A part is there when its page says so, an event alone when it has a state or is in the delay set.
-- What is left of a call that fails before is no duplicate for the repeated push, and no event.
local function write()
  if bodies_len > 0 then
    write_all("ZADD", BY_KEY, keyed) -- an index entry without an event is skipped
    write_all("ZADD", EXPIRY, expiring) -- so is this one
    write_all("HSET", BODY, added, bodies_len)
    write_all("ZADD", DELAY, delayed, delayed_len)
    write_all("ZADD", SIZES, sizes) -- behind it: what is passed over takes its sizes with it
    local changes = add_pages(ready, 2 * ready_count)
    if #entries > 0 then
      keep_counts(true, ready_count + in_parts, #entries, ready[1])
      write_all("RPUSH", READY, entries)
    end
    write_all("HSET", STATE, ready, changes)
    added, delayed, ready, entries, keyed, sizes, expiring = {}, {}, {}, {}, {}, {}, {}
    bodies_len, delayed_len, ready_count, in_parts = 0, 0, 0, 0
  end
end

-- Notes when an event expires, if it ever does.
local function add_expiry(id, due, expires, late, late_us)
  local from = useless_from(due, expires, late, late_us)
  if from then
    expiring[#expiring + 1], expiring[#expiring + 2] = string.format("%.0f", from), id
  end
end

local function due_of(id, it, is_inside)
  if it and (it.kind ~= "S" or is_inside) then
    return number_at(it.due, 1)
  end
  return tonumber(call("ZSCORE", DELAY, id) or 0)
end

-- Returns whether the unique key is taken; replaces its event if requested and not yet started.
local function taken(i, unique, replaces)
  write()
  local other = call("HGET", UNIQUE, unique)
  local useless = other and #other == 16 and not own[other] and call("ZSCORE", EXPIRY, other)
  if useless and tonumber(useless) <= now then
    local is_ended = end_one_if_expired(other)
    look_at_forgotten(call("HGET", META, "forgotten"))
    meta.changed[other] = true
    if is_ended then
      reply[#reply + 1] = { i, 6, dues[i], other }
      return false
    end
    other = call("HGET", UNIQUE, unique) -- it has let go of the key, or holds it, if it was over
  end
  if not other then
    return false
  elseif #other > 16 then -- reserved by a done event
    if replaces or number_at(other, 17) <= now_ms then
      call("ZREM", HOLDS, unique)
      return false
    end
    reply[#reply + 1] = { i, 1, dues[i], sub(other, 1, 16) }
    return true
  end
  local it = state_of(other) -- one with a unique key is alone
  if not it and call("HEXISTS", BODY, other) == 0 then -- left by a call that failed
    return false
  end
  local its = replace_one(other, it, replaces)
  meta.changed[other] = true
  if its == "free" then
    return false
  elseif its == "overdue" then
    is_halted = true
    return true
  elseif not replaces then
    reply[#reply + 1] = { i, 1, due_of(other, it), other }
    return true
  elseif its then
    reply[#reply + 1] = { i, 2, dues[i], other }
    look_at_forgotten(call("HGET", META, "forgotten"))
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

-- Returns whether an unknown id may have been forgotten; one derived from a name has no time.
local function may_be_over(id)
  local made = unpack_from(">I6", id)
  return made > 0 and (made <= forgotten or (made > now_ms and made <= meta.ahead and meta.ahead <= ahead))
end

local function push(i)
  local id, it, due, known, body = ids[i], states[i] and read_state(states[i]), known_dues[i], nil, given[i]
  if meta.changed[id] then
    write()
    it, due = state_of(id), call("ZSCORE", DELAY, id)
  end
  meta.changed[id] = ARGV.has_twins == "1" or nil
  local page, part, place = place_of(id)
  if page then
    local is_read = part.bodies
    it, known = own_state(part), bodies_of(page, part)[place] or ""
    spent = spent + (is_read and 0 or #part.body + DIVIDED * part.count)
  elseif it or due then -- any other body is left by a push that failed midway
    known = call("HGET", BODY, id)
    spent = spent + #(known or "")
  end
  if known or it then
    local fingerprint = known and sub(known, 5, 12) or it.fingerprint
    local same = fingerprint == sub(body, 5, 12)
    reply[#reply + 1] = { i, same and 1 or 3, due_of(id, it, page), id }
    local may_lack_key = same and known and has_extras(known)
    if may_lack_key and not (it and (it.keyless or it.kind == "D" or has_ended(it.kind))) then
      local _, unique = keys_of(known) -- of the event that is there: this push may say another
      if unique and call("HEXISTS", UNIQUE, unique) == 0 then -- left by a call that failed
        call("HSET", UNIQUE, unique, id)
      end
    end
  elseif some_new and (unpack_from(">I6", id)) > ahead then
    reply[#reply + 1] = { i, 5, dues[i], id }
  elseif some_old and may_be_over(id) then
    reply[#reply + 1] = { i, 4, dues[i], id }
  else
    local key, unique, expires, late, late_us
    if has_extras(body) then
      key, unique, expires, late, late_us = keys_of(body)
      if unique and taken(i, unique, replacing[i]) then
        return
      end
      add_expiry(id, dues[i], expires, late, late_us)
    end
    add(i, id, body, key)
    if unique then
      write()
      call("HSET", UNIQUE, unique, id)
      own[id] = true
    end
  end
end

-- Returns whether no event of a part may be known; `first`: the place of its first one in the call.
local function are_new(part, first)
  local last = first + part.count - 1
  local from, page = byte(part.id, 16) - PLACE, pages[sub(part.id, 1, NAME)]
  for i = first, last do -- the events of the call
    if states[i] or known_dues[i] then
      return false
    end
  end
  for _, it in ipairs(page and page.parts or {}) do
    if from < it.first + it.count and it.base < from + part.count then
      return false
    end
  end
  return not (some_old or some_new)
end

local place = 1
while place <= count and not is_halted and not is_spent() do -- the events of the call
  local part = parts[place]
  if part and are_new(part, place) then
    add_part(part)
    place = place + part.count
  else
    for i, body in ipairs(part and split_bodies(part.body, 0, part.count) or {}) do
      dues[place + i - 1], given[place + i - 1] = part.due, body
    end
    push(place)
    place = place + (is_halted and 0 or 1)
  end
end
write()
if place <= count then
  reply[#reply + 1] = { place, is_halted and 7 or 0, 0, ids[place] }
end
if earliest < (was_due or math.huge) or (is_ready and not was_ready) then
  call("SPUBLISH", WAKE, ARGV.origin)
  reply[REPLY.earlier] = 1
end
keep_counts(true)
return reply
