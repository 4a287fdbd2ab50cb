-- Script: counts events by state, and reads the head of the ready list.
--
-- Returns {now, scheduled, ready, leased, dead, since when the first event of the ready list is there,
-- ms, or false when none is, or when more stale entries precede it than one call reads}. What is due
-- and not moved yet is ready.
local LOOKED_AT = 1000

-- Returns since when the first event of some entries of the ready list is there, us.
local function oldest_of(entries)
  for _, entry_of in ipairs(entries) do
    local _, part = nil, nil
    if #entry_of == ENTRY_OF_PART then
      _, part = part_of(entry_of)
    end
    if part then
      return number_at(part.times, 9)
    end
    local ids, number_of = ids_at(entry_of)
    for _, packed in ipairs(call("HMGET", STATE, unpack(ids))) do
      if is_placed(packed, number_of) then -- any other entry is stale
        return number_at(read_state(packed).moved, 1)
      end
    end
  end
end

local function oldest_ready()
  local from, count = 0, 1
  while from < LOOKED_AT do
    local entries = call("LRANGE", READY, from, from + count - 1)
    local oldest = oldest_of(entries)
    if oldest or #entries == 0 then
      return oldest and math.floor(oldest / 1000) or false
    end
    from, count = from + count, 4 * count
  end
  return false
end

local ready = ready_len()
local oldest = ready > 0 and oldest_ready()
local due = counter_of_events()(call("ZCOUNT", DELAY, "-inf", now_ms))
local counts = { call("ZCARD", DELAY) + paged - due, ready + due, leased, call("ZCARD", DEAD), oldest }
keep_counts()
return { now, unpack(counts) }
