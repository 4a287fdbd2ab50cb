-- Script: counts events by state, and reads the heads of the ready list and of the delay set.
local LOOKED_AT = 1000

-- Returns since when the first event of an entry of the ready list is there, us, and how many it has
-- looked at.
local function oldest_of(entry_of)
  local part, ids, number_of = read_entry(entry_of)
  if part then
    return number_at(part.times, 9)
  end
  for _, packed in ipairs(read_all("HMGET", STATE, ids)) do
    if is_placed(packed, number_of) then -- any other entry is stale
      return number_at(read_state(packed).moved, 1)
    end
  end
  return nil, #ids
end

local function oldest_ready()
  local from, count, looked = 0, 1, 0
  while looked < LOOKED_AT do -- so many events, and those of an entry
    local entries = call("LRANGE", READY, from, from + count - 1)
    for _, entry_of in ipairs(entries) do
      local oldest, its = oldest_of(entry_of)
      looked = looked + (its or 0)
      if oldest or looked >= LOOKED_AT then
        return oldest and math.floor(oldest / 1000) or false
      end
    end
    if #entries == 0 then
      return false
    end
    from, count = from + count, math.min(4 * count, LOOKED_AT)
  end
  return false
end

local ready = ready_len()
local oldest = ready > 0 and oldest_ready()
local scheduled = counter_of_events()
local due, first_due = scheduled(now_ms), next_due()
if first_due and due > 0 and (oldest or ready == 0) then -- else what is ready may be older, and nobody knows by how much
  oldest = math.min(oldest or first_due, first_due)
end
local later = scheduled(math.huge) - due
keep_counts()
return REPLY { now = now, scheduled = later, ready = ready + due, leased = math.max(leased, 0), dead = call("ZCARD", DEAD),
  oldest_ready = oldest }
