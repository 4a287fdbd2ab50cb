-- Script: reads a page of the events that have not ended, by a scan of those in pages and then of the
-- bodies of those that are alone.
--
-- An event may leave its page, and never comes into one: so one that the first scan has missed has a
-- body of its own during all of the second. One that leaves in between is returned twice; so may be
-- any other of a hash that shrinks meanwhile. A small hash is returned whole: its events come in the
-- order of their ids, so that a page of them can end anywhere.
--
-- A cursor is a position in a hash table of one server process. Behind it is "p" in the first scan, and
-- in a small hash "a" and the id of the last event. Every other process orders the fields differently,
-- so there the scan starts anew.
local AT_ONCE, LOOKED_MAX = RUST.BATCH_MAX, 10000 -- the latter states, for pages among those of other events
local NAMES = string.rep("?", NAME)
local server = string.match(call("INFO", "server"), "run_id:(%w+)")
local of, place, kind, last = string.match(ARGV.cursor, "^(%w+) (%d+)([pa]?)(.*)$")
local most, ids, bodies = tonumber(ARGV.limit), {}, {}
local in_pages, is_over = of ~= server or kind == "p", false
place = of == server and place or "0"
last = kind == "a" and last or ""
local reply = REPLY { now = now, next = false }

local count, looked = 1, 0
local per_body = EACH_MAX -- events, at most, until it has seen that there are few pages

-- Looks at some states. Pages are looked for among twice as many while there are none.
local function scan_pages()
  local found = call("HSCAN", STATE, place, "MATCH", NAMES, "COUNT", count)
  local fields = found[2]
  for i = 1, #fields, 2 do
    local page = pages[fields[i]] or new_page(fields[i], fields[i + 1])
    for _, part in ipairs(page.parts) do
      local its = bodies_of(page, part)
      for n, id in ipairs(ids_in(member_of(page, part))) do
        ids[#ids + 1], bodies[#bodies + 1] = id, its[n] or false
      end
      spent = spent + #part.body
    end
  end
  looked = looked + count
  count = #fields > 0 and math.floor((most - #ids) / EACH_MAX) or 2 * count
  count = math.max(math.min(count, LOOKED_MAX - looked), 1)
  place = found[1]
  in_pages = place ~= "0"
end

-- Returns an event with its id as numbers.
local function numbered(id, body)
  local high, middle, low = unpack_from(">I6I6I4", id .. ZEROS)
  return { id = id, body = body, high = high, middle = middle, low = low }
end

local function is_before(a, b)
  if a.high ~= b.high then
    return a.high < b.high
  elseif a.middle ~= b.middle then
    return a.middle < b.middle
  end
  return a.low < b.low
end

-- Returns the events of a small hash behind the last one, ordered by their ids.
local function in_order(fields)
  local events, before = {}, last ~= "" and numbered(last)
  for i = 1, #fields, 2 do
    local event = #fields[i] ~= FIELD_OF_PART and numbered(fields[i], fields[i + 1])
    if event and (not before or is_before(before, event)) then
      events[#events + 1] = event
    end
  end
  table.sort(events, is_before)
  return events
end

-- Takes as many events of a small hash as the page has room for.
local function take_small(fields)
  local events = in_order(fields)
  local left = most - #ids
  for i = 1, math.min(#events, left) do
    local event = events[i]
    ids[#ids + 1], bodies[#bodies + 1] = event.id, event.body
    spent = spent + 2 * #event.body
  end
  is_over = #events <= left
  last = is_over and "" or events[left].id
end

-- Looks at some bodies. HSCAN returns them whole, so each call requests few of them; it may also pass
-- empty slots of the table, which end a page as well.
local function scan_alone()
  local fitting = math.floor((BUDGET - spent) / 2 / math.max(longest, 1))
  local want = math.min(fitting, math.floor((most - #ids) / per_body))
  local found = call("HSCAN", BODY, place, "COUNT", math.max(want, 1))
  local fields = found[2]
  if place == "0" and found[1] == "0" then
    return take_small(fields)
  end
  per_body, last = 1, ""
  for i = 1, #fields, 2 do
    if #fields[i] == FIELD_OF_PART then
      per_body = EACH_MAX
    else
      ids[#ids + 1], bodies[#bodies + 1] = fields[i], fields[i + 1]
    end
    spent = spent + 2 * #fields[i + 1] -- HSCAN copies it once more
  end
  place = found[1]
  is_over = place == "0"
end

for _ = 1, 2 * most + 20 do -- `most` events, or as many bytes as one call reads
  if in_pages then
    scan_pages()
  else
    scan_alone()
  end
  if is_over or #ids >= most or is_spent() or (in_pages and looked >= LOOKED_MAX) then
    break
  end
end
reply[REPLY.next] = not is_over and server .. " " .. place .. (in_pages and "p" or last ~= "" and "a" .. last or "")
for first = 1, #ids, AT_ONCE do
  local some = { unpack(bodies, first, math.min(first + AT_ONCE - 1, #ids)) }
  look_up({ unpack(ids, first, math.min(first + AT_ONCE - 1, #ids)) }, reply, true, some)
end
keep_counts()
return reply
