-- Library: leases that are taken back from their node.
local LOOKED_MAX = 4000 -- the most ids of batches that one call examines
local BATCHES = 100 -- read at once
local limit, taken, ready, looked
local changes, uniques
local deadlines, ended -- leases that end: ids; node -> the arguments of `end_leases`

local function is_full()
  return taken >= limit or looked >= LOOKED_MAX or is_spent()
end

-- Returns whether a handler of a node may have started on the lease at index `place` of a batch,
-- from 1; `request` is encoded.
local function may_have_started(node, request, place)
  local number = number_at(request, 1)
  return number < node.started or (number == node.started and place <= node.first)
end

-- Takes a lease back. The attempt counts, as its handler may have started; unless its node never
-- announced a start, which a node does first: then it is handed back, as by its node.
local function take_back(id, it, is_unstarted)
  local attempt, is_dead = it.attempt, false
  if is_unstarted then
    hand_back(id, it)
  else
    local key, unique, more, is_left
    if it.extras then
      local body = read_body(id)
      is_left = body and is_newer(body) -- its unique key: only its own version may end it
      key, unique = keys_of(body)
      more = more_of(body)
    end
    note(id, "\8", "\6", attempt, it.due, it.moved, it.fetched .. ZERO, sub(it.token, 1, 8), key, nil, more)
    it.lost, it.attempt = true, math.min(attempt + 1, 65535)
    is_dead = attempt >= it.allowed and not is_left
    if is_dead then
      bury(id, it)
      uniques[#uniques + 1] = unique and { id, unique } or nil
    else
      wait(id, it, number_at(it.due, 1))
    end
  end
  taken, ready = taken + 1, ready + (is_dead and 0 or 1)
  changes[2 * taken - 1], changes[2 * taken] = id, write_state(it)
end

-- Counts leases under a token that end, either ones that last as long as the heartbeat or ones with
-- deadlines.
local function end_lease(token, has_deadline, count)
  local holder, request = sub(token, 1, 8), sub(token, 9)
  local of = ended[holder] or { kept = {}, timed = {} }
  local by_request = has_deadline and of.timed or of.kept
  by_request[request] = (by_request[request] or 0) + (count or 1)
  ended[holder] = of
end

-- Iterates over the batches of a node whose leases last as long as its heartbeat, from one request to
-- another, encoded, the first one first.
local function batches_of(id, from, to)
  local batches, at, read = {}, 0, 0
  return function()
    if at == #batches then
      batches = call("ZRANGE", REQUESTS, "[" .. id .. from, "[" .. id .. to, "BYLEX", "LIMIT", read, BATCHES)
      at, read = 0, read + #batches
    end
    at = at + 1
    return batches[at]
  end
end

-- Takes back what is leased in a batch and not in `holds`, until the call `is_full`. Returns whether it
-- has looked at all. What is counted of the batch beyond its leases, or is not, was left by a call that
-- failed midway.
local function take_batch(node, batch, holds)
  local ids, leases = ids_of_batch(call("HGET", HELD, batch) or ""), 0
  looked = looked + #ids
  local states, was = read_all("HMGET", STATE, ids), taken
  for i, id in ipairs(ids) do
    if is_under(states[i], batch) then
      leases = leases + 1
      if not holds[id] then
        if taken >= limit or is_spent() then
          end_lease(batch, false, taken - was)
          return false
        end
        take_back(id, read_state(states[i]), not may_have_started(node, sub(batch, 9), i))
      end
    end
  end
  end_lease(batch, false, taken - was + tonumber(call("HGET", HELD, "#" .. batch) or 0) - leases)
  return true
end

-- Takes back leases that are past their own deadline, the first first.
local function take_overdue()
  local past_deadline = not is_full()
    and call("ZRANGE", LEASE, "-inf", now_ms, "BYSCORE", "LIMIT", 0, limit - taken) or {}
  for i, packed in ipairs(read_all("HMGET", STATE, past_deadline)) do
    if is_full() then
      break
    end
    deadlines[i] = past_deadline[i]
    local it = packed and read_state(packed)
    if it and it.kind == "L" and it.timed then
      take_back(past_deadline[i], it)
      end_lease(it.token, true)
    end
  end
end

-- Returns whether the lease of an event is past its own deadline.
local function has_overdue()
  return #call("ZRANGE", LEASE, "-inf", now_ms, "BYSCORE", "LIMIT", 0, 1) > 0
end

-- Writes the events taken back; the records come first.
local function write_taken()
  write_records()
  put_back()
  write_all("HSET", STATE, changes)
  for _, it in ipairs(uniques) do
    free_unique(it[1], it[2])
  end
  write_all("ZREM", LEASE, deadlines)
  for holder, of in pairs(ended) do
    local node = node_of(holder)
    if node then
      end_leases(holder, node, of.kept, of.timed)
    end
  end
end

-- Each call:
limit, taken, ready, looked = math.min(tonumber(ARGV.take_max), RUST.BATCH_MAX), 0, 0, 0
changes, uniques, deadlines, ended = {}, {}, {}, {}
