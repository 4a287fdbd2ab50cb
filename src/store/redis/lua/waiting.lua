-- What waits comes first or earlier, and who is told of it.

-- Before the change: is anything ready, and what is due next.
local was_ready, was_due = ready_len() > 0, next_due()

-- Tells the movers, but for the one that asks, if there is work sooner than before; answers 1 then.
local function wake(origin)
  local due = next_due()
  local sooner = due and (not was_due or due < was_due)
  if sooner or (ready_len() > 0 and not was_ready) then
    call("SPUBLISH", WAKE, origin)
    return 1
  end
  return 0
end

-- Puts what is handed back before all that waits, in its order.
local function put_first(entries)
  if #entries > 0 then
    local reversed = {}
    for i = #entries, 1, -1 do
      reversed[#reversed + 1] = entries[i]
    end
    call("LPUSH", READY, unpack(reversed))
  end
end
