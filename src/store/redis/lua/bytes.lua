-- How many bytes of bodies one call reads and removes.
--
-- A server does nothing else while a script runs, and each MiB that a script reads takes it some
-- 2 ms. So a call ends with the event that uses its budget up: one at least, however long it is.
local BUDGET = 4194304 -- BATCH_BYTES of src/core/op/mod.rs
local spent = 0

local function is_spent()
  return spent >= BUDGET
end

-- Reads the bodies of `ids` from one place on, as many as surely fit and one at least. Returns them
-- and the place of the last.
local function read_bodies(ids, from)
  local fitting = math.floor((BUDGET - spent) / math.max(longest, 1))
  local to = math.min(#ids, from + math.max(fitting, 1) - 1)
  local bodies = call("HMGET", BODY, unpack(ids, from, to))
  for i = 1, to - from + 1 do
    spent = spent + #(bodies[i] or "")
  end
  return bodies, to
end

local KEPT_MAX = 140000 -- a longer body has a payload that no record keeps
local WORK = 16384 -- so many bytes are as much work as what such an event takes besides

-- Reads one body of an event that a record tells of: to keep its payload there is three times as much
-- work again.
local function read_body(id)
  local body = call("HGET", BODY, id)
  local bytes = #(body or "")
  spent = spent + WORK + (bytes <= KEPT_MAX and 4 or 1) * bytes
  return body
end

-- A body of so many bytes is about to be written.
local function lengthen(bytes)
  if bytes > longest then
    longest = bytes
    call("HSET", META, "longest", longest)
  end
end
