-- Library: the limit of body bytes that one call reads and removes.
--
-- A script blocks the server, some 2 ms for each MiB that it reads. So a call ends with the event
-- that exhausts its budget; it handles at least one, however long.
local BUDGET = RUST.BATCH_BYTES
local spent

local function is_spent()
  return spent >= BUDGET
end

-- Reads bodies of `ids` from index `from`, as many as surely fit and at least one. Returns them and
-- the index of the last.
local function read_bodies(ids, from)
  local fitting = math.floor((BUDGET - spent) / math.max(longest, 1))
  local to = math.min(#ids, from + CHUNK - 1, from + math.max(fitting, 1) - 1)
  local bodies = call("HMGET", BODY, unpack(ids, from, math.min(to, from + CHUNK - 1)))
  for i = 1, to - from + 1 do -- `CHUNK` bodies
    spent = spent + #(bodies[i] or "")
  end
  return bodies, to
end

local OPENED = 2048 -- bytes whose work equals that of an event that leaves a page

local KEPT_MAX = 140000 -- the payload of a longer body is kept in no record
local WORK = 16384 -- bytes whose work equals the fixed work of such an event

-- Charges what an event that gets a record takes beside the reading of its body: to keep its payload
-- costs three times as much again.
local function charge_end(bytes)
  spent = spent + WORK + (bytes <= KEPT_MAX and 3 * bytes or 0)
end

-- Reads the body of an event that gets a record.
local function read_body(id)
  local body = call("HGET", BODY, id)
  local bytes = #(body or "")
  spent = spent + bytes
  charge_end(bytes)
  return body
end

-- Raises the bound of body lengths before a body of `bytes` is written.
local function lengthen(bytes)
  if bytes > longest then
    longest = bytes
    call("HSET", META, "longest", longest)
  end
end

-- Each call:
spent = 0
