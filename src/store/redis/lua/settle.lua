-- Script: ends attempts, each only under its own lease, and writes their records.
--
-- ARGV[4]  node
-- ARGV[5]  the calling process, which is not notified
-- ARGV[6]  the longest delay, us
-- ARGV[7]  the last fetch on whose leases handlers of the node may start from now on, and ARGV[8]
--          on how many of them, from the first one
-- ARGV[9..] the settlements in order, in runs. A run begins with a number. Above 0: that many acks
--           under one request, which follows, encoded, and then their ids, each with fetched and
--           started, us, encoded. No id may occur twice then. Below 0: that many acks of one page, in
--           the order of their places: the request; the name of the page, which places, 8 bytes, and
--           for each its place, and fetched and started, us, encoded. 0: one settlement of any kind: id;
--           kind (a ack, t retry, z snooze, b bury, x discard, e expire, r release, i interrupt),
--           request, fetched and started, us, encoded, then for t, z and i the delay, us, encoded,
--           then for t, b and i the cause, a byte, plus 128 of a damaged body, then for i how many
--           interruptions in a row are free, a byte; "" or "=" and the error
--
-- Returns {now, 1 if there is earlier work, a text with "1" for each accepted settlement and "0"
-- for each whose lease was lost}. Where the bodies of the first ones exceed the limit of one call,
-- it settles only those, and the text ends with them.
local FREED_PER_READ = 4 -- removing a body takes at most a quarter of the time of reading it

-- Divides a run of acks of one page, and adds what it consists of to `runs`: the acks of each part, and
-- those of events that are alone, which are a run of ids.
local function divide_run(runs, run)
  local said, page, from = run.said, page_of(run.name), 1
  local said_low, said_high = unpack_from(">i4i4", said, 16)
  while from <= run.acks do
    local part, to = page and part_at(page, byte(said, 7 + 17 * from)), from
    local its = { page = page, part = part, request = run.request }
    if part then
      local beyond, low, high = part.first + part.count, bits(part.first, part.count)
      if byte(said, 7 + 17 * run.acks) < beyond then
        to = run.acks
      end
      while to < run.acks and byte(said, 24 + 17 * to) < beyond do
        to = to + 1
      end
      its.low, its.high = bit.band(said_low, low), bit.band(said_high, high)
      its.said = sub(said, 7 + 17 * from, 23 + 17 * to)
    else
      local at = 7 + 17 * from
      its.said = run.name .. char(PLACE + byte(said, at)) .. sub(said, at + 1, at + 16)
    end
    its.acks, from = to - from + 1, to + 1
    runs[#runs + 1] = its
  end
end

local function delayed_ms(said)
  local delay = math.min(number_at(said, 26), tonumber(ARGV[6]))
  return delay == 0 and now_ms or math.ceil((now + delay) / 1000)
end

-- Returns what an end needs of a body: how long its unique key stays reserved, key and unique key, and
-- the extras of its record.
local function extras_to_end(id)
  local body = read_body(id)
  local key, unique = keys_of(body)
  return unique and unique_for(body), key, unique, more_of(body)
end

-- Ends the parts of which all events are acked.
local function end_parts(acked, freed)
  for part, page in pairs(acked) do
    local low, high = bits(part.first, part.count)
    change(page)
    if bit.band(part.low, low) == low and bit.band(part.high, high) == high then
      part.kind = "E"
      freed[#freed + 1] = not needs_body(page, part.body) and field_of(page, part) or nil
    end
  end
end

-- Each call:
local me = ARGV[4]
local runs, at, count = {}, 9, 0
local firsts = {} -- ids of pages
while at <= #ARGV do
  local acks = tonumber(ARGV[at])
  local run = { acks = math.abs(acks), request = ARGV[at + 1], said = ARGV[at + 2] }
  if acks == 0 then
    run = { acks = 0, at = at + 1, id = ARGV[at + 1] }
    firsts[#firsts + 1], at = run.id, at + 1
  elseif acks < 0 then
    run.name = sub(run.said, 1, NAME)
    firsts[#firsts + 1] = run.name .. char(PLACE)
  end
  runs[#runs + 1], count, at = run, count + (run.acks > 0 and run.acks or 1), at + 3
end
local function announce_starts(node)
  return node and announce(node, tonumber(ARGV[7]), tonumber(ARGV[8]))
end

if count == 0 then
  local node = node_of(me)
  if announce_starts(node) then
    keep_node(me, node)
  end
  keep_counts()
  return { now, 0, "" }
end
read_pages(firsts)
local divided, alone, at_alone = {}, {}, {}
for _, run in ipairs(runs) do
  if run.name then
    divide_run(divided, run)
  else
    divided[#divided + 1] = run
  end
end
for _, run in ipairs(divided) do
  run.states = not run.part and {}
  for i = 1, run.part and 0 or math.max(run.acks, 1) do
    local id = run.id or sub(run.said, 32 * i - 31, 32 * i - 16)
    if not place_of(id) then
      alone[#alone + 1], at_alone[#at_alone + 1] = id, { run.states, i }
    end
  end
end
for i, state in ipairs(#alone > 0 and call("HMGET", STATE, unpack(alone)) or {}) do
  at_alone[i][1][at_alone[i][2]] = state
end
local changed, changes, changes_len = {}, {}, 0
local over, over_count = {}, 0 -- items of events that have ended
local freed = {} -- bodies
local acked = {} -- parts with new acks, or that others leave, and their pages
local leaving = {} -- part -> its page, and the states of events that leave by their places
local ended, timed, deadlines = {}, {}, {}
local keyed = {} -- index entries of events that have ended
local verdicts = {}

local function put(id, state)
  changes[changes_len + 1], changes[changes_len + 2] = id, state
  changes_len = changes_len + 2
end

local function end_alone(id)
  local len = #over
  over[len + 1], over[len + 2], over_count = id, "\0", over_count + 1
  freed[#freed + 1] = id
end

-- Ends an attempt in any way; `said` begins with the kind of settlement. Returns the new state.
local function conclude(id, it, said, times, verdict, settled, error)
  local attempt, allowed, due, moved = it.attempt, it.allowed, it.due, it.moved
  local period, key, unique, more
  if it.extras and verdict ~= 114 then
    period, key, unique, more = extras_to_end(id)
  end
  local function record(outcome, cause, number)
    note(id, outcome, cause, number, due, moved, times, me, key, error, more)
  end
  local function finish_as(kind, outcome, number)
    record(outcome, "\0", number)
    it.kind = kind
    end_alone(id)
    keyed[#keyed + 1] = key and key_entry(key, id)
    if period and kind == "d" then
      hold_unique(id, unique, period)
    else
      free_unique(id, unique)
    end
  end
  it.settled = settled
  local is_free = verdict == 105 and it.interruptions < byte(said, 35)
  if is_free then
    it.interruptions = it.interruptions + 1
  elseif verdict ~= 105 and verdict ~= 114 then
    it.interruptions = 0
  end
  if verdict == 114 then
    hand_back(id, it)
  elseif is_free then
    record("\12", sub(said, 34, 34), attempt)
    wait(id, it, delayed_ms(said))
  elseif verdict == 97 then
    finish_as("d", "\1", attempt)
  elseif verdict == 120 then
    finish_as("d", "\5", attempt)
  elseif verdict == 101 then
    finish_as("e", "\7", 0)
  elseif verdict == 122 then
    record("\3", "\0", attempt)
    wait(id, it, delayed_ms(said))
  else
    it.attempt = math.min(attempt + 1, 65535)
    local is_retry = verdict == 116 or verdict == 105
    if is_retry and attempt < allowed then
      record("\2", sub(said, 34, 34), attempt)
      wait(id, it, delayed_ms(said))
    else
      local cause = is_retry and sub(said, 34, 34) or sub(said, 26, 26)
      if byte(cause) >= 128 then -- a damaged body has no extras
        cause, key, more = char(byte(cause) - 128), nil, nil
      end
      record("\4", cause, attempt)
      bury(id, it)
      free_unique(id, unique)
    end
  end
  return write_state(it)
end

-- Whether the bodies that end may exceed the limit of one call.
local is_heavy = count * longest > FREED_PER_READ * BUDGET

local function end_lease(it, request, id)
  if it.timed then
    timed[request] = (timed[request] or 0) + 1
    deadlines[#deadlines + 1] = id
  else
    ended[request] = (ended[request] or 0) + 1
  end
end

local record_end = finished .. me .. "\0\0\0\0"

-- Returns those of the acks of a part that are new, and gives the verdict on each: "1" of a repeat too.
local function new_acks(page, part, run)
  local said, are_new = {}, part.kind == "L"
  if are_new and bit.band(part.low, run.low) == 0 and bit.band(part.high, run.high) == 0 then
    verdicts[#verdicts + 1] = string.rep("1", run.acks)
    return run.said
  end
  for i = 1, run.acks do
    local its = sub(run.said, 17 * i - 16, 17 * i)
    local is_known = has_bit(page.low, page.high, byte(its))
    verdicts[#verdicts + 1] = is_known and "1" or "0"
    if are_new and is_known and not has_bit(part.low, part.high, byte(its)) then
      said[#said + 1] = its
    end
  end
  return table.concat(said)
end

-- Settles acks of one part, in the order of their places, which is all that there is to nearly all
-- settlements.
local function settle_part(run)
  local page, part = run.page, run.part
  if part.kind == "R" or part.kind == "S" or sub(part.tail, 1, 16) ~= me .. run.request then
    verdicts[#verdicts + 1] = string.rep("0", run.acks)
    return
  end
  local said, from = new_acks(page, part, run), 1
  local acks = #said / 17
  if acks == 0 then
    return
  end
  part.low, part.high = bit.bor(part.low, run.low), bit.bor(part.high, run.high)
  acked[part] = page
  for i = 1, acks do -- those that follow each other are one item
    local place = byte(said, 17 * i - 16)
    if byte(said, 17 * i + 1) ~= place + 1 then
      over[#over + 1] = page.name .. char(PLACE + place - i + from, i + 1 - from)
      from = i + 1
    end
  end
  note_several(acks, part.times .. "\0" .. u16(acks) .. finished .. me .. page.name .. said)
  ended[run.request], over_count = (ended[run.request] or 0) + acks, over_count + acks
end

-- Settles a run of acks of events that are alone.
local function settle_acks(run)
  local token, settled = me .. run.request, me .. run.request .. "a"
  local plain = 0
  for i = 1, run.acks do
    if is_spent() then
      break
    end
    local id, state = sub(run.said, 32 * i - 31, 32 * i - 16), run.states[i]
    local times = sub(run.said, 32 * i - 15, 32 * i)
    if not is_under(state, token) then -- a repeat, or a lost lease
      verdicts[#verdicts + 1] = is_settled(state, settled) and "1" or "0"
    else
      verdicts[#verdicts + 1] = "1"
      if is_plain_lease(state) then
        plain = plain + 1
        records[#records + 1] = id .. "\1\0" .. times_of(state) .. times .. record_end
        put(id, ack_state(state, settled))
        end_alone(id)
        if is_heavy then
          spent = spent + call("HSTRLEN", BODY, id) / FREED_PER_READ
        end
      else
        local it = read_state(state)
        end_lease(it, run.request, id)
        put(id, conclude(id, it, "a", times, 97, settled))
      end
    end
  end
  if plain > 0 then
    ended[run.request] = (ended[run.request] or 0) + plain
  end
end

local function settle_one(run)
  local id, said, error = run.id, ARGV[run.at + 1], ARGV[run.at + 2]
  local state = changed[id] or run.states[1] -- an id may occur twice, under two leases
  local page, part, place = place_of(id)
  local it = state and read_state(state) or page and own_state(part, place)
  local verdict, request = byte(said), sub(said, 2, 9)
  local settled = me .. request .. char(verdict)
  if not (it and it.kind == "L" and it.token == me .. request) then
    verdicts[#verdicts + 1] = it and it.settled == settled and "1" or "0"
    return
  end
  end_lease(it, request, id)
  changed[id] = conclude(id, it, said, sub(said, 10, 25), verdict, settled,
    error ~= "" and sub(error, 2) or nil)
  if page then
    leaving[part] = leaving[part] or { page = page, becomes = {} }
    leaving[part].becomes[place] = changed[id]
  else
    put(id, changed[id])
  end
  verdicts[#verdicts + 1] = "1"
end

-- Takes events that were settled alone out of their parts.
local function take_all_out()
  for part, its in pairs(leaving) do
    local places = {}
    for place in pairs(its.becomes) do
      places[#places + 1] = place
    end
    table.sort(places)
    local pieces, states_of = take_out(its.page, part, places, its.becomes)
    for i = 1, #states_of, 2 do
      put(states_of[i], states_of[i + 1])
    end
    acked[part] = nil
    for _, other in ipairs(pieces) do
      acked[other] = its.page
    end
    if not needs_body(its.page, part.body) then
      freed[#freed + 1] = field_of(its.page, part)
    end
  end
end

for _, run in ipairs(divided) do
  if is_spent() then
    break
  elseif run.part then
    settle_part(run)
  elseif run.id then
    settle_one(run)
  else
    settle_acks(run)
  end
end

local node = node_of(me)
local is_news = announce_starts(node)
local is_back = is_any_back()
if is_back then
  look_first()
end
if changes_len + #records > 0 or next(leaving) then
  write_records()
  put_back()
  take_all_out()
  if #keyed > 0 then
    call("ZREM", BY_KEY, unpack(keyed))
  end
  end_parts(acked, freed)
  changes_len = add_pages(changes, changes_len)
  if changes_len > 0 then
    call("HSET", STATE, unpack(changes, 1, changes_len))
  end
  if #freed > 0 then
    if over_count > 0 then
      call("ZREM", EXPIRY, unpack(freed))
    end
    call("HDEL", BODY, unpack(freed))
  end
  if over_count > 0 then
    remember(table.concat(over), over_count)
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
keep_counts()
return { now, earlier, table.concat(verdicts) }
