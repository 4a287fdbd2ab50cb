-- Script: leases events to a node: ready ones in order, then scheduled ones that are due soon.
local BATCH_MAX = RUST.BATCH_MAX
local PASSED_MAX = 4000 -- limit of stale entries in one call
local DUE_PER_READ = 256
local REST = 1000 -- ms until it checks again for nodes that can read a newer format
local expired, late_ones -- events that are set aside
local me, node, request, token, reply, len, count, newer
local ended -- how many events had expired, and how many were too late
local deadline -- of the leases, ms
local held, changes, changes_len, deadlines, fields -- what is to be written of the leases
local given, lost, newer_ones, gone, gone_parts -- what leaves its place
local stays -- members of the delay set that do not, as keys
local plain -- the suffix of a lease of this call
local moved_now
local aside -- how many more expired or exhausted events it may set aside
local limit, passed_over, seen

-- Sets an event with extras aside if it has expired or is too late. Returns whether it is; `it`, its
-- state, learns of the extras otherwise.
local function set_aside(id, it, body)
  local attempts, expires, late, late_us, key, unique = extras_of(body)
  local passed = late and math.max(now - number_at(it.due, 1) * 1000, 0) > late_us
  local has_gone = (expires and expires * 1000 <= now) or (passed and late == "expire")
  if has_gone or passed then
    charge_end(#body)
  end
  if has_gone then
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

-- Notes that so many ready events leave next, and one of them; their entries leave last.
local function note_leaving(count, id)
  given.ready = given.ready - count
  keep_counts(false, 0 - count, given.ready - given.entries, id)
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
  local over = {}
  for i, it in ipairs(expired) do
    over[i] = it[1]
    if i <= given.expired or given.twice[it[1]] then -- it was ready
      note_leaving(1, it[1])
    end
    finish(it[1], "e", it[2], it[2].due, it[3])
  end
  if #over > 0 then
    remember(over)
    write_all("HDEL", BODY, over)
    write_all("ZREM", EXPIRY, over)
  end
  for i, it in ipairs(late_ones) do
    local id, state, unique = it[1], it[2], it[3]
    state.kind, state.moved = "D", u64(now)
    call("ZADD", DEAD, 0, id)
    if i <= given.late or given.twice[id] then
      note_leaving(1, id)
    end
    call("HSET", STATE, id, write_state(state))
    free_unique(id, unique)
  end
  local gone, late = #expired, #late_ones
  expired, late_ones = {}, {}
  return gone, late
end

-- Appends what is still leased in a batch to a reply of `len`. Returns its length, and the places of
-- the events in the batch.
local function add_held(batch, reply, len)
  local ids, places = ids_of_batch(call("HGET", HELD, batch) or ""), {}
  local bodies, before, read = {}, 0, 0
  for i, state in ipairs(read_all("HMGET", STATE, ids)) do
    if is_under(state, batch) then
      if i > read then
        before = i - 1
        bodies, read = read_bodies(ids, i)
      end
      reply[len + 1], reply[len + 2], reply[len + 3] = ids[i], state, bodies[i - before]
      len = len + 3
      places[#places + 1] = u16(i - 1)
    end
  end
  return len, table.concat(places)
end

local function done()
  if count == 0 then
    keep_node(me, node)
  end
  local due = next_due() or false
  reply[REPLY.ready], reply[REPLY.next_due], reply[REPLY.kept] = ready_len(), due, node.kept
  reply[REPLY.crowd_due] = due and due_of_crowd(due, tonumber(ARGV.crowd), tonumber(ARGV.crowd_span)) or false
  reply[REPLY.newer] = newer
  if newer > 0 then -- the rest may be unreadable too, and it would fetch without end
    reply[REPLY.crowd_due], reply[REPLY.full] = false, count > 0 and reply[REPLY.full] or 0
    reply[REPLY.ready] = count > 0 and math.max(reply[REPLY.ready] - newer, 0) or 0
    reply[REPLY.next_due] = math.min(due or math.huge, now_ms + REST)
  end
  local gone, late = ended[1] + meta.expired, ended[2] + meta.late
  if gone + late > 0 then
    reply[len + 1], reply[len + 2], meta.expired, meta.late = gone, late, 0, 0
  end
  keep_counts()
  return reply
end

-- Leases an event; `state`: what it becomes.
local function give(id, state, body)
  count = count + 1
  held[count] = id
  changes[changes_len + 1], changes[changes_len + 2] = id, state
  changes_len = changes_len + 2
  if deadline then
    deadlines[2 * count - 1], deadlines[2 * count] = deadline, id
  end
  reply[len + 1], reply[len + 2], reply[len + 3] = id, state, body
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

-- Leases the first events of a part, which are events alone from now on.
local function give_part(page, part, most)
  local bodies = bodies_of(page, part)
  local before_it = part.given or 0 -- by this call
  local name = page.name .. char(PLACE + part.first + before_it, most)
  local body = sub(part.body, part.ends[before_it] + 1, part.ends[before_it + most])
  local times = part.kind == "R" and part.times or sub(part.times, 1, 8) .. moved_now
  local before, after = (deadline and "L\2\0\1" or "L" .. FRESH) .. times, NEVER .. plain
  for i, id in ipairs(ids_in(name)) do
    count = count + 1
    held[count], changes[changes_len + 1] = id, id
    changes[changes_len + 2] = before .. sub(bodies[before_it + i], 5, 12) .. after
    changes_len = changes_len + 2
    fields[#fields + 1], fields[#fields + 2] = id, bodies[before_it + i]
    if deadline then
      deadlines[2 * count - 1], deadlines[2 * count] = deadline, id
    end
  end
  reply[len + 1], reply[len + 2], reply[len + 3] = name, times, body
  len, spent = len + 3, spent + #body
  given[#given + 1] = not part.given and { page, part } or nil
  part.given = before_it + most
end

local function may_look()
  return aside > 0 and passed_over + newer < PASSED_MAX and not is_spent()
end

-- Returns the part of an entry or a member, and of how many of its events there is room. Where its body
-- is damaged, or a newer duly's, its events are alone from now on.
local function whole_part(member, kind, room)
  local page, part = part_of(member, kind)
  local planned = page and part.planned or 0
  if page and planned == part.count then -- its entry is there twice, left by a call that failed
    return nil
  elseif page and not select(2, bodies_of(page, part)) then
    open_part(page, part)
    spent = spent + OPENED * part.count
    return nil, true
  end
  if page then
    part.planned = math.min(planned + room, part.count)
    return { page, part, part.planned - planned }
  end
end

-- Leases an event that is alone, or sets it aside; `times`: due and moved of one in the delay set. Returns
-- what has become of it: "stale" where it does not wait there, "newer" where only a newer duly can read it.
local function look_at(id, state, body, is_waiting, times)
  if not is_waiting then
    passed_over = passed_over + 1
    return "stale"
  elseif not body then -- part of it was deleted by hand
    lost[#lost + 1] = state and id or nil
    return "gone"
  elseif is_newer(body) then
    newer = newer + 1
    return "newer"
  end
  local is_plain, fingerprint = not (deadline or has_extras(body)), sub(body, 5, 12)
  if is_plain and times and not state then -- nearly all that are read ahead
    give(id, "L" .. FRESH .. times .. fingerprint .. NEVER .. plain, body)
    return "leased"
  end
  if times then
    state = due_state(state, times, fingerprint)
  end
  if is_plain then
    give(id, lease_state(state, fingerprint, plain), body)
  else
    take(id, read_state(state), body)
  end
  return "leased"
end

-- Returns a function to the body of each of some ids, in their order.
local function reader_of(ids)
  local bodies, before, read = {}, 0, 0
  return function(i)
    if i > read then
      before = i - 1
      bodies, read = read_bodies(ids, i)
    end
    return bodies[i - before]
  end
end

-- How many are looked at together where so many are wanted: behind some that have left, more of them
-- are likely.
local function at_once(wanted)
  return math.max(wanted, math.min(passed_over, 64))
end

-- Leases what waits at the head of the ready list, in its order. Returns how many of the entries have
-- left, and what is left of the last one if that stands for several.
local function take_ready(entries)
  local parts, ids, numbers, ends, left, looked = {}, {}, {}, {}, limit - count, 0
  local room = at_once(left) -- ids to look at; `left` is of events
  read_pages(entries)
  for i, entry_of in ipairs(entries) do
    local its = #entry_of == ENTRY_OF_PART
    if room <= 0 or (its and left <= 0) then
      break
    end
    parts[i] = its and whole_part(entry_of, "R", left)
    if not parts[i] then
      for _, id in ipairs(its and ids_in(entry_of) or { sub(entry_of, 1, 16) }) do
        ids[#ids + 1], numbers[#ids + 1] = id, sub(entry_of, its and 18 or 17)
      end
    end
    local its_ids = parts[i] and parts[i][3] or #ids - (ends[i - 1] or 0)
    room, left, ends[i], looked = room - its_ids, left - its_ids, #ids, i
  end
  local states, body_of, at = read_all("HMGET", STATE, ids), reader_of(ids), 1
  for i = 1, looked do -- `entries` or `members`
    if parts[i] then
      if is_spent() then
        return i - 1
      end
      local page, part, most = parts[i][1], parts[i][2], parts[i][3]
      give_part(page, part, most)
      surplus = surplus + most
      if part.given < part.count then -- its entry stays
        return i - 1
      end
      surplus = surplus - 1
    else
      local from = at
      while at <= ends[i] do -- the ids of one entry
        local is_waiting = is_placed(states[at], numbers[at]) and not seen[ids[at]]
        seen[ids[at]] = seen[ids[at]] or is_waiting -- its entry may be there twice where a call has failed
        if count == limit or is_spent() then
          local rest = {}
          for left = at, at > from and ends[i] or 0 do -- the ids of one entry
            rest[#rest + 1] = is_placed(states[left], numbers[left]) and ids[left] .. numbers[left] or nil
          end
          surplus = surplus + (at > from and #rest - 1 or 0)
          return at > from and i or i - 1, rest
        end
        local its = look_at(ids[at], states[at], is_waiting and body_of(at), is_waiting)
        surplus = surplus + (its == "stale" and 0 or 1)
        if its == "newer" then -- to the end of the list, for a version that can read it
          newer_ones[#newer_ones + 1] = ids[at] .. numbers[at]
        end
        at = at + 1
      end
      surplus = surplus - 1
    end
  end
  return looked
end

-- Leases what is due soon, in its order. Returns how many of the members it has looked at, without one
-- whose part stays: what is left of it comes next. Of a part that is opened, calls that failed may have left
-- events anywhere among the members that were passed over: those stay, and all but the last one wait for the
-- next call.
local function take_due(due)
  local parts, ids, ends, room, looked, members = {}, {}, {}, limit - count, 0, {}
  for i = 1, #due / 2 do
    members[i] = due[2 * i - 1]
  end
  read_pages(members)
  for i, member in ipairs(members) do
    local its = #member == MEMBER_OF_PART
    local whole, is_open = nil, false
    if its and room > 0 then
      whole, is_open = whole_part(member, "S", room)
    end
    if room <= 0 or is_open then -- those that have left it are the next members
      for _, id in ipairs(is_open and ids_in(member) or {}) do
        stays[id], stays[member] = true, true
      end
      if i == 1 and stays[gone[#gone]] then -- the next member is the last one
        gone[#gone] = nil
        return -1
      end
      break
    end
    parts[i], ids[#ids + 1] = whole, not its and member or nil
    room = room - (whole and whole[3] or its and 0 or 1)
    ends[i], looked = #ids, i
  end
  local states, body_of = read_all("HMGET", STATE, ids), reader_of(ids)
  local last_due, times
  for i = 1, looked do -- `entries` or `members`
    local its, at, part = #members[i] == MEMBER_OF_PART and "gone", ends[i], parts[i] and parts[i][2]
    if is_spent() or (count == limit and not its) then
      return i - 1
    elseif part then
      its = part.given and "noted" or its
      give_part(parts[i][1], part, parts[i][3])
    elseif not its then
      local kind = states[at] and byte(states[at]) or 83
      local is_waiting = (kind == 83 or kind == 82) and not (place_of(members[i]) or seen[members[i]])
      -- Any other one was left by a call that failed.
      if due[2 * i] ~= last_due then -- many share it
        last_due, times = due[2 * i], u64(tonumber(due[2 * i])) .. moved_now
      end
      its = look_at(members[i], states[at], is_waiting and body_of(at), is_waiting, times)
      if kind == 82 and is_waiting and its ~= "newer" then -- its entry stays in the list
        surplus = surplus + 1
        given.ready = given.ready + (its == "leased" and 1 or 0)
        given.twice[members[i]] = true
        given.field = given.field or held[count] == members[i] and members[i] or nil
      end
    end
    if its == "newer" then
      stays[members[i]] = true
    elseif its ~= "noted" then
      gone[#gone + 1], stays[members[i]] = members[i], nil
      gone_parts[#gone_parts + 1] = #members[i] == MEMBER_OF_PART and members[i] or nil
    end
    if part and part.given < part.count then
      return i - 1
    end
  end
  return looked
end

-- Records come first. A lease is in its batch and counted before it takes effect, and takes effect before
-- its event leaves the list or set in which it waits: one left half done is in two places and never in
-- none, and a repeated request returns it.
local function commit()
  ended[1], ended[2] = end_what_is_aside()
  if count > 0 then
    leased = leased + count
    local starts = tonumber(ARGV.starts)
    if starts > 0 then
      announce(node, request, starts)
    end
    call("HSET", HELD, me .. token, table.concat(held), "#" .. me .. token, count)
    if deadline then
      node.timed = node.timed + count
      write_all("ZADD", LEASE, deadlines)
    else
      node.kept = node.kept + count
      node.beat = node.beat + 1
      call("ZADD", REQUESTS, 0, me .. token)
    end
    -- Before its request is known: what is repeated then is fetched anew.
    note_leaving(given.ready, given.field or "")
    keep_node(me, node)
    write_all("HSET", BODY, fields)
    local delayed, sizes = {}, {}
    for _, it in ipairs(given) do -- here, since other parts may have been opened meanwhile
      local page, part = it[1], it[2]
      if part.given == part.count then
        remove_part(page, part)
      end
      part.first, part.count, changed_pages[page.name] = part.first + part.given, part.count - part.given, page
      if part.count > 0 and part.kind == "S" then -- what is left of it is there before its page says so
        local due, member = number_at(part.times, 1), member_of(page, part)
        delayed[#delayed + 1], delayed[#delayed + 2] = due, member -- behind all that is gone
        sizes_of(sizes, member, due)
      end
    end
    write_all("ZADD", DELAY, delayed)
    write_all("ZADD", SIZES, sizes) -- behind it: what is passed over takes its sizes with it
    write_all("HSET", STATE, changes, add_pages(changes, changes_len))
    drop_emptied()
  elseif given.entries > 0 then
    note_leaving(0, "")
  end
end

-- Takes what has left its place out of it.
local function leave(taken, rest, pivot)
  write_all("RPUSH", READY, newer_ones)
  for i = #rest, 1, -1 do -- of one entry
    call("LINSERT", READY, "AFTER", pivot, rest[i])
  end
  if taken > 0 then
    move_gap(#rest - taken)
    call("LTRIM", READY, taken, -1) -- as many as were read
  end
  local bodies = {}
  for _, it in ipairs(given) do
    local page, part = it[1], it[2]
    bodies[#bodies + 1] = part.count == 0 and field_of(page, part) or nil
  end
  forget_sizes(gone_parts)
  if next(stays) then
    local leaving = {}
    for _, member in ipairs(gone) do
      leaving[#leaving + 1] = not stays[member] and member or nil
    end
    write_all("ZREM", DELAY, leaving)
  elseif #gone > 0 then
    call("ZREMRANGEBYRANK", DELAY, 0, #gone - 1) -- as many as were read
  end
  write_all("HDEL", BODY, bodies)
  write_all("HDEL", STATE, lost)
end

-- Each call:
me, request, token = ARGV.node, tonumber(ARGV.request), ARGV.token
node = node_for(me)
node.seen = now
reply = REPLY { now = now, ready = 0, next_due = false, crowd_due = false, full = 0, kept = 0, last = node.last,
  newer = 0, places = "" }
len, ended = #reply, { 0, 0 }
count, newer, passed_over, seen = 0, 0, 0, {}
expired, late_ones = {}, {}
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
  local batch = me .. token
  len, reply[REPLY.places] = add_held(batch, reply, len)
  local unleased = (call("HGET", HELD, "#" .. batch) or 0) - #reply[REPLY.places] / 2
  if unleased > 0 then -- counted by a call that failed midway
    local its, none = { [token] = unleased }, {}
    local is_kept = call("ZSCORE", REQUESTS, batch)
    end_leases(me, node, is_kept and its or none, is_kept and none or its)
  end
  if len > REPLY.places and node.kept > 0 and not node.reaping then
    node.beat = node.beat + 1
  end
  return done()
end
node.last = request

deadline = ARGV.hold ~= "" and math.ceil((now + ARGV.hold) / 1000)
held, changes, changes_len, deadlines, fields = {}, {}, 0, {}, {}
given, lost, newer_ones, gone, gone_parts, stays = {}, {}, {}, {}, {}, {}
moved_now = u64(now)
plain = me .. token .. moved_now .. u16(ATTEMPTS)
aside, limit = BATCH_MAX, math.min(tonumber(ARGV.limit), BATCH_MAX)
local unseen = limit > 0 and call("LLEN", READY) or 0 -- entries

local per_entry, taken, rest = math.max((unseen - surplus) / math.max(unseen, 1), 1), 0, {}
local pivot -- the last entry that leaves
while count < limit and taken < unseen and #rest == 0 and may_look() do -- `limit` events, `PASSED_MAX` others
  local want = math.min(at_once(math.ceil((limit - count) / per_entry)), aside, unseen - taken)
  local entries = call("LRANGE", READY, taken, taken + want - 1)
  local left
  left, rest = take_ready(entries)
  rest = rest or {}
  taken = taken + left
  if left == 0 then
    break
  end
  pivot = entries[left]
end

-- How many of each there are that were ready, and by how many entries the list gets shorter.
given.expired, given.late, given.ready = #expired, #late_ones, count + #expired + #late_ones
given.entries, given.field, given.twice = taken - #rest - #newer_ones, held[1], {}
local until_ms = math.floor((now + ARGV.ahead) / 1000)
limit = math.min(count + ARGV.ahead_limit, BATCH_MAX)
local looked = 0
while count < limit and may_look() do -- `limit` events, `PASSED_MAX` others
  local want = math.min(limit - count, aside, DUE_PER_READ)
  local due = call("ZRANGE", DELAY, "-inf", until_ms, "BYSCORE", "LIMIT", looked, want, "WITHSCORES")
  if #due == 0 then
    break
  end
  local taken_of_it = take_due(due)
  looked = looked + taken_of_it
  if taken_of_it == #due / 2 and taken_of_it < want then -- there are no more
    break
  end
end
reply[REPLY.full] = may_look() and 0 or 1
commit()
leave(taken, rest, pivot)
return done()
