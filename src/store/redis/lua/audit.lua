-- Script: checks the invariants of a bucket: each event in exactly one place, and every counter
-- right. Reads every event and blocks the server meanwhile. Changes nothing.
--
-- ARGV[2]  how long, us, a node with leases may have been silent, or "" for any time
-- ARGV[3]  the limit of entries to read, or "" for any number: a bucket with more is only reported;
--          each KiB of bodies counts as one more
--
-- Returns {now, then up to 100 violations, as texts}.
local wrong = { now }
local entries_all = call("HLEN", STATE) + call("HLEN", UNIQUE) + call("LLEN", READY)
  + math.floor(call("HLEN", BODY) * (1 + longest / 1024))
if ARGV[3] ~= "" and entries_all > tonumber(ARGV[3]) then
  return { now, "it has " .. entries_all .. " entries, the limit is " .. ARGV[3] .. ": it was "
    .. "not checked; `audit_whole` does, and blocks the server meanwhile" }
end

local function expect(so, words)
  if not so and #wrong < 101 then
    wrong[#wrong + 1] = words
  end
end

local function hex(id)
  return (id:gsub(".", function(letter)
    return string.format("%02x", byte(letter))
  end))
end

local function pairs_of(flat)
  local map = {}
  for i = 1, #flat, 2 do
    map[flat[i]] = flat[i + 1]
  end
  return map
end

local function set_of(list)
  local set = {}
  for _, id in ipairs(list) do
    set[id] = true
  end
  return set
end

local states, bodies = pairs_of(call("HGETALL", STATE)), set_of(call("HKEYS", BODY))
local delay, deadlines = set_of(call("ZRANGE", DELAY, 0, -1)), set_of(call("ZRANGE", LEASE, 0, -1))
-- The events in pages, as if they were alone.
local names, used, fields, beyond = {}, {}, {}, 0
for field in pairs(states) do
  if #field == NAME then
    names[#names + 1] = field
  end
end
local function look_at(page, part)
  local name, left = hex(page.name), 0
  for place = part.first, part.first + part.count - 1 do
    if part_at(page, place) then
      local id, own = page.name .. char(PLACE + place), own_state(part, place)
      expect(not states[id] and not bodies[id] and not delay[id], hex(id) .. " is in a page and alone")
      states[id] = own
      if own.kind ~= "d" then
        left, bodies[id], delay[id] = left + 1, true, part.kind == "S" or nil
      end
    else
      expect(part.kind == "E" or part.kind == "L", name .. " has a place that is free and in a part")
    end
  end
  if part.kind == "E" then
    expect(left == 0, name .. " has an ended part with events")
    return
  end
  expect(left > 0, name .. " has a part of which all events are over")
  expect(part.kind == "L" or left == part.count, name .. " has a waiting part that misses events")
  expect(cut(part, body_of_part(page, part) or nil), name .. " has a part without its body")
  used[field_of(page, part)] = true
  if part.kind == "S" then
    local member = member_of(page, part)
    expect(delay[member], name .. " has a scheduled part that is not in the delay set")
    delay[member], beyond = nil, beyond + part.count - 1
  end
end
for id, packed in pairs(states) do
  states[id] = #id ~= NAME and read_state(packed) or packed
end
for _, name in ipairs(names) do
  local page, free = page_of(name), 0
  states[name] = nil
  for _, part in ipairs(page.parts) do
    expect(part.first >= free and part.count > 0, hex(name) .. " has parts that overlap")
    free = part.first + part.count
    look_at(page, part)
  end
  expect(page.low ~= 0 or page.high ~= 0, hex(name) .. " is a page without events")
  for place = 0, 63 do
    local id = name .. char(PLACE + place)
    expect(not has_bit(page.low, page.high, place) or states[id] or bodies[id],
      hex(id) .. " has a place in a page and is nowhere")
  end
end
for field in pairs(bodies) do
  fields[#fields + 1] = #field == FIELD_OF_PART and field or nil
end
for _, field in ipairs(fields) do
  expect(used[field], hex(field) .. " is the body of no part")
  bodies[field] = nil
end
for member in pairs(delay) do
  expect(#member ~= MEMBER_OF_PART, hex(member) .. " is in the delay set and no part")
end
expect(beyond == paged, "events of scheduled parts are counted wrongly: " .. paged .. " of " .. beyond)
local dead, held = set_of(call("ZRANGE", DEAD, 0, -1)), pairs_of(call("HGETALL", HELD))

-- The ready list: every ready event has one entry of its own, and the others are counted.
local entries, live, own = call("LRANGE", READY, 0, -1), 0, {}
for _, entry_of in ipairs(entries) do
  local ids, number_of = ids_at(entry_of)
  for _, id in ipairs(ids) do
    local it = states[id]
    if it and it.kind == "R" and it.entry == number_of then
      expect(not own[id], hex(id) .. " is in the ready list twice")
      live, own[id] = live + 1, true
    end
  end
end
expect(#entries - live == surplus or #entries == 0, "entries of the ready list are counted wrongly: "
  .. #entries .. " of " .. live .. " events, " .. surplus .. " surplus")

-- Each ended event has one tombstone.
local remembered, count = {}, 0
for _, batch in ipairs(call("LRANGE", PAST, 0, -1)) do
  for _, id in ipairs(ids_of_batch(sub(batch, 9))) do
    expect(not remembered[id], hex(id) .. " has two tombstones")
    remembered[id], count = true, count + 1
    expect(states[id] and states[id].kind:find("[dce]"), hex(id) .. " has a tombstone but not ended")
  end
end
expect(count == past, "tombstones are counted wrongly")

local holds_of = {} -- batch -> the ids that it has
for field, value in pairs(held) do
  holds_of[field] = #field == 16 and set_of(ids_of_batch(value)) or nil
end
local batches, kept, timed, all = {}, {}, {}, 0
for id, it in pairs(states) do
  local kind, name = it.kind, hex(id)
  local is_over = kind == "d" or kind == "c" or kind == "e"
  expect((kind == "S") == (delay[id] or false), name .. " is in the delay set or scheduled, not both")
  expect((kind == "R") == (own[id] or false), name .. " is in the ready list or ready, not both")
  expect((kind == "D") == (dead[id] or false), name .. " is in the dead set or dead, not both")
  expect(is_over == (remembered[id] or false), name .. " has a tombstone or has ended, not both")
  expect(is_over ~= (bodies[id] or false), name .. " has a body and has ended, or neither")
  local has_deadline = it.timed or false
  expect(has_deadline == (deadlines[id] or false), name .. " has a deadline in one place only")
  if kind == "L" then
    local batch, node = it.token, sub(it.token, 1, 8)
    batches[batch], all = (batches[batch] or 0) + 1, all + 1
    local of = has_deadline and timed or kept
    of[node] = (of[node] or 0) + 1
    expect(holds_of[batch] and holds_of[batch][id], name .. " is leased and not in its batch")
    local body = body_of(id) or nil
    local key, unique = keys_of(body)
    local says = body and (is_newer(body) and it.extras or key or unique or tells(body)) and true or false
    expect(it.extras == says, name .. " is leased without the flag for its extras")
  end
end
expect(all == leased, "leased events are counted wrongly")
for field, value in pairs(held) do
  if #field == 16 then
    expect((batches[field] or 0) == tonumber(held["#" .. field] or 0) and batches[field],
      "the leases of batch " .. hex(field) .. " are counted wrongly")
  else
    expect(held[sub(field, 2)], "batch " .. hex(sub(field, 2)) .. " is counted but missing")
  end
end
for _, node in ipairs(all_nodes()) do
  expect(node.kept == (kept[node.id] or 0) and node.timed == (timed[node.id] or 0),
    "the leases of node " .. hex(node.id) .. " are counted wrongly")
  expect(node.last > node.to or node.kept <= node.says, "node " .. hex(node.id) .. " holds "
    .. node.kept .. " leases and reported " .. node.says)
  expect(ARGV[2] == "" or node.kept == 0 or now - node.seen <= tonumber(ARGV[2]), "node "
    .. hex(node.id) .. " holds " .. node.kept .. " leases and has been silent for too long")
  expect(not node.reaping or node.kept > 0, "node " .. hex(node.id) .. " is reaped without leases")
  kept[node.id], timed[node.id] = nil, nil
end
expect(next(kept) == nil and next(timed) == nil, "a node with leases is unknown")

-- The outbox: entries and the journal's position are below the next number.
local last = call("XREVRANGE", OUTBOX, "+", "-", "COUNT", 1)[1]
expect(not last or tonumber(last[1]:match("^%d+")) < record, "an entry of the outbox is beyond the "
  .. "next number")
expect(tonumber(call("HGET", META, "trimmed") or 0) < record, "records are trimmed that were never "
  .. "written")

for id in pairs(delay) do
  expect(bodies[id], hex(id) .. " is in the delay set and has no body")
end
local keyed, found = 0, 0
for id in pairs(bodies) do
  expect(states[id] or delay[id], hex(id) .. " has a body and no state")
  expect(call("HSTRLEN", BODY, id) <= longest, hex(id) .. " has a body longer than the longest")
  keyed = keyed + (keys_of(call("HGET", BODY, id) or nil) and 1 or 0)
end
for _, entry_of in ipairs(call("ZRANGE", BY_KEY, 0, -1)) do
  local id = sub(entry_of, -16)
  local body = call("HGET", BODY, id)
  if not (body and is_newer(body)) then
    local key = keys_of(body)
    expect(key and key_entry(key, id) == entry_of, hex(id) .. " is indexed under another key")
    found = found + 1
  end
end
expect(keyed == found, keyed .. " events have a key, " .. found .. " are indexed by one")
local holds = 0
for unique, id in pairs(pairs_of(call("HGETALL", UNIQUE))) do
  if #id > 16 then
    local until_ms = call("ZSCORE", HOLDS, unique)
    expect(until_ms and tonumber(until_ms) == number_at(id, 17), hex(id) .. " is done and its unique "
      .. "key is reserved until another time")
    holds = holds + 1
  else
    local body = call("HGET", BODY, id)
    local _, its = keys_of(body)
    local is_own = its == unique or (body and is_newer(body))
    expect(is_own and not dead[id], hex(id) .. " has a unique key that is not its own")
  end
end
expect(holds == call("ZCARD", HOLDS), "reserved unique keys are counted wrongly")
return wrong
