-- Script: reads records. Changes nothing.
--
-- ARGV[2]  the number after which to begin
-- ARGV[3]  limit of records
-- ARGV[4]  limit of bytes, checked after each read
--
-- Returns {now, the number of the oldest record, the number of the next one, the last number that
-- was examined, 1 if records follow in a form that only a newer duly reads, then two for each
-- entry: number of its first record; its records}. The first entry may begin before the requested
-- number, and the last one end after the limit.
local AT_ONCE, ENTRIES_MAX = 4, 1000
local after, most, enough = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function number_of(found)
  return found and tonumber(found[1]:match("^%d+"))
end

local first = math.min(tonumber(call("HGET", META, "trimmed") or 0) + 1, record)
if first < record then -- later writes may have dropped some
  first = math.max(number_of(call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]) or record, first)
end
local answer, len = { now, first, record, 0, 0 }, 5
local through = math.max(after, first - 1)
if most > 0 and through + 1 < record then
  -- The entry that holds the next record may begin before it.
  local holder = call("XREVRANGE", OUTBOX, through + 1 .. "-0", "-", "COUNT", 1)[1]
  local from, last = number_of(holder) or through + 1, math.min(through + most, record - 1)
  local bytes, entries, found = 0, 0, nil
  local function is_enough()
    return bytes >= enough or entries >= ENTRIES_MAX or answer[5] == 1
  end
  repeat -- `ENTRIES_MAX` entries
    found = call("XRANGE", OUTBOX, from .. "-0", last .. "-0", "COUNT", AT_ONCE)
    for _, it in ipairs(found) do
      if is_enough() then
        break
      end
      local number, packed = number_of(it), it[2][2]
      if tonumber(it[2][1]:match("^r(%d+)$") or 0) > RECORDS then
        answer[5], last = 1, number - 1
        break
      end
      answer[len + 1], answer[len + 2] = number, packed
      len, entries, bytes, from = len + 2, entries + 1, bytes + #packed, number + 1
    end
  until is_enough() or #found < AT_ONCE
  local following = number_of(call("XRANGE", OUTBOX, from .. "-0", "+", "COUNT", 1)[1]) or record
  through = math.min(last, following - 1)
end
answer[4] = through
return answer
