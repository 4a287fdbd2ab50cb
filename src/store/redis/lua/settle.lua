-- Script: ends attempts, each only under its own lease, and writes their records.
--
-- ARGV[4]  node
-- ARGV[5]  the calling process, which is not notified
-- ARGV[6]  the longest delay, us
-- ARGV[7]  the last fetch on whose leases handlers of the node may start from now on, and ARGV[8]
--          on how many of them, from the first one
-- ARGV[9..] the settlements in order, in runs. A run begins with a number. Above 0: that many acks
--           under one request, which follows, encoded, and then their ids, each with fetched and
--           started, us, encoded. No id may occur twice then. 0: one settlement of any kind: id;
--           kind (a ack, t retry, z snooze, b bury, x discard, e expire, r release), request,
--           fetched and started, us, encoded, then for t and z the delay, us, encoded, then for t
--           and b the cause, a byte, plus 128 of a damaged body; "" or "=" and the error
--
-- Returns {now, 1 if there is earlier work, a text with "1" for each accepted settlement and "0"
-- for each whose lease was lost}. Where the bodies of the first ones exceed the limit of one call,
-- it settles only those, and the text ends with them.
local FREED_PER_READ = 4 -- removing a body takes at most a quarter of the time of reading it
local me = ARGV[4]
local runs, at, count = {}, 9, 0
local ids = {}
while at <= #ARGV do
  local acks = tonumber(ARGV[at])
  if acks > 0 then
    runs[#runs + 1] = { acks = acks, request = ARGV[at + 1], said = ARGV[at + 2] }
    local said = ARGV[at + 2]
    for from = 1, 32 * acks, 32 do
      count = count + 1
      ids[count] = sub(said, from, from + 15)
    end
    at = at + 3
  else
    runs[#runs + 1] = { at = at + 1 }
    count = count + 1
    ids[count] = ARGV[at + 1]
    at = at + 4
  end
end
local function announce_starts(node)
  return node and announce(node, tonumber(ARGV[7]), tonumber(ARGV[8]))
end

if count == 0 then
  local node = node_of(me)
  if announce_starts(node) then
    keep_node(me, node)
  end
  leave()
  return { now, 0, "" }
end
local states = call("HMGET", STATE, unpack(ids))
local changed, verdicts, changes, changes_len = {}, {}, {}, 0
local over, front, back, delayed, dead = {}, {}, {}, {}, {}
local freed = {} -- bodies of events
local pages = {} -- name -> a page with acks: those before, and how many this call adds
local ended, timed, deadlines = {}, {}, {}
local keyed = {} -- index entries of events that have ended

local function put(id, state)
  changes[changes_len + 1], changes[changes_len + 2] = id, state
  changes_len = changes_len + 2
end

-- Returns the event to waiting, with these flags and next attempt.
local function wait(id, head, due_ms, rest)
  if due_ms <= now_ms then
    put(id, "R" .. head .. u64(due_ms) .. u64(now) .. rest .. number)
    back[#back + 1] = id .. number
  else
    put(id, "S" .. head .. u64(due_ms) .. ZERO .. rest)
    local n = #delayed
    delayed[n + 1], delayed[n + 2] = due_ms, id
  end
end

local function release(id, state, haunted, rest)
  local head, due_ms = haunted .. sub(state, 3, 4), number_at(state, 5)
  if due_ms > now_ms then -- it was prefetched: back to waiting
    wait(id, head, due_ms, rest)
  else
    put(id, "R" .. head .. sub(state, 5, 20) .. rest .. number)
    front[#front + 1] = id .. number
  end
end

local function delayed_ms(said)
  local delay = math.min(number_at(said, 26), tonumber(ARGV[6]))
  return delay == 0 and now_ms or math.ceil((now + delay) / 1000)
end

-- Ends an attempt in any way; `said` begins with the kind of settlement.
local function conclude(id, state, said, times, verdict, settled, error)
  local flags, attempt = byte(state, 2), attempt_of(state)
  local haunted, rest = char(flags % 2), sub(state, 21, 28) .. settled
  if verdict == 114 then
    return release(id, state, haunted, rest)
  end
  local due, moved, key, unique, more = sub(state, 5, 12), sub(state, 13, 20)
  local period
  if flags >= 4 then
    local body = read_body(id)
    key, unique = keys_of(body)
    period = unique and unique_for(body)
    more = more_of(body)
  end
  local function finish_as(kind, outcome, number)
    note(id, outcome, "\0", number, due, moved, times, me, key, error, more)
    put(id, kind .. haunted .. sub(state, 3, 20) .. rest)
    over[#over + 1], freed[#freed + 1] = id, id
    keyed[#keyed + 1] = key and key_entry(key, id)
    if period and kind == "d" then
      hold_unique(id, unique, period)
    else
      free_unique(id, unique)
    end
  end
  if verdict == 97 then
    finish_as("d", "\1", attempt)
  elseif verdict == 120 then
    finish_as("d", "\5", attempt)
  elseif verdict == 101 then
    finish_as("e", "\7", 0)
  elseif verdict == 122 then
    note(id, "\3", "\0", attempt, due, moved, times, me, key, error, more)
    wait(id, haunted .. sub(state, 3, 4), delayed_ms(said), rest)
  else
    local allowed = byte(state, 70) * 256 + byte(state, 71)
    local head = haunted .. u16(math.min(attempt + 1, 65535))
    if verdict == 116 and attempt < allowed then
      note(id, "\2", sub(said, 34, 34), attempt, due, moved, times, me, key, error, more)
      wait(id, head, delayed_ms(said), rest)
    else
      local cause = verdict == 116 and sub(said, 34, 34) or sub(said, 26, 26)
      if byte(cause) >= 128 then -- a damaged body has no extras
        cause, key, more = char(byte(cause) - 128), nil, nil
      end
      note(id, "\4", cause, attempt, due, moved, times, me, key, error, more)
      put(id, "D" .. head .. due .. u64(now) .. rest)
      dead[#dead + 1], dead[#dead + 2] = 0, id
      free_unique(id, unique)
    end
  end
end

-- Whether the bodies that end may exceed the limit of one call.
local is_heavy = count * longest > FREED_PER_READ * BUDGET

local function end_lease(state, request, id)
  if math.floor(byte(state, 2) / 2) % 2 == 1 then
    timed[request] = (timed[request] or 0) + 1
    deadlines[#deadlines + 1] = id
  else
    ended[request] = (ended[request] or 0) + 1
  end
end

local done, over_len = 0, 0
local record_end = finished .. me .. "\0\0\0\0"

-- Returns the page, if it is leased under `token`.
local function page_under(name, token)
  local page = pages[name]
  if not page then
    local of = state_of_page(name)
    page = { acked = 0 }
    if of and byte(of) == 76 then
      page.token, page.times = sub(of, 26, 41), sub(of, 10, 25)
      page.low, page.high = unpack_from(">i4i4", of, 50)
    end
    pages[name] = page
  end
  return page.token == token and page
end

-- Notes that an event of a page is acked, which is all that it takes. Returns whether it was not.
local function ack_in(page, place)
  local half, its = place < 32 and "low" or "high", bit.lshift(1, place % 32)
  if bit.band(page[half], its) ~= 0 then
    return false
  end
  page[half], page.acked = bit.bor(page[half], its), page.acked + 1
  return true
end

-- Settles a run of acks: nearly all settlements, so nothing is done twice.
local function settle_acks(run)
  local token, settled = me .. run.request, me .. run.request .. "a"
  local plain, records_len = 0, #records
  over_len = #over
  local settled_len = 0
  for i = 1, run.acks do
    if is_spent() then
      break
    end
    settled_len = i
    local id, state, times = ids[done + i], states[done + i], sub(run.said, 32 * i - 15, 32 * i)
    local page = is_in_page(state) and page_under(sub(state, 2, 9), token)
    if page then
      verdicts[done + i] = "1" -- of a repeat too
      if ack_in(page, byte(state, 14)) then
        plain, records_len, over_len = plain + 1, records_len + 1, over_len + 1
        records[records_len] = id .. "\1\0\0\1" .. page.times .. times .. record_end
        over[over_len] = id
      end
    elseif not (state and sub(state, 46, 61) == token) then -- only leased states are that long
      -- A repeat, or a lost lease.
      verdicts[done + i] = state and sub(state, 29, 45) == settled and "1" or "0"
    else
      verdicts[done + i] = "1"
      if byte(state, 2) < 2 then
        plain, records_len, over_len = plain + 1, records_len + 1, over_len + 1
        records[records_len] = id .. "\1\0" .. sub(state, 3, 20) .. times .. record_end
        changes[changes_len + 1] = id
        changes[changes_len + 2] = "d" .. sub(state, 2, 28) .. settled
        changes_len = changes_len + 2
        over[over_len], freed[#freed + 1] = id, id
        if is_heavy then
          spent = spent + call("HSTRLEN", BODY, id) / FREED_PER_READ
        end
      else
        end_lease(state, run.request, id)
        conclude(id, state, "a", times, 97, settled)
        records_len, over_len = #records, #over
      end
    end
  end
  if plain > 0 then
    ended[run.request] = (ended[run.request] or 0) + plain
  end
  done = done + settled_len
end

local function settle_one(run)
  done = done + 1
  local id, said, error = ARGV[run.at], ARGV[run.at + 1], ARGV[run.at + 2]
  local found = changed[id] or states[done] -- an id may occur twice, under two leases
  local state = own_state(found)
  local verdict, request = byte(said), sub(said, 2, 9)
  local settled = me .. request .. char(verdict)
  if state and byte(state) == 76 and sub(state, 46, 61) == me .. request then
    take_out(id, found)
    end_lease(state, request, id)
    conclude(id, state, said, sub(said, 10, 25), verdict, settled,
      error ~= "" and sub(error, 2) or nil)
    changed[id] = changes[changes_len]
    verdicts[done] = "1"
  else
    verdicts[done] = state and sub(state, 29, 45) == settled and "1" or "0"
  end
end

-- Writes down what was acked in pages. Returns the pages that all events have left.
local function leave_pages()
  local empty = {}
  for name, page in pairs(pages) do
    if page.acked > 0 then
      local of = state_of_page(name) -- after those that left it alone
      local _, left = page_counts(of)
      of = sub(of, 1, 3) .. u16(left - page.acked) .. sub(of, 6, 49) .. pack(">i4i4", page.low, page.high)
      page_states[name], left_pages[name] = of, true
      put(name, of)
    end
  end
  for name in pairs(left_pages) do
    local _, left = page_counts(page_states[name])
    empty[#empty + 1] = left == 0 and name or nil
  end
  return empty
end

for _, run in ipairs(runs) do
  if is_spent() then
    break
  elseif run.acks then
    settle_acks(run)
  else
    settle_one(run)
  end
end

-- Redis does not roll a script back. So an event is inserted at its destination before its state
-- says so: an event left half done is still leased, and the repeated settle does all of it.
local node = node_of(me)
local is_news = announce_starts(node)
local is_back = #back + #front + #delayed > 0
if is_back then
  look_first()
end
if changes_len + #records > 0 then
  write_records()
  if #back > 0 then
    call("RPUSH", READY, unpack(back))
  end
  put_first(front)
  if #delayed > 0 then
    call("ZADD", DELAY, unpack(delayed))
  end
  if #dead > 0 then
    call("ZADD", DEAD, unpack(dead))
  end
  if #keyed > 0 then
    call("ZREM", BY_KEY, unpack(keyed))
  end
  local empty = leave_pages()
  if changes_len > 0 then
    call("HSET", STATE, unpack(changes))
  end
  if #freed > 0 then
    call("HDEL", BODY, unpack(freed))
  end
  local told = end_pages(empty)
  if #over > 0 then
    remember(over, told)
  elseif #told > 0 then
    add_past(over, told)
  end
  if #deadlines > 0 then
    call("ZREM", LEASE, unpack(deadlines))
  end
  if node then
    end_leases(me, node, ended, timed)
  end
elseif is_news then
  keep_node(me, node)
end
local earlier = 0
if is_back then
  earlier = wake(ARGV[5])
end
leave()
return { now, earlier, table.concat(verdicts) }
