-- Library: detects earlier work, and notifies the movers.

-- Whether anything is ready, and the next due time, before the change.
local was_ready, was_due

-- Reads both: a script calls it before it changes anything.
local function look_first()
  was_ready, was_due = ready_len() > 0, next_due()
end

-- Notifies the movers, except the caller's, of earlier work; returns 1 then.
local function wake(origin)
  local due = next_due()
  local sooner = due and (not was_due or due < was_due)
  if sooner or (ready_len() > 0 and not was_ready) then
    call("SPUBLISH", WAKE, origin)
    return 1
  end
  return 0
end

-- Inserts events that are handed back at the head of the list, in order.
local function put_first(entries)
  if #entries > 0 then
    local reversed = {}
    for i = #entries, 1, -1 do
      reversed[#reversed + 1] = entries[i]
    end
    call("LPUSH", READY, unpack(reversed))
  end
end
