-- Script: counts events by state, and reads the head of the ready list.
--
-- Returns {now, scheduled, ready, leased, dead, since when the first event of the ready list is there,
-- ms, or false when none is, or when more stale entries precede it than one call reads}. What is due
-- and not moved yet is ready.
local LOOKED_AT = 1000

local function oldest_ready()
  local entries = call("LRANGE", READY, 0, math.min(stale, LOOKED_AT - 1))
  local ids = {}
  for i, entry_of in ipairs(entries) do
    ids[i] = sub(entry_of, 1, 16)
  end
  local states = call("HMGET", STATE, unpack(ids))
  for i, state in ipairs(states) do
    -- Any other entry is stale.
    if state and byte(state) == 82 and sub(state, 46) == sub(entries[i], 17) then
      return math.floor(number_at(state, 13) / 1000)
    end
  end
  return false
end

local ready = ready_len()
local oldest = ready > 0 and oldest_ready()
local due = call("ZCOUNT", DELAY, "-inf", now_ms)
local counts = { call("ZCARD", DELAY) - due, ready + due, leased, call("ZCARD", DEAD), oldest }
leave()
return { now, unpack(counts) }
