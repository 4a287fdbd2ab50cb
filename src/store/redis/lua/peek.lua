-- Script: reads a page of the events that have not ended, by a scan of the bodies.
--
-- A small hash is returned whole, and one that shrinks meanwhile may return an event twice.
--
-- A cursor is a position in the hash table of one server process. Every other process orders the
-- fields differently, so there the scan starts anew.
local AT_ONCE = RUST.BATCH_MAX
local server = string.match(call("INFO", "server"), "run_id:(%w+)")
local of, place = string.match(ARGV.cursor, "^(%w+) (%d+)$")
local most, ids, bodies = tonumber(ARGV.limit), {}, {}
place = of == server and place or "0"
local answer = REPLY { now = now, next = false }

local per_body = EACH_MAX -- events, at most, until it has seen that there are few pages

-- HSCAN returns whole bodies, so each call requests few of them; it may also pass empty slots of
-- the table, which end a page as well.
for _ = 1, 2 * most do -- `most` events, or as many bytes as one call reads
  local fitting = math.floor((BUDGET - spent) / 2 / math.max(longest, 1))
  local want = math.min(fitting, math.floor((most - #ids) / per_body))
  local found = call("HSCAN", BODY, place, "COUNT", math.max(want, 1))
  place = found[1]
  local fields, of_pages = found[2], {}
  for i = 1, #fields, 2 do
    of_pages[#of_pages + 1] = #fields[i] == FIELD_OF_PART and fields[i] or nil
  end
  per_body = #of_pages > 0 and EACH_MAX or 1
  read_pages(of_pages)
  for i = 1, #fields, 2 do
    local field, body = fields[i], fields[i + 1]
    local page, part = part_with(field)
    if #field ~= FIELD_OF_PART then
      ids[#ids + 1], bodies[#bodies + 1] = field, body
    elseif page then
      local its = ids_in(member_of(page, part))
      for n, one in ipairs(split_bodies(body, part.first - part.base, part.count)) do
        ids[#ids + 1], bodies[#bodies + 1] = its[n], one
      end
    end
    spent = spent + 2 * #body -- HSCAN copies it once more
  end
  if place == "0" or #ids >= most or is_spent() then
    break
  end
end
answer[REPLY.next] = place ~= "0" and server .. " " .. place
for first = 1, #ids, AT_ONCE do
  local some = { unpack(bodies, first, math.min(first + AT_ONCE - 1, #ids)) }
  look_up({ unpack(ids, first, math.min(first + AT_ONCE - 1, #ids)) }, answer, true, some)
end
keep_counts()
return answer
