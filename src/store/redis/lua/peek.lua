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

-- HSCAN returns whole bodies, so each call requests few of them; it may also pass empty slots of
-- the table, which end a page as well.
for _ = 1, 2 * most do
  local fitting = math.floor((BUDGET - spent) / 2 / math.max(longest, 1))
  local page = call("HSCAN", BODY, place, "COUNT", math.max(math.min(fitting, most - #ids), 1))
  place = page[1]
  local fields = page[2]
  for i = 1, #fields, 2 do
    ids[#ids + 1], bodies[#bodies + 1] = fields[i], fields[i + 1]
    spent = spent + 2 * #fields[i + 1] -- HSCAN copies it once more
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
leave()
return answer
