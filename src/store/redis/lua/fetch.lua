-- Script: leases events to a node: ready ones in order, then scheduled ones that are due soon.
--
-- ARGV[4]  node
-- ARGV[5]  request, a number, and ARGV[6] encoded: a request that is not greater than the last one
--          leases nothing and returns what is still held under its number
-- ARGV[7]  limit of ready events
-- ARGV[8]  how long before its due time an event may be leased, us, and ARGV[9] limit of those
-- ARGV[10] lease duration, us, or "" for as long as the node's heartbeat lasts
-- ARGV[11] on how many of the leases, from the first one, handlers may start
-- ARGV[12] how many scheduled events are a crowd, and ARGV[13] within how many ms of the first one
-- Returns {now, ready events left, next due time or false, due time of the last of a crowd or
-- false, 1 if it stopped before it had examined
-- all candidates, how many leases the node has that last as long as its heartbeat, its last request
-- before this one, how many events it left to a newer duly, the places of the deliveries in their
-- batch, two bytes each, or "" where they are 0 and so on, then three for each delivery: id; its
-- state, of which the bytes 3 to 20 are those of its lease; body; or three for each part of a page:
-- its first id and how many events it has; its times; its body; and at the end, if it ended any
-- events instead, how many had expired and how many were too late}. A node that was reaped is refused.
local BATCH_MAX = 1000
local PASSED_MAX = 4000 -- limit of stale entries in one call
local PARTS_PER_READ = 32
local REST = 1000 -- ms until it checks again for nodes that can read a newer format
local expired, late_ones -- events that are set aside

-- Sets an event with extras aside if it has expired or is too late. Returns whether it is; `it`, its
-- state, learns of the extras otherwise.
local function set_aside(id, it, body)
  local attempts, expires, late, late_us, key, unique = extras_of(body)
  local passed = late and math.max(now - number_at(it.due, 1) * 1000, 0) > late_us
  if (expires and expires * 1000 <= now) or (passed and late == "expire") then
    note_end(id, "\7", it.due, it.moved, body)
    expired[#expired + 1] = { id, it, body }
    return true
  elseif passed then
    note(id, "\4", "\7", 0, it.due, it.moved, ZERO .. ZERO, ZERO, key, nil, more_of(body))
    late_ones[#late_ones + 1] = { id, it, unique }
    return true
  end
  it.extras, it.allowed = key or unique or tells(body), attempts
end

-- Ends the events set aside. The records come first, and an event is inserted at its destination
-- before its state says so: an event left half done is still waiting. Returns
-- how many had expired, and how many were too late.
local function end_what_is_aside()
  if #records == 0 then
    return 0, 0
  end
  check_keys()
  write_records()
  for _, it in ipairs(expired) do
    finish_noted(it[1], "e", it[2], it[2].due, it[3])
  end
  for _, it in ipairs(late_ones) do
    local id, state, unique = it[1], it[2], it[3]
    state.kind, state.moved = "D", u64(now)
    call("ZADD", DEAD, 0, id)
    call("HSET", STATE, id, write_state(state))
    free_unique(id, unique)
  end
  local gone, late = #expired, #late_ones
  expired, late_ones = {}, {}
  return gone, late
end

-- Appends what is still leased in a batch to an answer of `len`. Returns its length, and the places of
-- the events in the batch.
local function add_held(batch, answer, len)
  local ids = ids_of_batch(call("HGET", HELD, batch) or "")
  local states, places = find_all(ids), {}
  for i, id in ipairs(ids) do
    local it = states[i]
    if it and it.kind == "L" and it.token == batch then
      answer[len + 1], answer[len + 2], answer[len + 3] = id, write_state(it), body_of(id)
      len = len + 3
      places[#places + 1] = u16(i - 1)
    end
  end
  return len, table.concat(places)
end

-- Returns the body of a part alone, of which `body` is the field; nothing if it is damaged. That of a
-- part which is all of it is not looked at: its reader finds damage.
local function body_for(page, part, body)
  local is_all = part.first == part.body
  for _, it in ipairs(page.parts) do
    is_all = is_all and (it == part or it.body ~= part.body)
  end
  return is_all and body or cut(part, body or nil)
end

-- Reads the parts that begin with some ids, and their bodies.
local function read_parts(firsts)
  local fields = {}
  read_pages(firsts)
  for _, first in ipairs(firsts) do
    local page, part = place_of(first)
    fields[#fields + 1] = page and field_of(page, part)
  end
  for i, body in ipairs(#fields > 0 and call("HMGET", BODY, unpack(fields)) or {}) do
    bodies_of_parts[fields[i]] = body
  end
end

-- Returns the first ones of some entries or members, each `step`-th of a list, that are all parts, of
-- no more than `most` events but for the last one, or all of events that are alone; their first ids; and
-- whether they are parts.
local function head_of(list, step, part_len, most)
  local heads, firsts, are_parts = {}, {}, #list[1] == part_len
  for at = 1, #list, step do
    if (#list[at] == part_len) ~= are_parts or (are_parts and (#heads == PARTS_PER_READ or most <= 0)) then
      break
    end
    most = most - (are_parts and events_of(list[at]) or 1)
    heads[#heads + 1], firsts[#firsts + 1] = list[at], sub(list[at], 1, 16)
  end
  return heads, firsts, are_parts
end

-- Each call:
local me, request, token = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local node = node_for(me)
node.seen = now
local answer, len, ended = { now, 0, false, false, 0, 0, node.last, 0, "" }, 9, { 0, 0 }
local count, newer = 0, 0

local function done()
  keep_node(me, node)
  answer[2], answer[3], answer[6] = ready_len(), next_due() or false, node.kept
  answer[4] = answer[3] and due_of_crowd(answer[3], tonumber(ARGV[12]), tonumber(ARGV[13])) or false
  answer[8] = newer
  if newer > 0 then -- the rest may be unreadable too, and it would fetch without end
    answer[4], answer[5] = false, count > 0 and answer[5] or 0
    answer[2] = count > 0 and math.max(answer[2] - newer, 0) or 0
    answer[3] = math.min(answer[3] or math.huge, now_ms + REST)
  end
  if ended[1] + ended[2] > 0 then
    answer[len + 1], answer[len + 2] = ended[1], ended[2]
  end
  keep_counts()
  return answer
end

if node.reaping or node.lost then
  node.lost = false
  node.refused, node.last = math.max(node.refused, request), math.max(node.last, request)
end
if request <= node.refused then
  keep_node(me, node)
  keep_counts()
  return redis.error_reply("DULY LEASELOST the node was reaped as dead and its events were given "
    .. "to others; drop them and fetch again")
end

if request <= node.last then
  len, answer[9] = add_held(me .. token, answer, len)
  if len > 9 and node.kept > 0 and not node.reaping then
    node.beat = node.beat + 1
  end
  return done()
end
node.last = request

local deadline = ARGV[10] ~= "" and math.ceil((now + ARGV[10]) / 1000)
local held, changes, changes_len, deadlines = {}, {}, 0, {}
local lease = me .. token .. u64(now) -- the suffix of each lease of this call
local plain = lease .. u16(ATTEMPTS)
local moved_now = u64(now)
local aside = BATCH_MAX -- how many more expired or exhausted events it may set aside
expired, late_ones = {}, {}

-- Leases an event; `state`: what it becomes.
local function give(id, state, body)
  count = count + 1
  held[#held + 1] = id .. "\0"
  changes[changes_len + 1], changes[changes_len + 2] = id, state
  changes_len = changes_len + 2
  if deadline then
    deadlines[2 * count - 1], deadlines[2 * count] = deadline, id
  end
  answer[len + 1], answer[len + 2], answer[len + 3] = id, state, body
  len = len + 3
end

-- Leases an event, or sets it aside if it has expired or is too late. `it`: its state.
local function take(id, it, body)
  it.kind, it.timed, it.extras, it.fingerprint = "L", deadline, false, sub(body, 5, 12)
  it.token, it.fetched, it.allowed = me .. token, moved_now, ATTEMPTS
  if not has_extras(body) then
    return give(id, write_state(it), body)
  end
  if set_aside(id, it, body) then
    aside = aside - 1
  else
    give(id, write_state(it), body)
  end
end

-- A lease is in its batch before it takes effect, and takes effect before its event leaves the list
-- or set in which it waits: an event left half done is in two places and never in none.
local written = 0
local function write()
  local gone, late = end_what_is_aside()
  ended[1], ended[2] = ended[1] + gone, ended[2] + late
  if count > written then
    call("HSET", HELD, me .. token, table.concat(held), "#" .. me .. token, count)
    call("HSET", STATE, unpack(changes, 1, add_pages(changes, changes_len)))
    if deadline then
      call("ZADD", LEASE, unpack(deadlines, 2 * written + 1, 2 * count))
    end
    written, changes_len = count, 0
  end
end

local passed_over = 0

local function may_look()
  return aside > 0 and passed_over + newer < PASSED_MAX and not is_spent()
end

local limit = math.min(tonumber(ARGV[7]), BATCH_MAX)
local unseen = limit > 0 and call("LLEN", READY) or 0 -- entries

-- Leases a part.
local function lease_part(page, part, body)
  local name = member_of(page, part)
  part.kind, part.tail, part.low, part.high = "L", lease, 0, 0
  change(page)
  held[#held + 1] = name
  count, spent = count + part.count, spent + #body
  answer[len + 1], answer[len + 2], answer[len + 3] = name, part.times, body
  len = len + 3
end

-- Puts entries of their own in the place of that at the head of the list, whose events are alone, or
-- are to be so.
local function open_entry(entry_of)
  local page, part = part_of(entry_of)
  if page then
    leave_part(page, part)
  end
  local ids, number_of = ids_at(entry_of)
  local entries = {}
  for i, state in ipairs(call("HMGET", STATE, unpack(ids))) do
    if is_placed(state, number_of) then
      table.insert(entries, 1, ids[i] .. number_of)
    end
  end
  if #entries > 0 then
    call("LPUSH", READY, unpack(entries))
  end
  call("LREM", READY, 1, entry_of)
  passed_over = passed_over + #ids - #entries
  surplus, unseen = surplus + #entries - 1, unseen + #entries - 1
end

-- Leases parts that wait as entries of the ready list, or as members of the delay set, until one does
-- not fit. Returns how many have left.
local function take_parts(waiting, firsts, are_ready)
  local looked = 0
  read_parts(firsts)
  for i, first in ipairs(firsts) do
    local page, part
    if are_ready then
      page, part = part_of(waiting[i])
    else
      page, part = scheduled_part(first)
    end
    local body = page and not deadline and body_for(page, part, body_of_part(page, part))
    if not page and not are_ready then
      paged, looked = paged - events_of(waiting[i]) + 1, i -- it is no part any more
    elseif not body then
      if i == 1 and are_ready then
        open_entry(waiting[i])
      elseif i == 1 then
        leave_part(page, part)
      end
      break
    elseif count == limit or is_spent() then
      break
    else
      local rest
      if count + part.count > limit then
        part, rest = divide(page, part, limit - count)
        body = cut(part, body_of_part(page, part))
      end
      local beyond = part.count - (rest and 0 or 1)
      looked = i
      if not are_ready then
        paged, part.times = paged - beyond, sub(part.times, 1, 8) .. moved_now
      else
        surplus = surplus + beyond
        if rest then
          looked = i - 1
          call("LSET", READY, i - 1, entry_of_part(page, rest))
        end
      end
      lease_part(page, part, body)
    end
  end
  write()
  return looked
end

-- Leases events that are alone: the ready ones of some entries, or scheduled ones with their due
-- times. Returns how many it has looked at, and the waiting of those that leave and of those that only
-- a newer duly can read.
local function take_alone(waiting, ids, dues)
  local states, looked, bodies, before, read = call("HMGET", STATE, unpack(ids)), 0, {}, 0, 0
  local gone, newer_ones = {}, {}
  for i, id in ipairs(ids) do
    if i > read then
      if is_spent() then
        break
      end
      before = read
      bodies, read = read_bodies(ids, i)
    end
    looked, gone[#gone + 1] = i, waiting[i]
    local state, body = states[i], bodies[i - before]
    if not dues and not is_placed(state, sub(waiting[i], 17)) then
      passed_over, surplus = passed_over + 1, surplus - 1 -- a stale entry
    elseif not body then
      call("HDEL", STATE, id) -- part of it was deleted by hand
    elseif is_newer(body) then
      newer_ones[#newer_ones + 1], gone[#gone] = waiting[i], nil
    else
      if dues then
        state = due_state(state, u64(tonumber(dues[i])) .. moved_now, sub(body, 5, 12))
      end
      if deadline or has_extras(body) or not has_fingerprint(state) then
        take(id, read_state(state), body)
      else -- nearly all
        give(id, lease_state(state, plain), body)
      end
    end
  end
  write()
  newer = newer + #newer_ones
  return looked, gone, newer_ones
end

local per_entry = math.max((unseen - surplus) / math.max(unseen, 1), 1)
while count < limit and unseen > 0 and may_look() do
  local want = math.min(math.ceil((limit - count) / per_entry), aside, unseen)
  local entries = call("LRANGE", READY, 0, want - 1)
  if #entries == 0 then
    break
  end
  local heads, firsts, are_parts = head_of(entries, 1, ENTRY_OF_PART, limit - count)
  local taken
  if are_parts then
    taken = take_parts(heads, firsts, true)
  else
    local _, newer_ones
    taken, _, newer_ones = take_alone(heads, firsts)
    if #newer_ones > 0 then -- to the end of the list, for a version that can read them
      call("RPUSH", READY, unpack(newer_ones))
    end
  end
  unseen = unseen - taken
  call("LTRIM", READY, taken, -1)
end

local until_ms = math.floor((now + ARGV[8]) / 1000)
limit = math.min(count + ARGV[9], BATCH_MAX)
local skipped = 0 -- events left to a newer duly stay in front
while count < limit and may_look() do
  local want = math.min(limit - count, aside)
  local due = call("ZRANGE", DELAY, "-inf", until_ms, "BYSCORE", "LIMIT", skipped, want,
    "WITHSCORES")
  if #due == 0 then
    break
  end
  local heads, firsts, are_parts = head_of(due, 2, MEMBER_OF_PART, limit - count)
  local looked, gone
  if are_parts then
    looked = take_parts(heads, firsts, false)
  else
    local dues, newer_ones = {}, nil
    for i = 1, #heads do
      dues[i] = due[2 * i]
    end
    looked, gone, newer_ones = take_alone(heads, firsts, dues)
    skipped = skipped + #newer_ones
  end
  if (are_parts or #gone == looked) and looked > 0 then
    call("ZREMRANGEBYRANK", DELAY, skipped, skipped + looked - 1)
  elseif gone and #gone > 0 then
    call("ZREM", DELAY, unpack(gone))
  end
  if #due < 2 * want and 2 * looked == #due then
    break -- nothing more is due
  end
end
answer[5] = may_look() and 0 or 1

if count > 0 then
  leased = leased + count
  local starts = tonumber(ARGV[11])
  if starts > 0 then
    announce(node, request, starts)
  end
  if deadline then
    node.timed = node.timed + count
  else
    node.kept = node.kept + count
    node.beat = node.beat + 1
  end
end
return done()
