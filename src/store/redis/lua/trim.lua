-- Script: drops records that are in the journal. The last entry is kept if only part of it is
-- confirmed; readers skip that part.
local function number_of(found)
  return found and tonumber(found[1]:match("^%d+"))
end

local DROPPED_MAX = 20000 -- records that one call drops
local trimmed = tonumber(call("HGET", META, "trimmed") or 0)
local seen, began = tonumber(ARGV.seen), ARGV.began
if seen > 0 then
  local found = call("XRANGE", OUTBOX, seen .. "-0", seen .. "-0")[1] -- one entry
  local same = found and sub(found[2][2], 1, #began) == began
  if not found then -- it may have been dropped
    local head = number_of(call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]) or record
    same = seen <= trimmed or seen < head
  end
  if not same then
    return REPLY { now = now, is_same = 0, more = 0 }
  end
end
local through = math.min(tonumber(ARGV.through), record - 1)
local head = number_of(call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]) or record
local more = through > trimmed and through - head > DROPPED_MAX
through = more and math.max(head + DROPPED_MAX, trimmed) or through
if more or through > trimmed then
  local oldest = through + 1
  if oldest < record then -- the entry that holds it may begin before it
    oldest = number_of(call("XREVRANGE", OUTBOX, oldest .. "-0", "-", "COUNT", 1)[1]) or oldest
  end
  call("HSET", META, "trimmed", through)
  if ARGV.kept ~= "" then -- as in ending.lua
    call("HSET", META, "kept", pack(">dd", ARGV.kept, now + 86400000000))
  end
  call("XTRIM", OUTBOX, "MINID", "=", oldest) -- `DROPPED_MAX` records
end
return REPLY { now = now, is_same = 1, more = more and 1 or 0 }
