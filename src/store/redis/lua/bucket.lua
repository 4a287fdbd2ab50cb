-- Library: the preamble of every script on a bucket: keys, clock, counters. A script is called with
-- the keys that it and its libraries name.
--
-- META     hash    counts (five doubles: the latest time ever given, us; leased events; entries of the
--                  ready list beyond the ready events, negative where entries stand for several;
--                  the last number of an entry; tombstones; and four more unless all are 0: the first
--                  place, from 0, of the gap in the ready list and the place behind it, see
--                  sweep.lua; how many events have expired, and how many were too late, since the
--                  last move or fetch, which tells of it; and what a call notes that is about to
--                  change STATE, see `keep_counts`), record (next number assigned), forgotten
--                  (creation time of the newest forgotten id, ms), ahead (that of those whose time was
--                  still to come then, once there are any), trimmed (last record in the
--                  journal), longest (upper bound of body lengths, bytes), doubt (since when the
--                  server's clock is not believed, us), kept (two doubles: how many records the
--                  outbox keeps for the processes that have a limit of it, from RECORDS_END on all,
--                  and pushes are refused where as many wait as are beyond it; and until when, us,
--                  others keep as many), taken (two doubles: how many leases past their deadline were
--                  ended since the last reap, which tells of them, by whether their events wait or are
--                  dead)
-- STATE    hash    id -> state of the event, see state.lua. Plain events that were pushed together
--                  and wait: see page.lua, as of BODY, DELAY, READY and SIZES
-- BODY     hash    id -> envelope
-- DELAY    zset    id -> due time, ms
-- READY    list    id .. number of the entry
-- LEASE    zset    id -> deadline, ms, of leases with a deadline of their own
-- NODES    hash    node -> its record, see nodes.lua
-- HELD     hash    node .. request -> a batch: the ids of a fetch;
--                  "#" .. node .. request -> how many events of it are still leased
-- REQUESTS zset    node .. request -> 0, of batches whose leases last as long as the heartbeat, so that
--                  those of a node follow each other in the order of its requests
-- DEAD     zset    id -> 0, so that it is ordered by id
-- UNIQUE   hash    unique key -> id; for a done event whose key is reserved for a while,
--                  id .. until when, ms
-- PAST     list    tombstones of ended events, the oldest first: a time, us, and some ids
-- OUTBOX   stream  records; the id of an entry is the number of its first record
-- WAKE     channel for notifications of earlier work in the bucket
-- BY_KEY   zset    length of the key .. key .. id -> 0, of events that have a key and have
--                  not ended, so that those of one key are ordered by id
-- HOLDS    zset    unique key -> until when a done event reserves it, ms
-- EXPIRY   zset    id -> from when on an event that waits is of no use, us, see expiring.lua
--
-- One clock for all nodes: the server's. Where it has stepped against the caller's, the one is believed
-- that is nearer to the time of the last call on this bucket, until the server's has stood for ten seconds,
-- as calls saw that were no further apart. So time never goes back within a bucket, unless the bucket is
-- ahead of both. Only where the server's is not believed is the time of the reply the caller's very own; who
-- reads that calls again until it is over, see op/doubted.rs.
--
-- The argument is the time, for tests, or with a `-` what the caller takes the server's for, or nothing.
-- A blank behind it: what is over, and could not be ended, is not to be ended first.
local COUNTS, MORE = ">ddddd", ">dddd"
local RECORDS = 1 -- the record format that this version writes, and the newest that it reads
local meta -- what was read of META; and the four counts more: gap_from, gap_to, expired, late
local now, now_ms, record, longest
local last_now, leased, surplus, entry, past
-- The number, encoded, of this call's entries in the ready list. An event that leaves the list
-- leaves its entry behind, so that nothing has to be searched; the number identifies its current
-- entry, as no call inserts an event twice. A call has another one from each note on, see `keep_counts`.
local number
local differs_since -- since when the server's clock is not believed

local STEP, STANDS = 1000000, 10000000 -- us
local CHUNK = 4000 -- arguments of one command; Lua can unpack some 7,990

-- Writes the counts back, all in one field, as each field more would cost every call: the last
-- step of a script. One that adds entries to the ready list does so before that, too: no call after
-- it may use their number again, also if it fails midway. Where the bucket has none, only a script that
-- `adds` writes them: what reads leaves nothing behind in a bucket that does not exist.
--
-- Before a call adds `longer` entries and then changes by `by` how many events are ready, with one
-- `HSET` of STATE, it notes behind all counts how many are ready then, `by`, and one of these fields:
-- if it fails, the next call sees by that field whether it came so far, see state.lua. Builds that
-- know of no notes read what is in front.
local function keep_counts(adds, by, longer, field)
  if meta[1] or adds or leased > 0 then
    local counts = pack(COUNTS, now, leased, surplus, entry + 1, past)
    if by or meta.gap_to + meta.expired + meta.late > 0 then
      counts = counts .. pack(MORE, meta.gap_from, meta.gap_to, meta.expired, meta.late)
    end
    if by then
      counts = counts .. pack(">di4", call("LLEN", READY) + longer - surplus, by) .. field
    end
    call("HSET", META, "counts", counts)
    local since = differs_since and string.format("%.0f", differs_since)
    if since and since ~= meta[6] then
      call("HSET", META, "doubt", since)
    elseif meta[6] and not differs_since then
      call("HDEL", META, "doubt")
    end
  end
  if by then -- by this number alone it would seem that a page has changed which is to change once more
    entry = entry + 1
    number = pack(">I8", entry + 1)
  end
end

-- Calls a command that writes with all of a list, or its first `len`: with `CHUNK` at a time.
local function write_all(command, key, list, len)
  len = len or #list
  for from = 1, len, CHUNK do -- of a list
    call(command, key, unpack(list, from, math.min(from + CHUNK - 1, len)))
  end
end

-- Returns the replies of a command to each of a list, which it reads with `CHUNK` at a time.
local function read_all(command, key, list)
  local replies = {}
  for from = 1, #list, CHUNK do
    local some = call(command, key, unpack(list, from, math.min(from + CHUNK - 1, #list)))
    if from == 1 then
      replies = some
    else
      for i = 1, #some do
        replies[from + i - 1] = some[i]
      end
    end
  end
  return replies
end

local function u64(number)
  return pack(">I8", number)
end

local function number_at(state, from)
  return (unpack_from(">I8", state, from))
end

-- Encodes a number below 65536.
local function u16(number)
  return char(math.floor(number / 256), number % 256)
end

-- Returns the ids of a batch.
local function ids_of_batch(batch)
  local ids = {}
  for at = 1, #batch - 15, 16 do
    ids[#ids + 1] = sub(batch, at, at + 15)
  end
  return ids
end

-- Returns the number of ready events. An event that leaves the ready list leaves its entry there,
-- so that nothing has to be searched: such stale entries are surplus.
local function ready_len()
  local len = call("LLEN", READY)
  surplus = len > 0 and surplus or 0
  return math.max(len - surplus, 0)
end

-- Notes that `by` entries were inserted at the head of the ready list, or, if negative, removed.
local function move_gap(by)
  if meta.gap_to > 0 then
    meta.gap_from, meta.gap_to = math.max(meta.gap_from + by, 0), math.max(meta.gap_to + by, 0)
  end
end

local function next_due()
  local head = call("ZRANGE", DELAY, 0, 0, "WITHSCORES")
  return head[2] and tonumber(head[2])
end

-- Returns the time; `expected`: the server's, as the caller knows it. A call that was under way for
-- longer than a step is as one whose server has stepped.
local function time_of(expected)
  local time = call("TIME")
  local server = time[1] * 1000000 + time[2]
  if not expected or math.abs(server - expected) <= STEP then
    expected = server == expected and server + 1 or server
  elseif last_now > 0 and math.abs(server - last_now) < math.abs(expected - last_now) then
    expected = server -- another process knows better
  else
    local since = expected - last_now <= STANDS and tonumber(meta[6]) or expected
    differs_since = math.min(since, expected)
    if expected - differs_since >= STANDS then
      expected, differs_since = server, nil
    end
  end
  if last_now > math.max(server, expected) + 2 * STEP then
    last_now = expected -- from a time when the clock was ahead
  end
  return expected
end

-- Each call:
meta = call("HMGET", META, "counts", "record", "longest", "forgotten", "trimmed", "doubt",
  "kept")
differs_since = nil
last_now, leased, surplus, entry, past = 0, 0, 0, 0, 0
meta.gap_from, meta.gap_to, meta.expired, meta.late = 0, 0, 0, 0
if meta[1] then
  last_now, leased, surplus, entry, past = unpack_from(COUNTS, meta[1])
  if #meta[1] > 40 then
    meta.gap_from, meta.gap_to, meta.expired, meta.late = unpack_from(MORE, meta[1], 41)
  end
end
now = tonumber(ARGV.now)
if not now or now < 0 then
  now = time_of(now and -now)
end
now = math.max(now, last_now)
now_ms = math.floor(now / 1000)
record = tonumber(meta[2] or 1)
longest = tonumber(meta[3] or 0)
number = u64(entry + 1)
