-- Script: leases events to a node: ready ones in order, then scheduled ones that are due soon.
--
-- ARGV[4]  node
-- ARGV[5]  request, a number, and ARGV[6] encoded: a request that is not greater than the last one
--          leases nothing and returns what is still held under its number
-- ARGV[7]  limit of ready events
-- ARGV[8]  how long before its due time an event may be leased, us, and ARGV[9] limit of those
-- ARGV[10] lease duration, us, or "" for as long as the node's heartbeat lasts
-- ARGV[11] on how many of the leases, from the first one, handlers may start
-- ARGV[12] how many scheduled events are a crowd
-- Returns {now, ready events left, next due time or false, due time of the last of a crowd or
-- false, 1 if it stopped before it had examined
-- all candidates, how many leases the node has that last as long as its heartbeat, its last request
-- before this one, how many events it left to a newer duly, the places of the deliveries in their
-- batch, two bytes each, or "" where they are 0 and so on, then three for each delivery: id; its
-- state, of which the bytes 3 to 20 are those of its lease; body; or three for each page: page; its
-- state; body; and at the end a 1 if records were written}. A node that was reaped is refused.
local BATCH_MAX = 1000
local PASSED_MAX = 4000 -- limit of stale entries in one call
local PAGES_PER_READ = 32
local REST = 1000 -- ms until it checks again for nodes that can read a newer format
local me, request, token = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local node = node_of(me) or new_node()
node.seen = now
local answer, len, recorded = { now, 0, false, false, 0, 0, node.last, 0, "" }, 9, false
local count, newer = 0, 0

local function done()
  keep_node(me, node)
  answer[2], answer[3], answer[6] = ready_len(), next_due() or false, node.kept
  local last = call("ZRANGE", DELAY, ARGV[12] - 1, ARGV[12] - 1, "WITHSCORES")[2]
  answer[4], answer[8] = last and tonumber(last) or false, newer
  if newer > 0 then -- the rest may be unreadable too, and it would fetch without end
    answer[4], answer[5] = false, count > 0 and answer[5] or 0
    answer[2] = count > 0 and math.max(answer[2] - newer, 0) or 0
    answer[3] = math.min(answer[3] or math.huge, now_ms + REST)
  end
  if recorded then
    answer[len + 1] = 1
  end
  leave()
  return answer
end

if node.reaping or node.lost then
  node.lost = false
  node.refused, node.last = math.max(node.refused, request), math.max(node.last, request)
end
if request <= node.refused then
  keep_node(me, node)
  leave()
  return redis.error_reply("DULY LEASELOST the node was reaped as dead and its events were given "
    .. "to others; drop them and fetch again")
end

if request <= node.last then
  local batch = call("HGET", HELD, me .. token)
  local ids = {}
  for at = 1, #(batch or ""), 16 do
    ids[#ids + 1] = sub(batch, at, at + 15)
  end
  local states, places = #ids > 0 and call("HMGET", STATE, unpack(ids)) or {}, {}
  for i, id in ipairs(ids) do
    local state = own_state(states[i])
    if state and byte(state) == 76 and sub(state, 46, 61) == me .. token then
      answer[len + 1], answer[len + 2] = id, state
      answer[len + 3] = is_in_page(states[i]) and body_in_page(states[i]) or call("HGET", BODY, id)
      len = len + 3
      places[#places + 1] = u16(i - 1)
    end
  end
  answer[9] = table.concat(places)
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
local expired, late_ones = {}, {}

local function put(field, state)
  changes[changes_len + 1], changes[changes_len + 2] = field, state
  changes_len = changes_len + 2
end

local function give(id, state, body)
  count = count + 1
  held[count] = id
  put(id, state)
  if deadline then
    deadlines[2 * count - 1], deadlines[2 * count] = deadline, id
  end
  answer[len + 1], answer[len + 2], answer[len + 3] = id, state, body
  len = len + 3
end

-- Leases an event whose body has extras, or sets it aside if it has expired or exhausted its
-- attempts. `state` is its state once leased, up to the node.
local function give_or_end(id, state, body)
  local attempts, expires, late, late_us, key, unique = extras_of(body)
  local due = number_at(state, 5)
  local passed = late and math.max(now - due * 1000, 0) > late_us
  if (expires and expires * 1000 <= now) or (passed and late == "expire") then
    note_end(id, "\7", sub(state, 5, 12), sub(state, 13, 20), body)
    expired[#expired + 1] = { id, state, body }
    aside = aside - 1
  elseif passed then
    note(id, "\4", "\7", 0, sub(state, 5, 12), sub(state, 13, 20), ZERO .. ZERO, ZERO, key, nil,
      more_of(body))
    late_ones[#late_ones + 1] = { id, state, unique }
    aside = aside - 1
  else
    local says = key or unique or tells(body)
    local flags = byte(state, 2) + (deadline and 2 or 0) + (says and 4 or 0)
    give(id, "L" .. char(flags) .. sub(state, 3, 45) .. lease .. u16(attempts), body)
  end
end

-- `rest` is a state from its flags to its settlement.
local function take(id, rest, body)
  if has_extras(body) then
    give_or_end(id, "L" .. rest, body)
  elseif deadline then
    give(id, "L" .. char(byte(rest) + 2) .. sub(rest, 2) .. plain, body)
  else
    give(id, "L" .. rest .. plain, body)
  end
end

-- Ends the events set aside. The records come first, and an event is inserted at its destination
-- before its state says so: an event left half done is still waiting.
local function set_aside()
  if #records == 0 then
    return
  end
  check_keys()
  recorded = true
  write_records()
  for _, it in ipairs(expired) do
    local id, state, body = it[1], it[2], it[3]
    finish_noted(id, "e", state, sub(state, 5, 12), body)
  end
  for _, it in ipairs(late_ones) do
    local id, state, unique = it[1], it[2], it[3]
    call("ZADD", DEAD, 0, id)
    call("HSET", STATE, id, "D" .. sub(state, 2, 12) .. u64(now) .. sub(state, 21, 45))
    free_unique(id, unique)
  end
  expired, late_ones = {}, {}
end

-- A lease is in its batch before it takes effect, and takes effect before its event leaves the list
-- or set in which it waits: an event left half done is in two places and never in none.
local written = 0
local function write()
  set_aside()
  if count > written then
    call("HSET", HELD, me .. token, table.concat(held), "#" .. me .. token, count)
    call("HSET", STATE, unpack(changes, 1, changes_len))
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

-- Adds the first events of a page to the batch. Returns where the next one begins.
local function hold(body, at, most)
  for i = 1, most do
    if at + 19 > #body then -- it is damaged
      most = i - 1
      break
    end
    held[count + i] = sub(body, at, at + 15)
    at = at + 20 + unpack_from(">I4", body, at + 16)
  end
  count, spent = count + most, spent + #body
  return at
end

local function give_page(page, of, body)
  answer[len + 1], answer[len + 2], answer[len + 3] = page, of, body
  len = len + 3
end

-- Leases a page.
local function lease_page(page, of, body, total)
  local from = page_from(of)
  hold(body, from, total)
  put(page, "L" .. sub(of, 2, 25) .. lease .. ZERO)
  give_page(page, of, from == 1 and body or sub(body, from))
  surplus = surplus + total - 1
end

-- Leases the first events of a page, as a page of their own.
local function lease_first(page, of, body, total, most)
  entry = entry + 1
  local part, at, from = u64(entry + 1), page_from(of), page_from(of)
  local first = count
  local rest_from = hold(body, from, most)
  for i = first + 1, count do
    local place = pack(">I4B", at - from + 1, i - first - 1)
    put(held[i], "P" .. part .. place .. sub(body, at + 24, at + 31))
    at = at + 20 + unpack_from(">I4", body, at + 16)
  end
  local its = sub(body, from, rest_from - 1)
  call("HSET", BODY, part, its)
  put(part, "L" .. u16(most) .. u16(most) .. "\0\0\0\1" .. sub(of, 10, 25) .. lease .. ZERO)
  local rest = u16(total - most)
  put(page, "R" .. rest .. rest .. pack(">I4", rest_from) .. sub(of, 10, 25))
  give_page(part, of, its)
  surplus = surplus + most
end

-- Takes the first events out of the page at the head of the list, each with an entry of its own in
-- its place: where some have left it, or are leased with a deadline.
local function open_page(page, of, most)
  local opened, rest_from = {}, nil
  for _, id, state, at in events_of(page, of) do
    if #opened == most then
      rest_from = at
      break
    elseif is_placed(state, page) then
      take_out(id, state)
      table.insert(opened, 1, id .. page)
    end
  end
  if #opened > 0 then
    call("LPUSH", READY, unpack(opened))
  end
  surplus, unseen = surplus + #opened, unseen + #opened
  if rest_from then
    local rest = 0
    of = sub(state_of_page(page), 1, 5) .. pack(">I4", rest_from) .. sub(of, 10)
    for _ in events_of(page, of) do
      rest = rest + 1
    end
    call("HSET", STATE, page, "R" .. u16(rest) .. sub(of, 4))
  else
    call("LREM", READY, 1, page)
    call("HDEL", BODY, page)
    call("HDEL", STATE, page)
    surplus, unseen = surplus - 1, unseen - 1
  end
end

-- Takes the pages at the head of the list. Returns how many entries of the list have been taken.
local function take_pages(entries)
  local pages, looked = {}, 0
  for i, page in ipairs(entries) do
    if #page ~= 8 or i > PAGES_PER_READ then
      break
    end
    pages[i] = page
  end
  local states, bodies = call("HMGET", STATE, unpack(pages)), call("HMGET", BODY, unpack(pages))
  for i, page in ipairs(pages) do
    local of, body = states[i], bodies[i]
    local is_there = of and body and byte(of) == 82
    local total, left = 0, 0
    if is_there then
      total, left = page_counts(of)
    end
    if not is_there then -- leased by a call that failed midway, or deleted by hand
      passed_over, surplus = passed_over + 1, surplus - 1
    elseif deadline or left < total then
      if i == 1 then
        page_states[page], page_bodies[page] = of, body
        open_page(page, of, limit - count)
      end
      break
    elseif total > limit - count then
      if count < limit then
        lease_first(page, of, body, total, limit - count)
      end
      break
    else
      lease_page(page, of, body, total)
    end
    looked = i
    if is_spent() then
      break
    end
  end
  write()
  return looked
end

-- Takes the events at the head of the list that are alone. Returns how many entries of the list
-- have been taken.
local function take_alone(entries)
  local ids = {}
  for i, entry_of in ipairs(entries) do
    if #entry_of == 8 then
      break
    end
    ids[i] = sub(entry_of, 1, 16)
  end
  local states, looked, bodies, before, read = call("HMGET", STATE, unpack(ids)), 0, {}, 0, 0
  local passed_before, left = passed_over, {}
  for i, id in ipairs(ids) do
    if i > read then
      if is_spent() then
        break
      end
      before = read
      bodies, read = read_bodies(ids, i)
    end
    looked = i
    local state, body = states[i], bodies[i - before]
    if not (state and byte(state) == 82 and sub(state, 46) == sub(entries[i], 17)) then
      passed_over = passed_over + 1 -- a stale entry
    elseif not body then
      call("HDEL", STATE, id) -- part of it was deleted by hand
    elseif byte(body) >= 240 and is_newer(body) then
      left[#left + 1] = entries[i]
    elseif sub(state, 21, 28) == ZERO then -- it was moved without its body being read
      take(id, sub(state, 2, 20) .. sub(body, 5, 12) .. sub(state, 29, 45), body)
    elseif deadline or byte(body) % 16 >= 2 then
      take(id, sub(state, 2, 45), body)
    else -- nearly all: `take` and `give`, inlined
      count = count + 1
      held[count] = id
      changes[changes_len + 1], changes[changes_len + 2] = id, "L" .. sub(state, 2, 45) .. plain
      changes_len = changes_len + 2
      answer[len + 1], answer[len + 2], answer[len + 3] = id, state, body
      len = len + 3
    end
  end
  write()
  surplus = surplus - (passed_over - passed_before)
  if #left > 0 then -- to the end of the list, for a version that can read them
    newer = newer + #left
    call("RPUSH", READY, unpack(left))
  end
  return looked
end

local per_entry = math.max((unseen - surplus) / math.max(unseen, 1), 1)
while count < limit and unseen > 0 and may_look() do
  local want = math.min(math.ceil((limit - count) / per_entry), aside, unseen)
  local entries = call("LRANGE", READY, 0, want - 1)
  if #entries == 0 then
    break
  end
  local taken = #entries[1] == 8 and take_pages(entries) or take_alone(entries)
  unseen = unseen - taken
  call("LTRIM", READY, taken, -1)
end

local until_ms = math.floor((now + ARGV[8]) / 1000)
limit = math.min(count + ARGV[9], BATCH_MAX)
local last_score, last_due
local skipped = 0 -- events left to a newer duly stay in front
while count < limit and may_look() do
  local want = math.min(limit - count, aside)
  local due = call("ZRANGE", DELAY, "-inf", until_ms, "BYSCORE", "LIMIT", skipped, want,
    "WITHSCORES")
  local found = #due / 2
  if found == 0 then
    break
  end
  local ids = {}
  for i = 1, found do
    ids[i] = due[2 * i - 1]
  end
  local states, looked, bodies, before, read = call("HMGET", STATE, unpack(ids)), 0, {}, 0, 0
  local taken = {}
  for i, id in ipairs(ids) do
    if i > read then
      if is_spent() then
        break
      end
      before = read
      bodies, read = read_bodies(ids, i)
    end
    looked = i
    taken[#taken + 1] = id
    local state, body, score = states[i], bodies[i - before], due[2 * i]
    if score ~= last_score then
      last_score, last_due = score, u64(tonumber(score))
    end
    if not body then
      call("HDEL", STATE, id) -- part of it was deleted by hand
    elseif is_newer(body) then
      taken[#taken] = nil
    elseif state then
      take(id, sub(state, 2, 4) .. last_due .. moved_now .. sub(body, 5, 12) .. sub(state, 29, 45),
        body)
    else
      take(id, FRESH .. last_due .. moved_now .. sub(body, 5, 12) .. sub(ZEROS, 1, 17), body)
    end
  end
  write()
  if #taken == looked then
    call("ZREMRANGEBYRANK", DELAY, skipped, skipped + looked - 1)
  else
    skipped, newer = skipped + looked - #taken, newer + looked - #taken
    if #taken > 0 then
      call("ZREM", DELAY, unpack(taken))
    end
  end
  if found < want and looked == found then
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
