-- Script: looks at a part of one structure for damage, or at a whole bucket, and repairs it on request.
-- What it finds is so at this instant, since it looks and repairs in one step.
--
-- ARGV[4]  the calling process, which is not notified
-- ARGV[5]  of the library `take_back`: the most leases to take back
-- ARGV[6]  structure, as one of `parts` below
-- ARGV[7]  cursor, 0 at first
-- ARGV[8]  about how many entries to look at; of "counts" and "whole" the limit beyond which they look at
--          nothing
-- ARGV[9]  1 to repair
-- ARGV[10] how long, us, a node with leases may have been silent, or "" for any time
-- ARGV[11..] for "again": entries of the ready list that were not found there
--
-- Returns {now, next cursor, 0 after the last, entries looked at, three for each damage: kind, id or
-- "", words; entries that the ready list must have}.
local FOUND_MAX = 10000 -- the most damage that one call reports; it repairs all
local ENTRY_MAX = 1000 -- the most records of an entry of the outbox
local STEP = 1000 -- how many entries of a structure are read at once
local cursor, most, repairs, found, listed, looked
local check = {} -- what looks at an entry of each structure
local holds_of -- batch -> the ids that its request and its node know of

-- Reports damage. Returns whether it is to be repaired.
local function tell(kind, id, words)
  if #found < 3 * FOUND_MAX then
    found[#found + 1], found[#found + 2], found[#found + 3] = kind, id, words
  end
  return repairs
end

-- Makes an event that is alone and has a body ready now.
local function restore(id, body)
  call("RPUSH", READY, id .. number)
  call("HSET", STATE, id, new_ready(u64(now_ms) .. u64(now), sub(body, 5, 12)))
end

-- Ends an event whose body is gone. The record comes first, as with every end.
local function drop_lost(id, it, due)
  note(id, "\11", "\0", 0, due, ZERO, ZERO .. ZERO, ZERO, nil, "its body was gone", more_of(nil, "duly doctor"))
  write_records()
  finish_noted(id, "c", it, due, nil)
  call("ZREM", DELAY, id)
  call("ZREM", DEAD, id)
  call("ZREM", LEASE, id)
end

-- Ends the lease of an event, whatever its request and its node know.
local function end_its_lease(it)
  if node_of(sub(it.token, 1, 8)) then
    end_lease(it.token, it.timed)
  else
    end_batch(it.token, 1)
  end
end

function check.body_of(id, own)
  if call("HEXISTS", BODY, id) == 1 then
    return true
  end
  if tell("no_body", id, "has no body") then
    if own.kind == "L" then
      end_its_lease(own)
    elseif own.kind == "R" then
      surplus = surplus + 1 -- its entry in the list is skipped later
    end
    drop_lost(id, own, own.due)
  end
end

-- Returns whether the lease of an event is known to its request and its node.
local function is_held(id, own)
  local batch = own.token
  if not holds_of[batch] then
    local held, known = call("HGET", HELD, batch), {}
    for _, it in ipairs(held and node_of(sub(batch, 1, 8)) and ids_of_batch(held) or {}) do
      known[it] = true
    end
    holds_of[batch] = known
  end
  return holds_of[batch][id]
end

function check.lease(id, own)
  local deadline = call("ZSCORE", LEASE, id)
  if own.timed and not deadline then
    if tell("misplaced", id, "is leased with a deadline that is not in its set") then
      call("ZADD", LEASE, now_ms, id)
    end
    deadline = true
  end
  if not is_held(id, own) and tell("lost_lease", id, "is leased by a request that knows nothing of it") then
    take_back(id, own, false)
    end_its_lease(own)
    if deadline then
      deadlines[#deadlines + 1] = id
    end
  end
end

function check.own(id, own)
  local kind = own.kind
  if kind == "d" or kind == "c" or kind == "e" then
    if call("HEXISTS", BODY, id) == 1 and tell("leftover", id, "has ended and has a body") then
      call("HDEL", BODY, id)
    end
  elseif check.body_of(id, own) then
    if kind == "S" and not call("ZSCORE", DELAY, id) then
      if tell("misplaced", id, "is scheduled and not in the delay set") then
        call("ZADD", DELAY, number_at(own.due, 1), id)
      end
    elseif kind == "D" and not call("ZSCORE", DEAD, id) then
      if tell("misplaced", id, "is dead and not in the dead set") then
        call("ZADD", DEAD, 0, id)
      end
    elseif kind == "R" then
      listed[#listed + 1] = id .. own.entry
    elseif kind == "L" then
      check.lease(id, own)
    end
  end
end

-- Returns what is wrong with the parts of a page beside what they lead to; nothing if they are sound.
local function fault_between(page)
  local free = 0
  for _, part in ipairs(page.parts) do
    local low, high = bits(part.first, part.count)
    local are_all = bit.band(page.low, low) == low and bit.band(page.high, high) == high
    local are_over = bit.band(part.low, low) == low and bit.band(part.high, high) == high
    if part.first < free or part.count == 0 then
      return "is in a page whose parts overlap"
    elseif (part.kind == "S" or part.kind == "R") and not are_all then
      return "waits in a part that misses events"
    elseif part.kind == "L" and are_over then
      return "is in a leased part of which all events are over"
    end
    free = part.first + part.count
  end
end

-- A place in no part is that of an event that is alone.
function check.places(page)
  local ids = {}
  for place = 0, 63 do
    if has_bit(page.low, page.high, place) and not part_at(page, place) then
      ids[#ids + 1] = page.name .. char(PLACE + place)
    end
  end
  for i, state in ipairs(#ids > 0 and call("HMGET", STATE, unpack(ids)) or {}) do
    local is_nowhere = not state and call("HEXISTS", BODY, ids[i]) == 0 and not call("ZSCORE", DELAY, ids[i])
    if is_nowhere and tell("leftover", ids[i], "has a place in a page and is nowhere") then
      local low, high = bits(byte(ids[i], 16) - PLACE, 1)
      page.low, page.high = bit.band(page.low, bit.bnot(low)), bit.band(page.high, bit.bnot(high))
      change(page)
    end
  end
  if page.low == 0 and page.high == 0 and #page.parts == 0 and tell("leftover", "", "is a page without events") then
    call("HDEL", STATE, page.name)
    pages[page.name], changed_pages[page.name] = false, nil
  end
end

-- Returns what is wrong with a part; nothing if it is sound.
local function fault_of(page, part)
  if part.kind == "E" then
    return nil
  elseif not cut(part, body_of_part(page, part) or nil) then
    return "no_body", "has no body in its page"
  elseif part.kind == "S" and not call("ZSCORE", DELAY, member_of(page, part)) then
    return "misplaced", "is scheduled and not in the delay set"
  elseif part.kind == "L" then
    for place = part.first, part.first + part.count - 1 do
      local id, own = page.name .. char(PLACE + place), own_state(part, place)
      if part_at(page, place) and own.kind == "L" and not is_held(id, own) then
        return "lost_lease", "is leased by a request that knows nothing of it"
      end
    end
  end
end

-- All events leave a page with damage, and are then looked at one by one.
function check.page(page)
  local fault = fault_between(page)
  local is_damaged = fault ~= nil
  if is_damaged then
    tell("misplaced", page.name .. char(PLACE + page.parts[1].first), fault)
  end
  for _, part in ipairs(page.parts) do
    looked = looked + part.count
    local kind, words = fault_of(page, part)
    if kind then
      is_damaged = true
      for place = part.first, part.first + part.count - 1 do
        local own = part_at(page, place) and own_state(part, place)
        if own and own.kind ~= "d" and (kind ~= "no_body" or not body_in_page(page, part, place)) then
          tell(kind, page.name .. char(PLACE + place), words)
        end
      end
    elseif part.kind == "R" then
      listed[#listed + 1] = entry_of_part(page, part)
    end
  end
  if not is_damaged or not repairs then
    return check.places(page)
  end
  for _, part in ipairs(page.parts) do
    leave_part(page, part)
  end
  local silent = found
  found = {}
  for place = 0, 63 do
    if has_bit(page.low, page.high, place) then
      local id = page.name .. char(PLACE + place)
      local own = state_of(id)
      if own then
        check.own(id, own)
      elseif call("ZSCORE", DELAY, id) and call("HEXISTS", BODY, id) == 0 then
        drop_lost(id, nil, u64(call("ZSCORE", DELAY, id)))
      end
    end
  end
  found = silent
end

function check.state(id, state)
  if #id == NAME then
    check.page(page_of(id))
  elseif not place_of(id) then
    check.own(id, read_state(state))
  elseif tell("leftover", id, "has a state of its own and is in a page") then
    call("HDEL", STATE, id)
  end
end

-- A body whose page is gone, or has no such part: its events are ready again, alone, unless they have
-- been put elsewhere.
function check.body_of_parts(field, body)
  local page, from = page_of(sub(field, 1, NAME)), byte(field, 16) - PLACE
  local covered = {} -- places that some part has
  if page and needs_body(page, from) then
    return
  end
  for _, part in ipairs(page and page.parts or {}) do
    for place = part.first, part.first + part.count - 1 do
      covered[place] = true
    end
  end
  for place, begins, ends in each_in(body, from, from, 64 - from) do
    local id = sub(field, 1, NAME) .. char(PLACE + place)
    if ends <= #body and not covered[place] and call("HEXISTS", STATE, id) == 0
      and call("HEXISTS", BODY, id) == 0 and tell("no_place", id, "is in a page that is gone") then
      local its = sub(body, begins, ends)
      call("HSET", BODY, id, its)
      restore(id, its)
      note_alone(id)
    end
  end
  if tell("leftover", "", "the body of a part that is gone") then
    call("HDEL", BODY, field)
  end
  keep_pages()
end

function check.body(id, body)
  if #id == FIELD_OF_PART then
    return check.body_of_parts(id, body)
  end
  local it, is_inside = find(id)
  if is_inside then
    if tell("leftover", id, "has a body of its own and is in a page") then
      call("HDEL", BODY, id)
    end
  elseif not it and not call("ZSCORE", DELAY, id) then
    if tell("no_place", id, "has a body and is nowhere") then
      restore(id, body)
    end
  end
  local key, unique = keys_of(body)
  if key and (not it or it.kind < "a") and not call("ZSCORE", BY_KEY, key_entry(key, id))
    and tell("misplaced", id, "has a key and is not found by it") then
    call("ZADD", BY_KEY, 0, key_entry(key, id))
  end
  if #body > longest and tell("counts", id, "has a body longer than the longest") then
    lengthen(#body)
  end
  local says = (key or unique or tells(body)) and true or false
  if it and it.kind == "L" and not is_newer(body) and it.extras ~= says
    and tell("counts", id, "is leased without the flag for its extras") then
    it.extras = says
    call("HSET", STATE, id, write_state(it))
  end
end

function check.delayed(id, due)
  if #id == MEMBER_OF_PART then
    local page, part = place_of(sub(id, 1, 16))
    local is_own = page and part.kind == "S" and member_of(page, part) == id
    if not is_own and tell("stray", "", "a member of the delay set is no part") then
      call("ZREM", DELAY, id)
      paged = paged - byte(id, 17) + 1
    end
    return
  end
  local it, is_inside = find(id)
  if it then
    if (is_inside or it.kind ~= "S") and tell("stray", id, "is in the delay set and not scheduled alone") then
      call("ZREM", DELAY, id)
    end
  elseif call("HEXISTS", BODY, id) == 0 and tell("no_body", id, "is in the delay set and has no body") then
    drop_lost(id, nil, u64(tonumber(due)))
  end
end

function check.unique(unique, holder)
  local id = sub(holder, 1, 16)
  if #holder > 16 then
    local until_ms = call("ZSCORE", HOLDS, unique)
    if not (until_ms and tonumber(until_ms) == number_at(holder, 17))
      and tell("misplaced", id, "is done, and its unique key is reserved until another time") then
      call("ZADD", HOLDS, number_at(holder, 17), unique)
    end
    return
  end
  local body = call("HGET", BODY, id)
  local _, its = keys_of(body)
  local is_own = its == unique or (body and is_newer(body))
  if (not is_own or call("ZSCORE", DEAD, id)) and tell("stray", id, "holds a unique key that is not its own") then
    call("HDEL", UNIQUE, unique)
  end
end

function check.key(entry_of)
  local id = sub(entry_of, -16)
  local body = call("HGET", BODY, id)
  local key = keys_of(body)
  if not (body and is_newer(body)) and not (key and key_entry(key, id) == entry_of)
    and tell("stray", id, "is indexed under a key that it does not have") then
    call("ZREM", BY_KEY, entry_of)
  end
end

function check.batch(field, value)
  if #field ~= 16 then
    if call("HEXISTS", HELD, sub(field, 2)) == 0 and tell("stray", "", "a request is counted that holds nothing") then
      call("HDEL", HELD, field)
    end
    return
  end
  local ids, count = ids_of_batch(value), 0
  local states = find_all(ids)
  for i = 1, #ids do
    local own = states[i]
    count = count + (own and own.kind == "L" and own.token == field and 1 or 0)
  end
  looked = looked + #ids
  if count == 0 then
    if tell("stray", "", "a request holds nothing any more") then
      call("HDEL", HELD, field, "#" .. field)
    end
  elseif count ~= tonumber(call("HGET", HELD, "#" .. field) or 0)
    and tell("counts", "", "the leases of a request are counted wrongly") then
    call("HSET", HELD, "#" .. field, count)
  end
end

-- Entries that were not in the list although their events were ready before and after.
function check.again(entry_of)
  if #entry_of == ENTRY_OF_PART then
    local page, part = part_of(entry_of)
    if page and entry_of_part(page, part) == entry_of
      and tell("misplaced", "", "a part is ready and not in the ready list") then
      call("RPUSH", READY, entry_of)
    end
    return
  end
  local id = sub(entry_of, 1, 16)
  local it = state_of(id)
  if it and it.kind == "R" and it.entry == sub(entry_of, 17)
    and tell("misplaced", id, "is ready and not in the ready list") then
    call("RPUSH", READY, id .. number)
    it.entry = number
    call("HSET", STATE, id, write_state(it))
  end
end

-- Compares the events that have ended, ids as keys, with the tombstones: each has one.
function check.tombstones(over)
  local known, missing = {}, {}
  for i, batch in ipairs(call("LRANGE", PAST, 0, -1)) do
    local kept, is_sound = {}, true
    for _, id in ipairs(ids_of_batch(sub(batch, 9))) do
      if over[id] and not known[id] then
        known[id], kept[#kept + 1] = true, id .. "\0"
      else
        is_sound = false
        tell("stray", id, known[id] and "has two tombstones" or "has a tombstone and has not ended")
      end
    end
    if not is_sound and repairs then
      call("LSET", PAST, i - 1, sub(batch, 1, 8) .. table.concat(kept))
    end
  end
  for id in pairs(over) do
    if not known[id] and tell("misplaced", id, "has ended and has no tombstone") then
      missing[#missing + 1] = id .. "\0"
    end
  end
  if #missing > 0 then
    call("RPUSH", PAST, finished .. table.concat(missing))
  end
end

-- The next record has a number beyond those of the outbox and of the journal.
function check.records()
  local last = call("XREVRANGE", OUTBOX, "+", "-", "COUNT", 1)[1]
  local trimmed = tonumber(call("HGET", META, "trimmed") or 0)
  last = last and tonumber(last[1]:match("^%d+")) or 0
  if record <= math.max(last, trimmed) and tell("counts", "", "the next record has the number " .. record
    .. " and there are records beyond") then
    record = math.max(last + ENTRY_MAX, trimmed + 1)
    call("HSET", META, "record", record)
  end
end

-- Counts everything in a bucket that is small enough for one call.
function check.counts()
  looked = call("HLEN", STATE) + call("LLEN", READY) + paged + leased + math.max(-surplus, 0)
  if looked > most then
    return
  end
  local live, held, kept, timed, beyond, over = 0, 0, {}, {}, 0, past <= most and {} or nil
  local function count(kind, node, is_timed, events)
    if kind == "L" then
      local of = is_timed and timed or kept
      held, of[node] = held + events, (of[node] or 0) + events
    elseif kind == "R" then
      live = live + events
    end
  end
  local flat = call("HGETALL", STATE)
  for i = 1, #flat, 2 do
    local field, state = flat[i], flat[i + 1]
    if #field == NAME then
      local page = page_of(field)
      for _, part in ipairs(page.parts) do
        local left = 0
        for place = part.first, part.first + part.count - 1 do
          local is_over = part.kind == "E" or (part.kind == "L" and has_bit(part.low, part.high, place))
          if part_at(page, place) and is_over and over then
            over[page.name .. char(PLACE + place)] = true
          end
          left = left + (part_at(page, place) and not is_over and 1 or 0)
        end
        count(part.kind, sub(part.tail, 1, 8), false, left)
        beyond = beyond + (part.kind == "S" and part.count - 1 or 0)
      end
    else
      local it = read_state(state)
      count(it.kind, it.token and sub(it.token, 1, 8), it.timed, 1)
      if over and has_ended(state) then
        over[field] = true
      end
    end
  end
  local function counted(what, is, should)
    return is ~= should and tell("counts", "", what .. ": " .. is .. " instead of " .. should)
  end
  if counted("scheduled events in parts", paged, beyond) then
    paged = beyond
  end
  if counted("leased events", leased, held) then
    leased = held
  end
  if over then
    check.tombstones(over)
  end
  local ended = 0
  for _, batch in ipairs(call("LRANGE", PAST, 0, -1)) do
    ended = ended + #ids_of_batch(sub(batch, 9))
  end
  if counted("tombstones", past, ended) then
    past = ended
  end
  local len = call("LLEN", READY)
  if len > 0 and counted("surplus entries of the ready list", surplus, len - live) then
    surplus = len - live
  end
  for _, node in ipairs(all_nodes()) do
    local own, own_timed = kept[node.id] or 0, timed[node.id] or 0
    if counted("leases of a node", node.kept, own) or counted("timed leases of a node", node.timed, own_timed) then
      node.kept, node.timed = own, own_timed
      keep_node(node.id, node)
    end
    if node.reaping and own == 0 and tell("counts", "", "a node is reaped that has no leases") then
      node.reaping = false
      keep_node(node.id, node)
    end
  end
  check.records()
end

-- Looks at a page of the fields or members of a structure.
local function scan(page, look)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    looked = looked + 1
    look(page[2][i], page[2][i + 1])
  end
end

local STRUCTURES = { "state", "body", "delay", "dead", "lease", "unique", "holds", "by_key", "held", "nodes" }
local parts = {
  state = function() scan(call("HSCAN", STATE, cursor, "COUNT", most), check.state) end,
  body = function()
    most = math.max(1, math.min(most, math.floor(BUDGET / 4 / math.max(longest, 1))))
    scan(call("HSCAN", BODY, cursor, "COUNT", most), check.body)
  end,
  delay = function() scan(call("ZSCAN", DELAY, cursor, "COUNT", most), check.delayed) end,
  dead = function()
    scan(call("ZSCAN", DEAD, cursor, "COUNT", most), function(id)
      local it = state_of(id)
      if not (it and it.kind == "D") and tell("stray", id, "is in the dead set and not dead") then
        call("ZREM", DEAD, id)
      end
    end)
  end,
  lease = function()
    scan(call("ZSCAN", LEASE, cursor, "COUNT", most), function(id)
      local it = state_of(id)
      if not (it and it.timed) and tell("stray", id, "has a deadline and no such lease") then
        call("ZREM", LEASE, id)
      end
    end)
  end,
  unique = function() scan(call("HSCAN", UNIQUE, cursor, "COUNT", most), check.unique) end,
  holds = function()
    scan(call("ZSCAN", HOLDS, cursor, "COUNT", most), function(unique)
      if #(call("HGET", UNIQUE, unique) or "") <= 16 and tell("stray", "", "a unique key is reserved by nothing") then
        call("ZREM", HOLDS, unique)
      end
    end)
  end,
  by_key = function() scan(call("ZSCAN", BY_KEY, cursor, "COUNT", most), check.key) end,
  held = function()
    most = math.max(1, math.floor(most / 10))
    scan(call("HSCAN", HELD, cursor, "COUNT", most), check.batch)
  end,
  nodes = function()
    for _, node in ipairs(all_nodes()) do
      looked = looked + 1
      if ARGV[10] ~= "" and node.kept > 0 and now - node.seen > tonumber(ARGV[10])
        and tell("silent_node", "", "a node holds " .. node.kept .. " leases and has been silent for "
          .. math.floor((now - node.seen) / 1000000) .. " s") then
        node.reaping, node.lost = true, true
        keep_node(node.id, node)
      end
    end
    cursor = "0"
  end,
  -- From the tail on: what is pushed meanwhile is looked at twice, and nothing is passed over.
  ready = function()
    local from = tonumber(cursor)
    listed = call("LRANGE", READY, -from - most, -from - 1)
    looked = #listed
    cursor = #listed < most and "0" or tostring(from + most)
  end,
  again = function()
    for i = 11, #ARGV do
      check.again(ARGV[i])
    end
    looked, cursor = #ARGV - 10, "0"
  end,
  counts = function()
    check.counts()
    cursor = "0"
  end,
}

-- Everything at one instant, and changes nothing.
function parts.whole()
  local all = most
  local entries = call("HLEN", STATE) + call("HLEN", UNIQUE) + call("LLEN", READY)
    + math.floor(call("HLEN", BODY) * (1 + longest / 1024))
  cursor = "0"
  if entries > all then
    tell("counts", "", "it has " .. entries .. " entries, the limit is " .. all .. ": it was not checked; "
      .. "`audit_whole` does, and blocks the server meanwhile")
    return
  end
  for _, structure in ipairs(STRUCTURES) do
    repeat
      most = STEP
      parts[structure]()
    until cursor == "0"
  end
  local is_there = {}
  for _, entry_of in ipairs(call("LRANGE", READY, 0, -1)) do
    local ids, number_of = ids_at(entry_of)
    is_there[entry_of] = true
    for _, id in ipairs(ids) do
      is_there[id .. number_of] = true
    end
  end
  for _, entry_of in ipairs(listed) do
    if not is_there[entry_of] then
      check.again(entry_of)
    end
  end
  for _, node in ipairs(all_nodes()) do
    if node.last <= node.to and node.kept > node.says then
      tell("counts", "", "a node holds " .. node.kept .. " leases and reported " .. node.says)
    end
  end
  most = all
  parts.counts()
  listed = {}
end

-- Each call:
cursor, most, repairs = ARGV[7], tonumber(ARGV[8]), ARGV[9] == "1"
found, listed, looked, holds_of = {}, {}, 0, {}
look_first()
check_keys()
parts[ARGV[6]]()
if repairs then
  keep_pages()
  write_taken()
  wake(ARGV[4])
  keep_counts(true)
end
return { now, tostring(cursor), looked, found, listed }
