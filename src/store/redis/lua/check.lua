-- Script: looks at a part of one structure for damage, or at a whole bucket, and repairs it on request.
-- What it finds is so at this instant, since it looks and repairs in one step.
local FOUND_MAX = 20000 -- the most damage that an audit reports; a step of a check has less
local ENTRY_MAX = 1000 -- the most records of an entry of the outbox
local STEP = 1000 -- how many entries of a structure are read at once
local cursor, most, repairs, found, listed, looked
local check = {} -- what looks at an entry of each structure
local holds_of -- batch -> the ids that its request and its node know of, in one text

-- Reports damage. Returns whether it is to be repaired.
local function tell(kind, id, words)
  if #found < 3 * FOUND_MAX then
    found[#found + 1], found[#found + 2], found[#found + 3] = kind, id, words
  end
  return repairs
end

-- Makes an event that is alone and has a body ready now.
function check.restore(id, body)
  call("ZADD", EXPIRY, "XX", now, id) -- it may expire sooner
  call("RPUSH", READY, id .. number)
  call("HSET", STATE, id, new_ready(u64(now_ms) .. u64(now), sub(body, 5, 12)))
end

-- Ends an event whose body is gone. The record comes first, as with every end.
function check.drop_lost(id, it, due)
  note(id, "\11", "\0", 0, due, ZERO, ZERO .. ZERO, ZERO, nil, "its body was gone", more_of(nil, "duly doctor"))
  write_records()
  finish_noted(id, "c", it, due, nil)
  call("ZREM", DELAY, id)
  call("ZREM", DEAD, id)
  call("ZREM", LEASE, id)
  call("ZREM", EXPIRY, id)
end

-- Ends the lease of an event, whatever its request and its node know.
function check.end_its_lease(it)
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
      check.end_its_lease(own)
    elseif own.kind == "R" then
      surplus = surplus + 1 -- its entry in the list is skipped later
    end
    check.drop_lost(id, own, own.due)
  end
end

-- Returns whether the lease of an event is known to its request and its node.
function check.is_held(id, own)
  local batch = own.token
  if not holds_of[batch] then
    holds_of[batch] = node_of(sub(batch, 1, 8)) and call("HGET", HELD, batch) or ""
  end
  local at = 1
  repeat -- once, but where other ids together look like it
    at = holds_of[batch]:find(id, at, true)
    if at and at % 16 == 1 then
      return true
    end
    at = at and at + 1
  until not at
  return false
end

function check.lease(id, own)
  local deadline = call("ZSCORE", LEASE, id)
  if own.timed and not deadline then
    if tell("misplaced", id, "is leased with a deadline that is not in its set") then
      call("ZADD", LEASE, now_ms, id)
    end
    deadline = true
  end
  if not check.is_held(id, own) and tell("lost_lease", id, "is leased by a request that knows nothing of it") then
    take_back(id, own, false)
    check.end_its_lease(own)
    if deadline then
      deadlines[#deadlines + 1] = id
    end
  end
end

function check.own(id, own)
  local kind = own.kind
  if kind == "d" or kind == "c" or kind == "e" or kind == "x" then
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

-- Adds what is missing of a part in the delay set.
function check.schedule(member, due)
  local sizes = {}
  sizes_of(sizes, member, due)
  call("ZADD", DELAY, due, member)
  write_all("ZADD", SIZES, sizes)
end

-- Returns what is wrong with a part, how bad that is, and for which of its events.
function check.fault_of(page, part, ids)
  local bodies, is_sound = bodies_of(page, part)
  if not is_sound then
    local gone = {}
    for i, id in ipairs(ids) do
      gone[#gone + 1] = not bodies[i] and id or nil
    end
    return "no_body", "has no body in its page", gone
  elseif part.kind == "S" and not call("ZSCORE", DELAY, member_of(page, part)) then
    return "misplaced", "is scheduled and not in the delay set", ids
  end
end

-- All events of a part with damage leave it. Those of which nothing is left end.
function check.part(page, part)
  local ids = ids_in(member_of(page, part))
  looked = looked + #ids
  local kind, words, damaged = check.fault_of(page, part, ids)
  if not kind then
    listed[#listed + 1] = part.kind == "R" and sub(member_of(page, part), 1, 16) .. part.number or nil
    return
  end
  for _, id in ipairs(damaged) do
    tell(kind, id, words)
  end
  if repairs then
    open_part(page, part)
    for _, id in ipairs(kind == "no_body" and damaged or {}) do
      surplus = surplus + (part.kind == "R" and 1 or 0)
      check.drop_lost(id, state_of(id), sub(part.times, 1, 8))
    end
    for _, id in ipairs(ids) do
      local own = state_of(id)
      listed[#listed + 1] = own and own.kind == "R" and id .. own.entry or nil
    end
  end
end

-- Returns whether the body of a part has other events than the part says, or may be in a field that no
-- part names. One that ends within an event was cut: those before it are right.
function check.has_others(page, part)
  local _, is_sound = bodies_of(page, part)
  if is_sound then
    return false
  end
  if part.body == "" then
    local fields = {}
    for base = 0, EACH_MAX - 1 do
      fields[base + 1] = page.name .. char(PLACE + base) .. "p"
    end
    for i, body in ipairs(read_all("HMGET", BODY, fields)) do
      if body and not part_with(fields[i]) then
        return true
      end
    end
    return false
  end
  local bodies, ends = split_bodies(part.body, 0, EACH_MAX)
  local count = 0
  while bodies[count + 1] do -- at most 64
    count = count + 1
  end
  local more = part.base + count - part.first - part.count
  return more > 0 or (more < 0 and ends[count] == #part.body)
end

-- Returns whether the parts of a page contradict each other or their bodies. Nothing says what of it is
-- right, and each of its events may have its payload: so nothing of such a page is repaired.
function check.contradicts(page)
  local taken = {} -- places: parts lie in the order in which they came
  for _, part in ipairs(page.parts) do
    local beyond = part.first + part.count
    if (part.kind ~= "S" and part.kind ~= "R") or part.count == 0 or part.first < part.base or beyond > EACH_MAX
      or check.has_others(page, part) then
      return true
    end
    for place = part.first, beyond - 1 do -- at most 64
      if taken[place] then
        return true
      end
      taken[place] = true
    end
  end
  return false
end

function check.page(page)
  if #page.parts == 0 and tell("leftover", "", "is a page without events") then
    call("HDEL", STATE, page.name)
  end
  if check.contradicts(page) then
    looked = looked + EACH_MAX
    local name = page.name:gsub(".", function(c) return string.format("%02x", byte(c)) end)
    tell("unreadable", "", "the page " .. name .. " contradicts itself: its parts overlap, or have other bodies")
    return
  end
  for _, part in ipairs(page.parts) do
    check.part(page, part)
  end
end

function check.state(id, state)
  local page = #id ~= NAME and place_of(id)
  if #id == NAME then
    check.page(pages[id] or new_page(id, state))
  elseif not page then
    check.own(id, read_state(state))
  elseif not check.contradicts(page) and tell("leftover", id, "has a state of its own and is in a page") then
    call("HDEL", STATE, id)
  end
end

-- A body whose part is gone: its events are ready again, alone, unless they are elsewhere.
function check.body_of_part(field, body)
  looked = looked + EACH_MAX -- HSCAN has read as many
  place_of(field) -- reads the page
  if part_with(field) then
    return
  end
  local page, ids = pages[sub(field, 1, NAME)], ids_in(sub(field, 1, 16) .. char(EACH_MAX))
  if page and check.contradicts(page) then
    return
  end
  for i, its in ipairs(split_bodies(body, 0, EACH_MAX)) do
    local id = its and ids[i]
    if id and not place_of(id) and call("HEXISTS", STATE, id) == 0 and call("HEXISTS", BODY, id) == 0
      and tell("no_place", id, "is in a page that is gone") then
      call("HSET", BODY, id, its)
      check.restore(id, its)
    end
  end
  if tell("leftover", "", "the body of a part that is gone") then
    call("HDEL", BODY, field)
  end
end

function check.body(id, body)
  if #id == FIELD_OF_PART then
    return check.body_of_part(id, body)
  end
  local it, page = state_of(id), place_of(id)
  if page then
    if not check.contradicts(page) and tell("leftover", id, "has a body of its own and is in a page") then
      call("HDEL", BODY, id)
    end
  elseif not it and not call("ZSCORE", DELAY, id) then
    if tell("no_place", id, "has a body and is nowhere") then
      check.restore(id, body)
    end
  end
  local key, unique = keys_of(body)
  if key and not (it and has_ended(it.kind)) and not call("ZSCORE", BY_KEY, key_entry(key, id))
    and tell("misplaced", id, "has a key and is not found by it") then
    call("ZADD", BY_KEY, 0, key_entry(key, id))
  end
  if unique and not (it and (it.keyless or it.kind == "D" or has_ended(it.kind))) and not place_of(id)
    and call("HEXISTS", UNIQUE, unique) == 0 and tell("misplaced", id, "has a unique key and does not hold it") then
    call("HSET", UNIQUE, unique, id)
  end
  local _, expires, late
  if has_extras(body) and not (page or is_newer(body) or it and (it.kind == "D" or has_ended(it.kind))) then
    _, expires, late = extras_of(body)
  end
  if (expires or late) and not call("ZSCORE", EXPIRY, id)
    and tell("misplaced", id, "can expire, and has no entry that says when") then
    call("ZADD", EXPIRY, now, id) -- it is looked at, and gets its time
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
    local page, named = part_of(id, "S"), pages[sub(id, 1, NAME)]
    if not page then
      if not (named and check.contradicts(named)) and tell("stray", "", "a member of the delay set is no part") then
        forget_sizes({ id })
        call("ZREM", DELAY, id)
      end
      return
    end
    local sizes = {}
    sizes_of(sizes, id, tonumber(due))
    for i = 1, #sizes, 2 do
      if tonumber(call("ZSCORE", SIZES, sizes[i + 1]) or -1) ~= sizes[i]
        and tell("counts", "", "a part in the delay set is counted wrongly") then
        check.schedule(id, tonumber(due))
      end
    end
    return
  end
  local it, page = state_of(id), place_of(id)
  if page or it then
    if (page and not check.contradicts(page) or not page and it.kind ~= "S")
      and tell("stray", id, "is in the delay set and not scheduled alone") then
      call("ZREM", DELAY, id)
    end
  elseif call("HEXISTS", BODY, id) == 0 and tell("no_body", id, "is in the delay set and has no body") then
    check.drop_lost(id, nil, u64(tonumber(due)))
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
  local ids, count, is_kept = ids_of_batch(value), 0, false
  for _, state in ipairs(read_all("HMGET", STATE, ids)) do
    if is_under(state, field) then
      count, is_kept = count + 1, is_kept or not read_state(state).timed
    end
  end
  looked = looked + #ids
  if count == 0 then
    if tell("stray", "", "a request holds nothing any more") then
      drop_batch(field)
    end
    return
  end
  if is_kept and not call("ZSCORE", REQUESTS, field) and tell("misplaced", "", "a request is not found by its node") then
    call("ZADD", REQUESTS, 0, field)
  end
  if count ~= tonumber(call("HGET", HELD, "#" .. field) or 0)
    and tell("counts", "", "the leases of a request are counted wrongly") then
    call("HSET", HELD, "#" .. field, count)
  end
end

-- Entries that were not in the list although their events were ready before and after.
function check.again(entry_of)
  local id, number_of = sub(entry_of, 1, 16), sub(entry_of, 17)
  local page, part, place = place_of(id)
  local it = not page and state_of(id)
  if page and place == 1 and part.kind == "R" and part.number == number_of
    and tell("misplaced", "", "a part is ready and not in the ready list") then
    call("RPUSH", READY, member_of(page, part) .. number_of)
  elseif it and it.kind == "R" and it.entry == number_of
    and tell("misplaced", id, "is ready and not in the ready list") then
    call("RPUSH", READY, id .. number)
    it.entry = number
    call("HSET", STATE, id, write_state(it))
  end
end

-- Compares the events that have ended, ids as keys, with the tombstones: each has one.
function check.tombstones(over)
  local known, missing = {}, {}
  for i, batch in ipairs(call("LRANGE", PAST, 0, -1)) do -- `most` entries
    local kept, is_sound = {}, true
    for _, id in ipairs(ids_of_batch(sub(batch, 9))) do
      if over[id] and not known[id] then
        known[id], kept[#kept + 1] = true, id
      else
        is_sound = false
        tell("stray", id, known[id] and "has two tombstones" or "has a tombstone and has not ended")
      end
    end
    if not is_sound and repairs then
      call("LSET", PAST, i - 1, #kept > 0 and sub(batch, 1, 8) .. table.concat(kept) or ZERO)
    end
  end
  if repairs then
    call("LREM", PAST, 0, ZERO) -- those of which nothing is left
  end
  for id in pairs(over) do
    if not known[id] and tell("misplaced", id, "has ended and has no tombstone") then
      missing[#missing + 1] = id
    end
  end
  if #missing > 0 then
    remember(missing)
    past = past - #missing -- it is counted below
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

-- Returns every node of a bucket that is small enough for one call.
function check.nodes()
  local flat, nodes = call("HGETALL", NODES), {} -- `most` nodes
  for i = 1, #flat, 2 do
    local node = read_node(flat[i + 1])
    node.id, nodes[#nodes + 1] = flat[i], node
  end
  return nodes
end

-- Counts everything in a bucket that is small enough for one call.
function check.counts()
  looked = call("HLEN", STATE) + call("LLEN", READY) + call("LLEN", PAST) + call("HLEN", NODES)
  if looked > most then
    return
  end
  local live, held, kept, timed, over = 0, 0, {}, {}, past <= most and {} or nil
  local flat = call("HGETALL", STATE) -- `most` fields
  for i = 1, #flat, 2 do
    local field, state = flat[i], flat[i + 1]
    if #field == NAME then
      for _, part in ipairs((pages[field] or new_page(field, state)).parts) do
        live = live + (part.kind == "R" and part.count or 0)
      end
    elseif byte(state) == 76 then
      local node, has_deadline = holder_of(state)
      local of = has_deadline and timed or kept
      held, of[node] = held + 1, (of[node] or 0) + 1
    elseif byte(state) == 82 then
      live = live + 1
    elseif over and has_ended(state) then
      over[field] = true
    end
  end
  local function counted(what, is, should)
    return is ~= should and tell("counts", "", what .. ": " .. is .. " instead of " .. should)
  end
  if counted("leased events", leased, held) then
    leased = held
  end
  if over then
    check.tombstones(over)
  end
  local ended = 0
  for _, batch in ipairs(call("LRANGE", PAST, 0, -1)) do -- `most` entries
    ended = ended + math.floor(math.max(#batch - 8, 0) / 16)
  end
  if counted("tombstones", past, ended) then
    past = ended
  end
  local len = call("LLEN", READY)
  if len > 0 and counted("surplus entries of the ready list", surplus, len - live) then
    surplus = len - live
  end
  for _, node in ipairs(check.nodes()) do
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

-- Calls what reads a structure, or an entry of it. Where it cannot be read that is damage, and the rest is
-- looked at. Returns whether it was read.
function check.read(what, entry_of, value)
  local is_read, why = pcall(what, entry_of, value)
  if not is_read then
    why = tostring(type(why) == "table" and why.err or why)
    tell("unreadable", entry_of and #entry_of == 16 and entry_of or "", "cannot be read in " .. ARGV.structure .. ": " .. why)
  end
  return is_read
end

function check.keys()
  check_keys()
  call("ZCARD", LEASE)
end

-- Looks at a page of the fields or members of a structure.
function check.scan(page, look)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    looked = looked + 1
    check.read(look, page[2][i], page[2][i + 1])
  end
end

-- Unique keys before bodies: what holds another's is removed before what holds none gets its own.
local STRUCTURES = { "state", "unique", "body", "delay", "sizes", "dead", "lease", "holds", "by_key", "expiry", "held",
  "requests", "nodes" }
local parts = {
  state = function() check.scan(call("HSCAN", STATE, cursor, "COUNT", most), check.state) end,
  body = function()
    most = math.max(1, math.min(most, math.floor(BUDGET / 4 / math.max(longest, 1))))
    check.scan(call("HSCAN", BODY, cursor, "COUNT", most), check.body)
  end,
  delay = function() check.scan(call("ZSCAN", DELAY, cursor, "COUNT", most), check.delayed) end,
  sizes = function()
    check.scan(call("ZSCAN", SIZES, cursor, "COUNT", most), function(member, score)
      local its, sizes, is_own = sub(member, 1, MEMBER_OF_PART), {}, false
      local due = #member == MEMBER_OF_PART + 1 and call("ZSCORE", DELAY, its)
      sizes_of(sizes, its, tonumber(due or 0))
      for i = 1, due and #sizes or 0, 2 do
        is_own = is_own or (sizes[i + 1] == member and sizes[i] == tonumber(score))
      end
      if not is_own and tell("counts", "", "events are counted that are not scheduled in a page") then
        call("ZREM", SIZES, member)
      end
    end)
  end,
  requests = function()
    check.scan(call("ZSCAN", REQUESTS, cursor, "COUNT", most), function(batch)
      if call("HEXISTS", HELD, batch) == 0 and tell("stray", "", "a request is known that holds nothing") then
        call("ZREM", REQUESTS, batch)
      end
    end)
  end,
  dead = function()
    check.scan(call("ZSCAN", DEAD, cursor, "COUNT", most), function(id)
      local it = state_of(id)
      if not (it and it.kind == "D") and tell("stray", id, "is in the dead set and not dead") then
        call("ZREM", DEAD, id)
      end
    end)
  end,
  lease = function()
    check.scan(call("ZSCAN", LEASE, cursor, "COUNT", most), function(id)
      local it = state_of(id)
      if not (it and it.timed) and tell("stray", id, "has a deadline and no such lease") then
        call("ZREM", LEASE, id)
      end
    end)
  end,
  unique = function() check.scan(call("HSCAN", UNIQUE, cursor, "COUNT", most), check.unique) end,
  holds = function()
    check.scan(call("ZSCAN", HOLDS, cursor, "COUNT", most), function(unique)
      if #(call("HGET", UNIQUE, unique) or "") <= 16 and tell("stray", "", "a unique key is reserved by nothing") then
        call("ZREM", HOLDS, unique)
      end
    end)
  end,
  by_key = function() check.scan(call("ZSCAN", BY_KEY, cursor, "COUNT", most), check.key) end,
  expiry = function()
    check.scan(call("ZSCAN", EXPIRY, cursor, "COUNT", most), function(id)
      local it = state_of(id)
      local is_there = it and not has_ended(it.kind) or call("HEXISTS", BODY, id) == 1 or call("ZSCORE", DELAY, id)
      if not is_there and tell("stray", id, "has an entry to expire and is over") then
        call("ZREM", EXPIRY, id)
      end
    end)
  end,
  held = function() check.scan(call("HSCAN", HELD, cursor, "COUNT", most), check.batch) end,
  nodes = function()
    check.scan(call("HSCAN", NODES, cursor, "COUNT", most), function(id, packed)
      local node = read_node(packed)
      if ARGV.silence_max ~= "" and node.kept > 0 and now - node.seen > tonumber(ARGV.silence_max)
        and tell("silent_node", "", "a node holds " .. node.kept .. " leases and has been silent for "
          .. math.floor((now - node.seen) / 1000000) .. " s") then
        node.reaping, node.lost = true, true
        keep_node(id, node)
      end
    end)
  end,
  -- From the tail on: what is pushed meanwhile is looked at twice. Where some leave the end of the list as
  -- many others are passed over, which a second reading has.
  ready = function()
    local from = tonumber(cursor)
    listed = call("LRANGE", READY, -from - most, -from - 1)
    looked = #listed
    cursor = #listed < most and "0" or tostring(from + most)
  end,
  again = function()
    for i = ARGV.rest, #ARGV do
      check.again(ARGV.entry[i])
    end
    looked, cursor = #ARGV - ARGV.rest + 1, "0"
  end,
  counts = function()
    check.counts()
    cursor = "0"
  end,
}

-- Everything at one instant, and changes nothing.
function parts.whole()
  local all, waiting = most, ready_len() + counter_of_events()(math.huge) -- those in pages have no body
  local entries = call("HLEN", STATE) + call("HLEN", UNIQUE) + call("LLEN", READY)
    + math.floor(math.max(call("HLEN", BODY), waiting) * (1 + longest / 1024))
  -- Each of the others has no more of a sound bucket, and any number of what has strayed.
  entries = math.max(entries, call("ZCARD", DELAY), call("ZCARD", SIZES), call("ZCARD", DEAD), call("ZCARD", LEASE),
    call("ZCARD", HOLDS), call("ZCARD", BY_KEY), call("ZCARD", EXPIRY), call("HLEN", HELD), call("ZCARD", REQUESTS),
    call("HLEN", NODES))
  cursor = "0"
  if entries > all then
    tell("counts", "", "it has " .. entries .. " entries, the limit is " .. all .. ": it was not checked; "
      .. "`audit_whole` does, and blocks the server meanwhile")
    return
  end
  for _, structure in ipairs(STRUCTURES) do
    repeat -- `all` entries
      most = STEP
      parts[structure]()
    until cursor == "0"
  end
  local is_there = {}
  for _, entry_of in ipairs(call("LRANGE", READY, 0, -1)) do -- `all` entries
    is_there[entry_of] = true
    for _, id in ipairs(#entry_of == ENTRY_OF_PART and ids_in(entry_of) or {}) do
      is_there[id .. sub(entry_of, 18)] = true
    end
  end
  for _, entry_of in ipairs(listed) do
    if not is_there[entry_of] then
      check.again(entry_of)
    end
  end
  for _, node in ipairs(check.nodes()) do
    if node.last <= node.to and node.kept > node.says then
      tell("counts", "", "a node holds " .. node.kept .. " leases and reported " .. node.says)
    end
  end
  most = all
  parts.counts()
  listed = {}
end

-- Each call:
cursor, most, repairs = ARGV.cursor, tonumber(ARGV.limit), ARGV.repairs == "1"
found, listed, looked, holds_of = {}, {}, 0, {}
look_first()
-- Beside a key of another type nothing is repaired, and all that can be read is looked at.
if not pcall(check.keys) and (ARGV.structure == "counts" or repairs) then
  check.read(check.keys)
  repairs, cursor = false, "0"
end
if repairs then
  keep_counts()
end
if cursor == "0" and found[1] and ARGV.repairs == "1" or not check.read(parts[ARGV.structure]) then
  cursor = "0"
end
if repairs then
  write_taken()
  wake(ARGV.origin)
  keep_counts(true)
end
return REPLY { now = now, cursor = tostring(cursor), looked = looked, damage = found, listed = listed }
