-- Library: pages. Up to 64 plain events share one name, the first 15 bytes of their ids, and lie in
-- parts. A part holds events that follow each other and were pushed by one call with one due time:
-- they have one body, one entry of the ready list or the delay set, and one lease. So nothing is
-- written for each of them.
--
-- The last byte of such an id is 128 and its place in the page, from 0.
--
-- STATE  name -> P; which places have events that are not forgotten (8 bytes, the low 32 bits
--        first); the parts, in the order of their places:
--        1      kind: S scheduled, R ready, L leased, E ended
--        2      the first place        3      how many events
--        4      the place with which its body is named
--        5-12   due time, ms           13-20  moved to the ready list, us
--        21-44  node, request, fetched, us (leased and ended); or number of its entry (ready)
--        45-52  which of the 64 places were acked under this lease
--        53-    the fingerprint of each event
-- BODY   first id .. "p" -> for each event the length of its body (2 bytes) and its body
-- READY  first id .. how many .. number of the entry
-- DELAY  first id .. how many
--
-- An event with which something happens alone leaves: it is then as one that was pushed alone, and the
-- others stay, in the parts before and behind it. Where it is ready all events of its part leave, and
-- keep their place in the list: the entry of a part stands for those of its events whose states have its
-- number.
local NAME, PART, PLACE = 15, 52, 128
local ENTRY_OF_PART, MEMBER_OF_PART, FIELD_OF_PART = 25, 17, 17 -- the lengths
local COUNTED_MAX = 2000 -- entries of the delay set that one call counts
local pages, changed_pages -- name -> page, or false
local bodies_of_parts

-- Returns whether this may be the id of an event in a page.
local function is_pageable(id)
  local last = byte(id, 16)
  return last >= PLACE and last < PLACE + 64
end

local function ones(n)
  return n >= 32 and -1 or bit.lshift(1, math.max(n, 0)) - 1
end

-- Returns the words, the low and the high one, with the bits of `count` places from `first` on.
local function bits(first, count)
  local low = bit.bxor(ones(first + count), ones(first))
  return low, bit.bxor(ones(first + count - 32), ones(first - 32))
end

local function has_bit(low, high, place)
  return bit.band(place < 32 and low or high, bit.lshift(1, place % 32)) ~= 0
end

local function read_page(name, packed)
  local page = { name = name, parts = {} }
  page.low, page.high = unpack_from(">i4i4", packed, 2)
  local at = 10
  while at < #packed do
    local first, count, body = byte(packed, at + 1, at + 3)
    local part = { kind = sub(packed, at, at), first = first, count = count, body = body,
      times = sub(packed, at + 4, at + 19), tail = sub(packed, at + 20, at + 43) }
    part.low, part.high = unpack_from(">i4i4", packed, at + 44)
    part.prints = sub(packed, at + PART, at + PART + 8 * count - 1)
    at = at + PART + 8 * count
    page.parts[#page.parts + 1] = part
  end
  pages[name] = page
  return page
end

-- Returns a page; nothing if there is none.
local function page_of(name)
  local page = pages[name]
  if page == nil then
    local packed = call("HGET", STATE, name)
    if packed then
      return read_page(name, packed)
    end
    pages[name], page = false, false
  end
  return page
end

-- Reads those pages of some ids that are not known yet.
local function read_pages(ids)
  local names = {}
  for _, id in ipairs(ids) do
    if is_pageable(id) then
      local name = sub(id, 1, NAME)
      if pages[name] == nil then
        pages[name] = false
        names[#names + 1] = name
      end
    end
  end
  for i, packed in ipairs(#names > 0 and call("HMGET", STATE, unpack(names)) or {}) do
    if packed then
      read_page(names[i], packed)
    end
  end
end

local function new_page(name)
  local page = { name = name, parts = {}, low = 0, high = 0 }
  pages[name] = page
  return page
end

-- A page is written by `keep_pages`.
local function change(page)
  changed_pages[page.name] = page
end

-- Adds the changed pages to the arguments of an `HSET`.
local function add_pages(changes, len)
  for name, page in pairs(changed_pages) do
    local packed = { "P", pack(">i4i4", page.low, page.high) }
    for _, part in ipairs(page.parts) do
      packed[#packed + 1] = part.kind .. char(part.first, part.count, part.body) .. part.times
        .. part.tail .. pack(">i4i4", part.low, part.high) .. part.prints
    end
    changes[len + 1], changes[len + 2] = name, table.concat(packed)
    len = len + 2
  end
  changed_pages = {}
  return len
end

local function keep_pages()
  if next(changed_pages) then
    local changes = {}
    call("HSET", STATE, unpack(changes, 1, add_pages(changes, 0)))
  end
end

-- Returns the part with the event at a place that is not forgotten; nothing without one.
local function part_at(page, place)
  for _, part in ipairs(page.parts) do
    if place >= part.first and place < part.first + part.count then
      return has_bit(page.low, page.high, place) and part or nil
    end
  end
end

-- Returns the page, the part and the place of an event; nothing of one that is alone.
local function place_of(id)
  local place = byte(id, 16) - PLACE
  if place >= 0 and place < 64 then
    local name = sub(id, 1, NAME)
    local page = pages[name]
    if page == nil then
      page = page_of(name)
    end
    local part = page and part_at(page, place)
    if part then
      return page, part, place
    end
  end
end

local function field_of(page, part)
  return page.name .. char(PLACE + part.body) .. "p"
end

local function body_of_part(page, part)
  local field = field_of(page, part)
  if bodies_of_parts[field] == nil then
    bodies_of_parts[field] = call("HGET", BODY, field)
  end
  return bodies_of_parts[field]
end

-- Iterates over a body of which some places are of interest: the place of each event, where its
-- body begins and ends.
local function each_in(body, from, first, count)
  local at, place = 1, from
  return function()
    while place < first + count do
      local begins, its, high, low = at + 2, place, byte(body, at, at + 1)
      if not low then
        return nil
      end
      at, place = begins + high * 256 + low, place + 1
      if its >= first then
        return its, begins, at - 1
      end
    end
  end
end

-- Returns the bytes of the events of a part; nothing if its body is gone or damaged.
local function cut(part, body)
  local from, to, count = nil, nil, 0
  for _, begins, ends in each_in(body or "", part.body, part.first, part.count) do
    from, to, count = from or begins - 2, ends, count + 1
  end
  return count == part.count and to <= #body and sub(body, from, to) or nil
end

-- Returns the body of an event in a page.
local function body_in_page(page, part, place)
  local body = part.kind ~= "E" and body_of_part(page, part)
  local _, begins, ends = each_in(body or "", part.body, place, 1)()
  return begins and ends <= #body and sub(body, begins, ends) or nil
end

-- Returns the state that an event of a part would have if it were alone.
local function own_state(part, place)
  local at = 8 * (place - part.first)
  local it = new_state(part.kind, sub(part.times, 1, 8), sub(part.times, 9), sub(part.prints, at + 1, at + 8))
  if it.kind == "R" then
    it.entry = sub(part.tail, 1, 8)
  elseif it.kind == "E" or has_bit(part.low, part.high, place) then
    it.kind, it.settled = "d", sub(part.tail, 1, 16) .. "a"
  elseif it.kind == "L" then
    it.token, it.fetched, it.allowed = sub(part.tail, 1, 16), sub(part.tail, 17), ATTEMPTS
    it.timed, it.extras = false, false
  end
  return it
end

-- Returns the state of an event that is alone; nothing without one.
local function state_of(id)
  local packed = call("HGET", STATE, id)
  return packed and read_state(packed) or nil
end

-- Returns the state of an event, as if it were alone, and whether it is in a page.
local function find(id)
  local page, part, place = place_of(id)
  if page then
    return own_state(part, place), true
  end
  return state_of(id), false
end

-- Returns the states of events in the same way: a list, and which of them are in pages.
local function find_all(ids)
  local states, inside, alone, at = {}, {}, {}, {}
  read_pages(ids)
  for i, id in ipairs(ids) do
    local page, part, place = place_of(id)
    if page then
      states[i], inside[i] = own_state(part, place), true
    else
      alone[#alone + 1], at[#at + 1] = id, i
    end
  end
  for i, packed in ipairs(#alone > 0 and call("HMGET", STATE, unpack(alone)) or {}) do
    states[at[i]] = packed and read_state(packed) or nil
  end
  return states, inside
end

-- Returns the body of an event, wherever it is.
local function body_of(id)
  local page, part, place = place_of(id)
  if page then
    return body_in_page(page, part, place)
  end
  return call("HGET", BODY, id)
end

-- Returns the due time of an event that is scheduled, ms; nothing of any other one.
local function scheduled_at(id)
  local page, part = place_of(id)
  if page then
    return part.kind == "S" and number_at(part.times, 1) or nil
  end
  return tonumber(call("ZSCORE", DELAY, id) or nil)
end

local function member_of(page, part)
  return page.name .. char(PLACE + part.first, part.count)
end

local function entry_of_part(page, part)
  return member_of(page, part) .. sub(part.tail, 1, 8)
end

-- Returns the part that is scheduled and has an event; nothing without one.
local function scheduled_part(id)
  local page, part = place_of(id)
  if page and part.kind == "S" then
    return page, part
  end
end

-- Notes that an event with the id of a place is alone, so that no later page has it.
local function note_alone(id)
  local page = page_of(sub(id, 1, NAME)) or new_page(sub(id, 1, NAME))
  local low, high = bits(byte(id, 16) - PLACE, 1)
  page.low, page.high = bit.bor(page.low, low), bit.bor(page.high, high)
  change(page)
end

-- Returns the ids of a part, of which `member` begins with the first one and how many they are.
local function ids_of_part(member)
  local first, count = byte(member, 16, 17)
  local ids = {}
  for i = 1, count do
    ids[i] = sub(member, 1, NAME) .. char(first + i - 1)
  end
  return ids
end

-- Returns the ids of an entry of the ready list, the first first, and its number.
local function ids_at(entry_of)
  if #entry_of ~= ENTRY_OF_PART then
    return { sub(entry_of, 1, 16) }, sub(entry_of, 17)
  end
  return ids_of_part(entry_of), sub(entry_of, 18)
end

-- Returns the part that is ready under an entry; nothing if its events are alone.
local function part_of(entry_of)
  local page, part = place_of(sub(entry_of, 1, 16))
  if page and part.kind == "R" and sub(part.tail, 1, 8) == sub(entry_of, 18) then
    return page, part
  end
end

-- Returns how many events a member of the delay set or an item of a batch stands for.
local function events_of(member)
  return math.max(byte(member, 17) or 1, 1)
end

-- Returns when the last of the next `crowd` scheduled events is due, ms, if that is within `span` of
-- `next_ms`, when the first one is.
local function due_of_crowd(next_ms, crowd, span)
  local found = call("ZRANGE", DELAY, next_ms, next_ms + span, "BYSCORE", "LIMIT", 0, crowd, "WITHSCORES")
  for i = 1, #found, 2 do
    crowd = crowd - events_of(found[i])
    if crowd <= 0 then
      return tonumber(found[i + 1])
    end
  end
end

-- Returns a function from how many entries of the delay set, from its head, to how many events they
-- stand for. It counts those of the first ones, and estimates the others by their average.
local function counter_of_events()
  if paged == 0 then
    return function(entries)
      return entries
    end
  end
  local members, sums = call("ZRANGE", DELAY, 0, COUNTED_MAX - 1), { [0] = 0 }
  for i, member in ipairs(members) do
    sums[i] = sums[i - 1] + events_of(member)
  end
  local rest = call("ZCARD", DELAY) - #members
  local average = rest > 0 and (rest + paged - sums[#members] + #members) / rest or 0
  return function(entries)
    local sum = sums[math.min(entries, #members)]
    return sum + math.floor(math.max(entries - #members, 0) * average + 0.5)
  end
end

-- Returns the ids of a batch. An item of it is an id and a zero, or the first id of a part and how
-- many events it has.
local function ids_of_batch(batch)
  local ids = {}
  for at = 1, #batch, 17 do
    if byte(batch, at + 16) == 0 then
      ids[#ids + 1] = sub(batch, at, at + 15)
    else
      for _, id in ipairs(ids_of_part(sub(batch, at, at + 16))) do
        ids[#ids + 1] = id
      end
    end
  end
  return ids
end

-- Each call:
pages, changed_pages, bodies_of_parts = {}, {}, {}
