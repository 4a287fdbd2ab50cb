-- Script: reads a page of the events that have not ended, by a scan of the bodies.
--
-- ARGV[2]  the cursor of the last page, or "" for the first
-- ARGV[3]  approximate limit, at most 1000
--
-- Returns {now, the cursor of the next page or false, then for each event its id and the fields of
-- `look_up`}. A small hash is returned whole, and one that shrinks meanwhile may return an event
-- twice.
--
-- A cursor is a position in the hash table of one server process. Every other process orders the
-- fields differently, so there the scan starts anew.
local CHUNK = 1000
local server = string.match(call("INFO", "server"), "run_id:(%w+)")
local of, place = string.match(ARGV[2], "^(%w+) (%d+)$")
local most, ids, bodies = tonumber(ARGV[3]), {}, {}
place = of == server and place or "0"
local answer = { now, false }

-- Adds the events of the parts that lie in a body.
local function add_parts(field, body)
  local page, from = page_of(sub(field, 1, NAME)), byte(field, 16) - PLACE
  for _, part in ipairs(page and page.parts or {}) do
    for place, begins, ends in each_in(part.body == from and body or "", from, part.first, part.count) do
      if part.kind ~= "E" and part_at(page, place) then
        ids[#ids + 1], bodies[#bodies + 1] = page.name .. char(PLACE + place), sub(body, begins, ends)
      end
    end
  end
end

-- How many events share a body, on average.
local events = ready_len() + leased + call("ZCARD", DELAY) + paged + call("ZCARD", DEAD)
local per_body = math.max(events / math.max(call("HLEN", BODY), 1), 1)

-- HSCAN returns whole bodies, so each call requests few of them; it may also pass empty slots of
-- the table, which end a page as well.
for _ = 1, 2 * most do
  local fitting = math.floor((BUDGET - spent) / 2 / math.max(longest, 1))
  local want = math.min(fitting, math.floor((most - #ids) / per_body))
  local found = call("HSCAN", BODY, place, "COUNT", math.max(want, 1))
  place = found[1]
  local fields, firsts = found[2], {}
  for i = 1, #fields, 2 do
    firsts[#firsts + 1] = #fields[i] == FIELD_OF_PART and sub(fields[i], 1, 16) or nil
  end
  read_pages(firsts)
  for i = 1, #fields, 2 do
    local field, body = fields[i], fields[i + 1]
    if #field == FIELD_OF_PART then
      add_parts(field, body)
    else
      ids[#ids + 1], bodies[#bodies + 1] = field, body
    end
    spent = spent + 2 * #body -- HSCAN copies it once more
  end
  if place == "0" or #ids >= most or is_spent() then
    break
  end
end
answer[2] = place ~= "0" and server .. " " .. place
for first = 1, #ids, CHUNK do
  local last = math.min(first + CHUNK - 1, #ids)
  look_up({ unpack(ids, first, last) }, answer, true, { unpack(bodies, first, last) })
end
keep_counts()
return answer
