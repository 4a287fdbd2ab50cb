-- Library: leases that are taken back from their node.
--
-- ARGV[5]  limit of events to take back, at most 1000
local limit, taken, ready
local changes, uniques
local deadlines, ended -- leases that end: ids; node -> the arguments of `end_leases`

local function is_full()
  return taken >= limit or is_spent()
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

-- Counts a lease under a token that ends, either one that lasts as long as the heartbeat or one with a
-- deadline.
local function end_lease(token, has_deadline)
  local holder, request = sub(token, 1, 8), sub(token, 9)
  local of = ended[holder] or { kept = {}, timed = {} }
  local by_request = has_deadline and of.timed or of.kept
  by_request[request] = (by_request[request] or 0) + 1
  ended[holder] = of
end

-- Returns the batches of a node, the first request first.
local function batches_of(id)
  local batches = {}
  for _, field in ipairs(call("HKEYS", HELD)) do
    if #field == 16 and sub(field, 1, 8) == id then
      batches[#batches + 1] = field
    end
  end
  table.sort(batches, function(a, b)
    return number_at(a, 9) < number_at(b, 9)
  end)
  return batches
end

-- Returns the ids of a batch.
local function ids_of(batch)
  return ids_of_batch(call("HGET", HELD, batch))
end

-- Returns whether this is the state of an event leased in a batch, for as long as a heartbeat
-- lasts.
local function is_kept(it, batch)
  return it and it.kind == "L" and it.token == batch and not it.timed
end

-- Writes the events taken back; the records come first.
local function write_taken()
  write_records()
  put_back()
  if taken > 0 then
    call("HSET", STATE, unpack(changes))
  end
  for _, it in ipairs(uniques) do
    free_unique(it[1], it[2])
  end
  if #deadlines > 0 then
    call("ZREM", LEASE, unpack(deadlines))
  end
  for holder, of in pairs(ended) do
    local node = node_of(holder)
    if node then
      end_leases(holder, node, of.kept, of.timed)
    end
  end
end

-- Each call:
limit, taken, ready = math.min(tonumber(ARGV[5]), 1000), 0, 0
check_keys()
call("ZCARD", LEASE)
changes, uniques, deadlines, ended = {}, {}, {}, {}
