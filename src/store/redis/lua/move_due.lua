-- Script: moves due events to the ready list.
local AT_ONCE = 256 -- members read at once
local ready = ready_len() -- a list of a wrong type fails it here, before it writes
local count, limit, seen, moved = 0, tonumber(ARGV.limit), 0, u64(now)
local entries, changes, changes_len, gone_parts, ready_before = {}, {}, 0, {}, ready

-- Inserts what is to move before anything says that it has: an entry whose event waits elsewhere is
-- skipped, and the repeated call moves it, while an event in neither place is lost. Then all that was seen
-- leaves the delay set.
local function write_moved()
  if #entries > 0 then
    changes_len = add_pages(changes, changes_len)
    keep_counts(false, ready - ready_before, #entries, changes[1])
    write_all("RPUSH", READY, entries)
    write_all("HSET", STATE, changes, changes_len)
    entries, changes, changes_len, ready_before = {}, {}, 0, ready
  end
  forget_sizes(gone_parts)
  if seen > 0 then
    call("ZREMRANGEBYRANK", DELAY, 0, seen - 1) -- as many as were read
  end
  gone_parts, seen = {}, 0
end

-- Moves events that are alone: those that wait there, since others were left by a call that failed.
local function move_alone(ids, dues)
  for i, state in ipairs(read_all("HMGET", STATE, ids)) do
    local kind = state and byte(state) or 83
    if (kind == 83 or kind == 82) and not place_of(ids[i]) then
      changes[changes_len + 1] = ids[i]
      changes[changes_len + 2] = due_state(state, u64(tonumber(dues[i])) .. moved, ZERO)
      changes_len, entries[#entries + 1], count = changes_len + 2, ids[i] .. number, count + 1
      local is_there = kind == 82 -- so is its entry
      surplus, ready = surplus + (is_there and 1 or 0), ready + (is_there and 0 or 1)
    end
  end
end

local more = true
while more and count < limit do -- `limit` events
  local want, was = math.min(limit - count, AT_ONCE), seen
  local due = call("ZRANGE", DELAY, "-inf", now_ms, "BYSCORE", "LIMIT", seen, want, "WITHSCORES")
  local ids, dues, members = {}, {}, {}
  for i = 1, #due / 2 do
    members[i] = due[2 * i - 1]
  end
  read_pages(members)
  local is_open = false
  for i, member in ipairs(members) do
    if count + #ids >= limit then
      break
    elseif #member ~= MEMBER_OF_PART then
      ids[#ids + 1], dues[#dues + 1] = member, due[2 * i]
    else
      move_alone(ids, dues)
      ids, dues = {}, {}
      local page, part = part_of(member, "S")
      if page and count + part.count > limit then
        write_moved() -- first: calls that failed may have left some of its events among what was seen
        open_part(page, part) -- its events are the next members
        is_open = true
        break
      elseif page then
        part.kind, part.times, part.number = "R", sub(part.times, 1, 8) .. moved, number
        changed_pages[page.name] = page
        entries[#entries + 1] = member_of(page, part) .. number
        count, surplus, ready = count + part.count, surplus - part.count + 1, ready + part.count
      end
      gone_parts[#gone_parts + 1] = member
    end
    seen = seen + 1
  end
  move_alone(ids, dues)
  more = is_open or seen - was < #members or #members == want
end
write_moved()
if ARGV.caller ~= "" and ready > 0 then
  call("SPUBLISH", WAKE, "!" .. ARGV.caller)
end
local reply = REPLY { now = now, moved = count, ready = ready, next_due = next_due() or false }
if meta.expired + meta.late > 0 then
  reply[REPLY.next_due + 1], reply[REPLY.next_due + 2] = meta.expired, meta.late
  meta.expired, meta.late = 0, 0
end
keep_counts()
return reply
