-- Script: reads records. Changes nothing.
local AT_ONCE, ENTRIES_MAX = 4, 1000
local after, most, enough = tonumber(ARGV.after), tonumber(ARGV.limit), tonumber(ARGV.enough)

local function number_of(found)
  return found and tonumber(found[1]:match("^%d+"))
end

local trimmed = tonumber(meta[5] or 0)
local first = math.min(trimmed + 1, record)
if first < record then -- later writes may have dropped some
  first = math.max(number_of(call("XRANGE", OUTBOX, "-", "+", "COUNT", 1)[1]) or record, first)
end
local reply = REPLY { now = now, first = first, next = record, trimmed = trimmed, last = 0, newer = 0 }
local len = #reply
local through = math.max(after, first - 1)
if most > 0 and through + 1 < record then
  -- The entry that holds the next record may begin before it.
  local holder = call("XREVRANGE", OUTBOX, through + 1 .. "-0", "-", "COUNT", 1)[1]
  local from, last = number_of(holder) or through + 1, math.min(through + most, record - 1)
  local bytes, entries, found = 0, 0, nil
  local function is_enough()
    return bytes >= enough or entries >= ENTRIES_MAX or reply[REPLY.newer] == 1
  end
  repeat -- `ENTRIES_MAX` entries
    found = call("XRANGE", OUTBOX, from .. "-0", last .. "-0", "COUNT", AT_ONCE)
    for _, it in ipairs(found) do
      if is_enough() then
        break
      end
      local number, packed = number_of(it), it[2][2]
      if tonumber(it[2][1]:match("^r(%d+)$") or 0) > RECORDS then
        reply[REPLY.newer], last = 1, number - 1
        break
      end
      reply[len + 1], reply[len + 2] = number, packed
      len, entries, bytes, from = len + 2, entries + 1, bytes + #packed, number + 1
    end
  until is_enough() or #found < AT_ONCE
  local following = number_of(call("XRANGE", OUTBOX, from .. "-0", "+", "COUNT", 1)[1]) or record
  through = math.min(last, following - 1)
end
reply[REPLY.last] = through
return reply
