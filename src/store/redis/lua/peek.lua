-- Reads a page of what is not over: of the bodies, since an event has one until it ends.
--
-- ARGV[2]  the place that the page before told, or "" for the first
-- ARGV[3]  about how many
--
-- Returns {now, the place of the next page or false, then for each event its id and what `look_up`
-- says}. A small hash comes whole, and one that shrinks meanwhile may tell an event twice.
--
-- A place is one in the hash table of one process of a server. Every other one has its fields in
-- another order, so there the pass begins anew.
local CHUNK = 1000
local server = string.match(call("INFO", "server"), "run_id:(%w+)")
local of, place = string.match(ARGV[2], "^(%w+) (%d+)$")
local page = call("HSCAN", BODY, of == server and place or "0", "COUNT", ARGV[3])
local next_place, fields = page[1], page[2]
local answer = { now, next_place ~= "0" and server .. " " .. next_place }
for first = 1, #fields, 2 * CHUNK do
  local ids, bodies = {}, {}
  for i = first, math.min(first + 2 * CHUNK, #fields + 1) - 1, 2 do
    ids[#ids + 1], bodies[#bodies + 1] = fields[i], fields[i + 1]
  end
  look_up(ids, answer, true, bodies)
end
leave()
return answer
