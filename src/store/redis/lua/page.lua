-- Library: pages. Two to 64 plain events that one push adds with one due time, whose ids share their
-- first 15 bytes, the name of the page, and follow each other, wait as a part of that page: with one
-- body and one entry of the ready list or member of the delay set. So nothing is written for each of
-- them while they wait. With the first thing that happens to any of them, a lease too, they are events
-- alone.
--
-- The last byte of such an id is 128 and its place in the page, from 0. An event is in a page if a part
-- has its place, whatever else there is of it.
--
-- STATE  name -> P and 39 zeros, since Redis keeps a hash as a list, in which it takes long to find
--        anything, until a value exceeds 64 bytes; and 28 bytes for each part: S scheduled or R ready;
--        the first place; how many events; the place with which its body begins; due time, ms; moved
--        to the ready list, us; number of its entry
-- BODY   first id .. "p" -> for each event the length of its body (2 bytes) and its body. The first ones
--        may have left: a lease of those leaves the others in their part
-- READY  first id .. how many .. number of the entry: it stands for those of these events that are
--        ready under its number, whether they still are in a part or not
-- DELAY  first id .. how many
-- SIZES  zset, of parts in the delay set: see `sizes_of`
local NAME, PART, PLACE, EACH_MAX = 15, 28, 128, 64
local HEAD = "P" .. string.rep("\0", 39)
local MEMBER_OF_PART, FIELD_OF_PART, ENTRY_OF_PART = 17, 17, 25 -- the lengths
local SPAN = 2 ^ 48 -- beyond every due time, ms
local CLASSES = 14
local pages, changed_pages -- name -> page, or false
local emptied -- names of pages without parts

-- Returns the page, and it as the one of its name.
local function new_page(name, packed)
  local page = { name = name, parts = {} }
  for at = #HEAD + 1, #packed - PART + 1, PART do -- at most 32
    local first, count, base = byte(packed, at + 1, at + 3)
    page.parts[#page.parts + 1] = { kind = sub(packed, at, at), first = first, count = count, base = base,
      times = sub(packed, at + 4, at + 19), number = sub(packed, at + 20, at + 27) }
  end
  pages[name] = page
  return page
end

-- Reads those pages of some ids that are not known yet.
local function read_pages(ids)
  local names = {}
  for _, id in ipairs(ids) do
    local last = byte(id, 16)
    if last >= PLACE and last < PLACE + EACH_MAX then
      local name = sub(id, 1, NAME)
      if pages[name] == nil then
        pages[name] = false
        names[#names + 1] = name
      end
    end
  end
  for i, packed in ipairs(read_all("HMGET", STATE, names)) do
    if packed then
      new_page(names[i], packed)
    end
  end
end

-- Returns the page, the part and the place in it of an event, from 1; nothing of one that is alone.
local function place_of(id)
  local place = byte(id, 16) - PLACE
  if place < 0 or place >= EACH_MAX then
    return nil
  end
  local page = pages[sub(id, 1, NAME)]
  if page == nil then
    read_pages({ id })
    page = pages[sub(id, 1, NAME)]
  end
  if not page then -- nearly always
    return nil
  end
  for _, part in ipairs(page.parts) do
    if place >= part.first and place < part.first + part.count then
      return page, part, place - part.first + 1
    end
  end
end

local function member_of(page, part)
  return page.name .. char(PLACE + part.first, part.count)
end

-- Returns how many events a member of the delay set stands for.
local function events_of(member)
  return byte(member, MEMBER_OF_PART) or 1
end

-- Returns the ids of the events of a member of the delay set, or of an entry of the ready list.
local function ids_in(member)
  local ids, name, first = {}, sub(member, 1, NAME), byte(member, 16)
  for i = 1, math.min(events_of(member), EACH_MAX) do
    ids[i] = name .. char(math.min(first + i - 1, 255))
  end
  return ids
end

-- Returns the part of a kind to which a member or an entry leads; nothing if its events are alone. An entry
-- stays where the first events of its part leave it, a member is another one then.
local function part_of(member, kind)
  local page, first = pages[sub(member, 1, NAME)], byte(member, 16) - PLACE
  if page == nil then
    read_pages({ member })
    page = pages[sub(member, 1, NAME)]
  end
  local beyond = first + byte(member, MEMBER_OF_PART)
  for _, part in ipairs(page and page.parts or {}) do
    local is_within = part.kind == kind and part.first >= first and part.first + part.count <= beyond
    if is_within and (kind == "S" and member_of(page, part) == member
      or kind == "R" and part.number == sub(member, MEMBER_OF_PART + 1)) then
      return page, part
    end
  end
end

-- Returns what an entry of the ready list stands for: a part, or else ids; and its number.
local function read_entry(entry_of)
  if #entry_of ~= ENTRY_OF_PART then
    return nil, { sub(entry_of, 1, 16) }, sub(entry_of, 17)
  end
  local _, part = part_of(entry_of, "R")
  return part, part and {} or ids_in(entry_of), sub(entry_of, MEMBER_OF_PART + 1)
end

local function field_of(page, part)
  return page.name .. char(PLACE + part.base) .. "p"
end

-- Returns the part whose body has a field.
local function part_with(field)
  local page = pages[sub(field, 1, NAME)]
  for _, part in ipairs(page and page.parts or {}) do
    if part.base == byte(field, 16) - PLACE then
      return page, part
    end
  end
end

-- Divides the body of a part. Returns the bodies of `count` events behind `skipped` ones, with false for
-- what is missing; where each ends, and what is before the first one; whether all are there, in a form
-- that this version reads.
local function split_bodies(body, skipped, count)
  local bodies, ends, at, is_sound = {}, {}, 1, true
  for i = 1 - skipped, count do -- of the events of a part
    ends[i - 1] = at - 1
    local high, low, form = byte(body, at, at + 2)
    local after = form and at + 2 + high * 256 + low or math.huge
    if i > 0 then
      bodies[i], ends[i] = after <= #body + 1 and sub(body, at + 2, after - 1), after - 1
      is_sound = is_sound and bodies[i] and form < 240
    end
    at = after
  end
  return bodies, ends, is_sound and at == #body + 1
end

-- Returns the bodies of a part, and whether they are sound.
local function bodies_of(page, part)
  if not part.bodies then
    part.body = call("HGET", BODY, field_of(page, part)) or ""
    part.bodies, part.ends, part.is_sound = split_bodies(part.body, part.first - part.base, part.count)
  end
  return part.bodies, part.is_sound
end

-- Adds to the arguments of a `ZADD` of SIZES by how many events a member of the delay set exceeds one:
-- as powers of two that are added or subtracted, each a class of scores, of two consecutive powers at
-- most one. So the events until any time are counted with a few `ZCOUNT`.
local function sizes_of(sizes, member, due)
  local rest, class = byte(member, MEMBER_OF_PART) - 1, 0
  while rest > 0 do -- at most seven times
    local digit = rest % 2 == 1 and 2 - rest % 4 or 0
    if digit ~= 0 then
      local its = digit > 0 and class or class + 1
      sizes[#sizes + 1], sizes[#sizes + 2] = its * SPAN + due, member .. char(its)
    end
    rest, class = (rest - digit) / 2, class + 2
  end
end

-- Removes from SIZES what `sizes_of` has added of some members.
local function forget_sizes(members)
  local sizes, gone = {}, {}
  for _, member in ipairs(members) do
    sizes_of(sizes, member, 0)
  end
  for i = 2, #sizes, 2 do
    gone[#gone + 1] = sizes[i]
  end
  write_all("ZREM", SIZES, gone)
end

-- Returns a function from a time, ms, to how many scheduled events are due until then.
local function counter_of_events()
  local classes = {}
  for class = 0, call("ZCARD", SIZES) > 0 and CLASSES - 1 or -1 do
    local from = class * SPAN
    if call("ZCOUNT", SIZES, from, from + SPAN - 1) > 0 then
      classes[#classes + 1] = { from = from, events = (class % 2 == 0 and 1 or -1) * 2 ^ math.floor(class / 2) }
    end
  end
  return function(until_ms)
    until_ms = math.min(until_ms, SPAN - 1)
    local count = call("ZCOUNT", DELAY, "-inf", until_ms)
    for _, it in ipairs(classes) do
      count = count + it.events * call("ZCOUNT", SIZES, it.from, it.from + until_ms)
    end
    return count
  end
end

-- Returns when the last of the next `crowd` scheduled events is due, ms, if that is within `span` of
-- `next_ms`, when the first one is. It reads one due time: each costs more than all else of a member.
local function due_of_crowd(next_ms, crowd, span)
  local last
  if redis.pcall("ZCARD", SIZES) == 0 then -- a fetch has leased by then, and must not fail
    last = call("ZRANGE", DELAY, crowd - 1, crowd - 1)[1]
  else
    local near = math.min(call("ZCOUNT", DELAY, next_ms, next_ms + span), crowd)
    for _, member in ipairs(call("ZRANGE", DELAY, 0, near - 1)) do -- `crowd` members
      crowd = crowd - events_of(member)
      if crowd <= 0 then
        last = member
        break
      end
    end
  end
  local due = last and tonumber(call("ZSCORE", DELAY, last))
  return due and due <= next_ms + span and due or nil
end

-- Takes a part out of its page, which `add_pages` writes.
local function remove_part(page, part)
  local parts = {}
  for _, it in ipairs(page.parts) do
    parts[#parts + 1] = it ~= part and it or nil
  end
  page.parts = parts
  changed_pages[page.name] = page
end

-- Adds the changed pages to the arguments of an `HSET`, so that they change with the events.
local function add_pages(changes, len)
  for name, page in pairs(changed_pages) do
    local packed = { HEAD }
    for _, part in ipairs(page.parts) do
      packed[#packed + 1] = part.kind .. char(part.first, part.count, part.base) .. part.times
        .. part.number
    end
    changes[len + 1], changes[len + 2] = name, table.concat(packed)
    len = len + 2
    emptied[#emptied + 1] = #page.parts == 0 and name or nil
  end
  changed_pages = {}
  return len
end

-- Removes the fields of pages without parts.
local function drop_emptied()
  write_all("HDEL", STATE, emptied)
  emptied = {}
end

-- Makes the events of a part events alone, which wait as before. They are in the page until it is
-- written without them: what they need comes first, and what is left of the part goes last.
local function open_part(page, part)
  local bodies, fields, states, delayed = bodies_of(page, part), {}, {}, {}
  for i, id in ipairs(ids_in(member_of(page, part))) do
    local body = bodies[i]
    if body then
      fields[#fields + 1], fields[#fields + 2] = id, body
    end
    if part.kind == "S" then
      delayed[2 * i - 1], delayed[2 * i] = number_at(part.times, 1), id
    else
      states[2 * i - 1], states[2 * i] = id, "R" .. FRESH .. part.times .. sub(body or ZEROS, 5, 12) .. NEVER
        .. part.number
    end
  end
  write_all("HSET", BODY, fields)
  write_all("ZADD", DELAY, delayed)
  remove_part(page, part)
  write_all("HSET", STATE, states, add_pages(states, #states))
  drop_emptied()
  if part.kind == "S" then
    forget_sizes({ member_of(page, part) })
    call("ZREM", DELAY, member_of(page, part))
  end
  call("HDEL", BODY, field_of(page, part))
end

-- Returns the state that an event of a part would have if it were alone, without its fingerprint.
local function own_state(part)
  local it = new_state(part.kind, sub(part.times, 1, 8), sub(part.times, 9), ZERO)
  it.entry = part.number
  return it
end

-- Returns the state of an event that is alone; nothing without one.
local function state_of(id)
  local packed = call("HGET", STATE, id)
  return packed and read_state(packed) or nil
end

-- Makes an event one that is alone. Returns its state: nothing of one that is unknown, or that waits
-- for its time and was never touched.
local function state_alone(id)
  local page, part = place_of(id)
  if page then
    open_part(page, part)
  end
  return state_of(id)
end

-- Returns the states of events, as if they were alone, and which of them are in pages.
local function find_all(ids)
  local states, inside = {}, {}
  read_pages(ids)
  for i, packed in ipairs(read_all("HMGET", STATE, ids)) do
    local page, part = place_of(ids[i])
    if page then
      states[i], inside[i] = own_state(part), true
    else
      states[i] = packed and read_state(packed) or nil
    end
  end
  return states, inside
end

-- Returns the body of an event in a page.
local function body_in_page(id)
  local page, part, place = place_of(id)
  return bodies_of(page, part)[place] or nil
end

-- Each call:
pages, changed_pages, emptied = {}, {}, {}
