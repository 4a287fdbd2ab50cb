-- Script: drops records that are in the journal. The last entry is kept if only part of it is
-- confirmed; readers skip that part.
--
-- ARGV[2]  the number of the last of them
-- ARGV[3]  the number of an entry that was read after or around it, or 0, and ARGV[4] how its
--          records began: a server that has lost its tail may have reused the numbers
--
-- Returns {now, 1, or 0 if that entry has changed: then nothing is dropped}.
local function number_of(found)
  return found and tonumber(found[1]:match("^%d+"))
end

local trimmed = tonumber(call("HGET", META, "trimmed") or 0)
local seen, began = tonumber(ARGV[3]), ARGV[4]
if seen > 0 then
  local found = call("XRANGE", OUTBOX, seen .. "-0", seen .. "-0")[1]
  local same = found and sub(found[2][2], 1, #began) == began
  if not found then -- it may have been dropped
    local head = number_of(call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]) or record
    same = seen <= trimmed or seen < head
  end
  if not same then
    return { now, 0 }
  end
end
local through = math.min(tonumber(ARGV[2]), record - 1)
if through > trimmed then
  local oldest = through + 1
  if oldest < record then -- the entry that holds it may begin before it
    oldest = number_of(call("XREVRANGE", OUTBOX, oldest .. "-0", "-", "COUNT", 1)[1]) or oldest
  end
  call("HSET", META, "trimmed", through)
  call("XTRIM", OUTBOX, "MINID", "=", oldest)
end
return { now, 1 }
