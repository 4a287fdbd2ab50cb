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

-- Where events are to be inserted: at the end and at the head of the ready list, into the delay set and
-- into the dead set.
local back, front, delayed, dead

-- Returns whether any event is to wait again.
local function is_any_back()
  return #back + #front + #delayed > 0
end

-- Returns an event whose attempt has ended to waiting. It changes its state, which the caller writes after `put_back`.
local function wait(id, it, due_ms)
  it.due = u64(due_ms)
  if due_ms <= now_ms then
    it.kind, it.moved, it.entry = "R", u64(now), number
    back[#back + 1] = id .. number
  else
    it.kind, it.moved = "S", u64(now)
    delayed[#delayed + 1], delayed[#delayed + 2] = due_ms, id
  end
end

-- Hands back an event of which no handler has started: it is the next one again.
local function hand_back(id, it)
  local due_ms = number_at(it.due, 1)
  if due_ms > now_ms then -- it was prefetched
    wait(id, it, due_ms)
    it.moved = ZERO
    return
  end
  it.kind, it.entry = "R", number
  front[#front + 1] = id .. number
end

local function bury(id, it)
  it.kind, it.moved = "D", u64(now)
  dead[#dead + 1], dead[#dead + 2] = 0, id
end

-- Those that may have expired while they were leased are looked at.
local function look_for_expiry()
  local hints = {}
  for _, list in ipairs({ back, front }) do
    for _, entry_of in ipairs(list) do
      hints[#hints + 1], hints[#hints + 2] = now, sub(entry_of, 1, 16)
    end
  end
  for i = 2, #delayed, 2 do
    hints[#hints + 1], hints[#hints + 2] = now, delayed[i]
  end
  for from = 1, #hints, CHUNK do
    call("ZADD", EXPIRY, "XX", unpack(hints, from, math.min(from + CHUNK - 1, #hints)))
  end
end

-- Inserts all of them. Redis does not roll a script back. So an event is inserted at its destination
-- before its state says so: one left half done is still leased, and the repeated call does all of it.
local function put_back()
  local count, first = #back + #front, back[1] or front[1]
  if count > 0 then
    keep_counts(false, count, count, sub(first, 1, 16))
  end
  if is_any_back() and call("ZCARD", EXPIRY) > 0 then
    look_for_expiry()
  end
  write_all("RPUSH", READY, back)
  local reversed = {}
  for i = #front, 1, -1 do
    reversed[#reversed + 1] = front[i]
  end
  move_gap(#front)
  write_all("LPUSH", READY, reversed)
  write_all("ZADD", DELAY, delayed)
  write_all("ZADD", DEAD, dead)
end

-- Each call:
was_ready, was_due = nil, nil
back, front, delayed, dead = {}, {}, {}, {}
