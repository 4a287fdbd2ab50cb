-- Library: leases that are taken back from their node.
--
-- ARGV[5]  limit of events to take back, at most 1000
local limit = math.min(tonumber(ARGV[5]), 1000)
check_keys()
call("ZCARD", LEASE)
local back, front, dead, delayed, changes, uniques = {}, {}, {}, {}, {}, {}
local deadlines, ended = {}, {} -- leases that end: ids; node -> the arguments of `end_leases`
local taken, ready = 0, 0

local function is_full()
  return taken >= limit or is_spent()
end

-- Returns whether a handler of a node may have started on the lease at index `place` of a batch,
-- from 1; `request` is encoded.
local function may_have_started(node, request, place)
  local number = number_at(request, 1)
  return number < node.started or (number == node.started and place <= node.first)
end

-- Hands back an event whose handler never started, like a release by its node.
local function hand_back(id, state)
  local head, rest = char(byte(state, 2) % 2) .. sub(state, 3, 4), sub(state, 21, 45)
  taken, ready = taken + 1, ready + 1
  changes[2 * taken - 1] = id
  if number_at(state, 5) <= now_ms then
    front[#front + 1] = id .. number
    changes[2 * taken] = "R" .. head .. sub(state, 5, 20) .. rest .. number
  else
    delayed[#delayed + 1], delayed[#delayed + 2] = number_at(state, 5), id
    changes[2 * taken] = "S" .. head .. sub(state, 5, 12) .. ZERO .. rest
  end
end

-- Takes a lease back. The attempt counts, as its handler may have started; unless its node never
-- announced a start, which a node does first.
local function take_back(id, state, is_unstarted)
  if is_unstarted then
    return hand_back(id, state)
  end
  local attempt = attempt_of(state)
  local allowed = byte(state, 70) * 256 + byte(state, 71)
  local head = "\1" .. u16(math.min(attempt + 1, 65535))
  local due, rest = sub(state, 5, 12), sub(state, 21, 45)
  local key, unique, more, is_left
  if byte(state, 2) >= 4 then
    local body = read_body(id)
    is_left = body and is_newer(body) -- its unique key: only its own version may end it
    key, unique = keys_of(body)
    more = more_of(body)
  end
  note(id, "\8", "\6", attempt, due, sub(state, 13, 20), sub(state, 62, 69) .. ZERO,
    sub(state, 46, 53), key, nil, more)
  taken = taken + 1
  changes[2 * taken - 1] = id
  if attempt >= allowed and not is_left then
    dead[#dead + 1], dead[#dead + 2] = 0, id
    changes[2 * taken] = "D" .. head .. due .. u64(now) .. rest
    if unique then
      uniques[#uniques + 1] = { id, unique }
    end
  else
    ready = ready + 1
    if number_at(state, 5) <= now_ms then
      back[#back + 1] = id .. number
      changes[2 * taken] = "R" .. head .. due .. u64(now) .. rest .. number
    else -- it was prefetched: back to waiting
      delayed[#delayed + 1], delayed[#delayed + 2] = number_at(state, 5), id
      changes[2 * taken] = "S" .. head .. due .. ZERO .. rest
    end
  end
end

-- Counts a lease that ends, either one that lasts as long as the heartbeat or one with a deadline.
local function end_lease(state, has_deadline)
  local holder, request = sub(state, 46, 53), sub(state, 54, 61)
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
local function is_kept(state, batch)
  return state and byte(state) == 76 and sub(state, 46, 61) == batch
    and math.floor(byte(state, 2) / 2) % 2 == 0
end

-- Writes the events taken back.
--
-- Redis does not roll a script back. So the records come first, and an event is inserted at its
-- destination before its state says so: an event left half done is still leased, and the next call
-- does all of it.
local function write_taken()
  write_records()
  if #dead > 0 then
    call("ZADD", DEAD, unpack(dead))
  end
  if #delayed > 0 then
    call("ZADD", DELAY, unpack(delayed))
  end
  if #back > 0 then
    call("RPUSH", READY, unpack(back))
  end
  put_first(front)
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
