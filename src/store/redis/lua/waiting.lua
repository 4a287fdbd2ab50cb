-- Where events wait, and who is told when one waits for less time than was thought.

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

-- Takes an event that waits out of its index; answers its due time and when it was moved, in bytes.
local function unwait(id, state)
  if state and byte(state) == 82 then -- R: its entry in the list is passed over when it is met
    stale = stale + 1
    return sub(state, 5, 12), sub(state, 13, 20)
  end
  local due = call("ZSCORE", DELAY, id)
  call("ZREM", DELAY, id)
  return u64(tonumber(due)), ZERO
end
