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
-- Pages: each event is counted, and each has its body there.
local pages, inside = {}, {}
for field, state in pairs(states) do
  if #field == 8 then
    pages[field], inside[field] = state, inside[field] or 0
  elseif is_in_page(state) then
    local page = sub(state, 2, 9)
    local own = own_state(state)
    expect(own, hex(field) .. " is in a page that is not there")
    if own and byte(own) ~= 100 then
      inside[page] = (inside[page] or 0) + 1
      expect(body_in_page(state), hex(field) .. " has no body in its page")
      bodies[field] = true
    end
  end
end
for page, of in pairs(pages) do
  local _, left = page_counts(of)
  expect(left == inside[page], "the events of page " .. hex(page) .. " are counted wrongly")
  local is_needed = byte(of) == 82 or left > 0
  expect(is_needed == (bodies[page] or false), "page " .. hex(page) .. " has a body or is empty, not both")
  states[page], bodies[page] = nil, nil
end
local dead, held = set_of(call("ZRANGE", DEAD, 0, -1)), pairs_of(call("HGETALL", HELD))

-- The ready list: every ready event has one entry of its own, and the others are counted.
local entries, live, own = call("LRANGE", READY, 0, -1), 0, {}
local function place(id, entry_of)
  if is_placed(states[id], entry_of) then
    expect(not own[id], hex(id) .. " is in the ready list twice")
    live, own[id] = live + 1, true
  end
end
for _, entry_of in ipairs(entries) do
  if #entry_of == 8 and pages[entry_of] then
    for _, id in events_of(entry_of, pages[entry_of]) do
      place(id, entry_of)
    end
  elseif #entry_of == 24 then
    place(sub(entry_of, 1, 16), sub(entry_of, 17))
  end
end
expect(#entries - live == surplus or #entries == 0, "entries of the ready list are counted wrongly: "
  .. #entries .. " of " .. live .. " events, " .. surplus .. " surplus")

-- Each ended event has one tombstone.
local remembered, count, goes = {}, 0, {}
for _, batch in ipairs(call("LRANGE", PAST, 0, -1)) do
  local from = 10 + 8 * unpack_from(">I2", batch, 9)
  for at = 11, from, 8 do
    goes[sub(batch, at, at + 7)] = true
  end
  for i = from + 1, #batch, 16 do
    local id = sub(batch, i, i + 15)
    expect(not remembered[id], hex(id) .. " has two tombstones")
    remembered[id], count = true, count + 1
    expect((own_state(states[id]) or ""):find("^[dce]"), hex(id) .. " has a tombstone but not ended")
  end
end
expect(count == past, "tombstones are counted wrongly")
for page, of in pairs(pages) do
  local _, left = page_counts(of)
  expect((byte(of) == 76 and left == 0) == (goes[page] or false), "page " .. hex(page)
    .. " goes with a tombstone or has events, not both")
end

local batches, kept, timed, all = {}, {}, {}, 0
for id, found in pairs(states) do
  local state = own_state(found) or found
  local kind, name = sub(state, 1, 1), hex(id)
  local is_over = kind == "d" or kind == "c" or kind == "e"
  expect((kind == "S") == (delay[id] or false), name .. " is in the delay set or scheduled, not both")
  expect((kind == "R") == (own[id] or false), name .. " is in the ready list or ready, not both")
  expect((kind == "D") == (dead[id] or false), name .. " is in the dead set or dead, not both")
  expect(is_over == (remembered[id] or false), name .. " has a tombstone or has ended, not both")
  expect(is_over ~= (bodies[id] or false), name .. " has a body and has ended, or neither")
  local has_deadline = kind == "L" and math.floor(byte(state, 2) / 2) % 2 == 1
  expect(has_deadline == (deadlines[id] or false), name .. " has a deadline in one place only")
  if kind == "L" then
    local batch, node = sub(state, 46, 61), sub(state, 46, 53)
    batches[batch], all = (batches[batch] or 0) + 1, all + 1
    local of = has_deadline and timed or kept
    of[node] = (of[node] or 0) + 1
    expect((held[batch] or ""):find(id, 1, true), name .. " is leased and not in its batch")
    local body = is_in_page(found) and body_in_page(found) or call("HGET", BODY, id)
    local key, unique = keys_of(body)
    local says = body and (is_newer(body) and byte(state, 2) >= 4 or key or unique or tells(body)) and true or false
    expect((byte(state, 2) >= 4) == says, name .. " is leased without the flag for its extras")
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
