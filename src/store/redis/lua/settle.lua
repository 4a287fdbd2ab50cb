-- Script: ends attempts, each only under its own lease, and writes their records.
local FREED_PER_READ = 4 -- removing a body takes at most a quarter of the time of reading it

local function delayed_ms(said)
  local delay = math.min(number_at(said, 26), tonumber(ARGV.delay_max))
  return delay == 0 and now_ms or math.ceil((now + delay) / 1000)
end

-- Returns what an end needs of a body: how long its unique key stays reserved, key and unique key, and
-- the extras of its record.
local function extras_to_end(id)
  local body = read_body(id)
  local key, unique = keys_of(body)
  return unique and unique_for(body), key, unique, more_of(body)
end

local AGAIN_MAX = 4000 -- ids of batches that are counted anew

-- Returns how many leases of a request are counted beyond those that there are, and whether they last as long
-- as the heartbeat.
local function counted_beyond(request)
  local batch = ARGV.node .. request
  local ids, leases = ids_of_batch(call("HGET", HELD, batch) or ""), 0
  for _, state in ipairs(read_all("HMGET", STATE, ids)) do
    leases = leases + (is_under(state, batch) and 1 or 0)
  end
  local counted = tonumber(call("HGET", HELD, "#" .. batch) or 0)
  return math.max(counted - leases, 0), call("ZSCORE", REQUESTS, batch), #ids
end

-- Keys of a wrong type fail the call here, before it writes. Returns whether any event can expire.
local function check_settled(keyed, uniques, deadlines)
  call("LLEN", PAST)
  local _ = #keyed > 0 and call("ZCARD", BY_KEY)
  _ = #uniques > 0 and call("HLEN", UNIQUE) + call("ZCARD", HOLDS)
  _ = #deadlines > 0 and call("ZCARD", LEASE)
  return call("ZCARD", EXPIRY) > 0
end

-- Each call:
local me = ARGV.node
local runs, at, count, ids = {}, ARGV.rest, 0, {}
while at <= #ARGV do -- a thousand settlements at most
  local acks = tonumber(ARGV.acks[at])
  local run = { at = at, acks = acks, request = ARGV.request[at], said = ARGV.said[at], first = #ids }
  if acks == 0 then
    run.id, at = ARGV.id[at], at + 1 -- one value more
    ids[#ids + 1] = run.id
  end
  for i = 1, acks do -- of the settlements of the call
    ids[run.first + i] = sub(run.said, 32 * i - 31, 32 * i - 16)
  end
  runs[#runs + 1], at = run, at + ARGV.width
end
count = #ids
local function announce_starts(node)
  return node and announce(node, tonumber(ARGV.started), tonumber(ARGV.starts))
end

if count == 0 then
  local node = node_of(me)
  if announce_starts(node) then
    keep_node(me, node)
  end
  keep_counts()
  return REPLY { now = now, earlier = 0, accepted = "" }
end
local states = read_all("HMGET", STATE, ids)
local changed, changes, changes_len = {}, {}, 0
local over = {} -- events that have ended
local uniques = {} -- unique keys of events that have ended, or died
local ended, timed, deadlines = {}, {}, {}
local keyed = {} -- index entries of events that have ended
local verdicts = {}
local again_of, is_again = {}, false -- requests of which settlements are repeated

local function put(id, state)
  changes[changes_len + 1], changes[changes_len + 2] = id, state
  changes_len = changes_len + 2
end

-- Ends an attempt in any way; `said` begins with the kind of settlement. Returns the new state.
local function conclude(id, it, said, times, verdict, settled, error)
  local attempt, allowed, due, moved = it.attempt, it.allowed, it.due, it.moved
  local period, key, unique, more
  if it.extras and verdict ~= 114 then
    period, key, unique, more = extras_to_end(id)
  end
  local function record(outcome, cause, number)
    note(id, outcome, cause, number, due, moved, times, me, key, error, more)
  end
  local function finish_as(kind, outcome, number)
    record(outcome, "\0", number)
    it.kind, it.moved = kind, finished
    over[#over + 1] = id
    keyed[#keyed + 1] = key and key_entry(key, id)
    uniques[#uniques + 1] = unique and { id, unique, reserved_until(kind, finished, period) } or nil
  end
  it.settled = settled
  local is_free = verdict == 105 and it.interruptions < byte(said, 35)
  if is_free then
    it.interruptions = it.interruptions + 1
  elseif verdict ~= 105 and verdict ~= 114 then
    it.interruptions = 0
  end
  if verdict == 114 then
    hand_back(id, it)
  elseif is_free then
    record("\12", sub(said, 34, 34), attempt)
    wait(id, it, delayed_ms(said))
  elseif verdict == 97 then
    finish_as("d", "\1", attempt)
  elseif verdict == 120 then
    finish_as("x", "\5", attempt)
  elseif verdict == 101 then
    finish_as("e", "\7", 0)
  elseif verdict == 122 then
    record("\3", "\0", attempt)
    wait(id, it, delayed_ms(said))
  else
    local is_retry = verdict == 116 or verdict == 105
    local cause = is_retry and sub(said, 34, 34) or sub(said, 26, 26)
    local has_begun = is_retry or cause ~= "\7" -- else it was too late
    it.attempt = has_begun and math.min(attempt + 1, 65535) or attempt
    if is_retry and attempt < allowed then
      record("\2", cause, attempt)
      wait(id, it, delayed_ms(said))
    else
      if byte(cause) >= 128 then -- a damaged body has no extras
        cause, key, more = char(byte(cause) - 128), nil, nil
      end
      record("\4", cause, has_begun and attempt or 0)
      bury(id, it)
      uniques[#uniques + 1] = unique and { id, unique } or nil
    end
  end
  return write_state(it)
end

-- Whether the bodies that end may exceed the limit of one call.
local is_heavy = count * longest > FREED_PER_READ * BUDGET

local function end_lease(it, request, id)
  if it.timed then
    timed[request] = (timed[request] or 0) + 1
    deadlines[#deadlines + 1] = id
  else
    ended[request] = (ended[request] or 0) + 1
  end
end

local record_end = finished .. me .. "\0\0\0\0"

-- Returns the verdict on what is not leased so any more: a repeat, also of one of this call, or a lost lease.
-- What is repeated may have failed midway, and what is left of it is done now: an event that has ended loses
-- its body last.
local function repeated(id, state, settled, request)
  if not is_settled(state, settled) then
    return "0"
  elseif not changed[id] then
    local kind = sub(state, 1, 1)
    local is_over = has_ended(kind)
    if (is_over or kind == "D") and call("HSTRLEN", BODY, id) > 0 then
      local period, key, unique = extras_to_end(id)
      over[#over + 1] = is_over and id or nil
      keyed[#keyed + 1] = is_over and key and key_entry(key, id) or nil
      uniques[#uniques + 1] = unique and { id, unique, reserved_until(kind, read_state(state).moved, period) } or nil
    end
    deadlines[#deadlines + 1] = kind ~= "L" and id or nil
    again_of[request], is_again = true, true
  end
  return "1"
end

-- Settles a run of acks, which is what nearly all settlements are.
local function settle_acks(run)
  local token, settled = me .. run.request, me .. run.request .. "a"
  local plain = 0
  for i = 1, run.acks do -- of the settlements of the call
    if is_spent() then
      break
    end
    local id, state = ids[run.first + i], states[run.first + i]
    local times = sub(run.said, 32 * i - 15, 32 * i)
    if not is_under(state, token) then
      verdicts[#verdicts + 1] = repeated(id, state, settled, run.request)
    else
      verdicts[#verdicts + 1] = "1"
      if is_plain_lease(state) then
        plain = plain + 1
        records[#records + 1] = id .. "\1\0" .. times_of(state) .. times .. record_end
        put(id, ack_state(state, finished, settled))
        over[#over + 1] = id
        if is_heavy then
          spent = spent + call("HSTRLEN", BODY, id) / FREED_PER_READ
        end
      else
        local it = read_state(state)
        end_lease(it, run.request, id)
        put(id, conclude(id, it, "a", times, 97, settled))
      end
    end
  end
  if plain > 0 then
    ended[run.request] = (ended[run.request] or 0) + plain
  end
end

local function settle_one(run)
  local id, said, error = run.id, ARGV.settlement[run.at], ARGV.error[run.at]
  local state = changed[id] or states[run.first + 1] -- an id may occur twice, under two leases
  local it = state and read_state(state)
  local verdict, request = byte(said), sub(said, 2, 9)
  local settled = me .. request .. char(verdict)
  if not (it and it.kind == "L" and it.token == me .. request) then
    verdicts[#verdicts + 1] = repeated(id, state, settled, request)
    return
  end
  end_lease(it, request, id)
  changed[id] = conclude(id, it, said, sub(said, 10, 25), verdict, settled,
    error ~= "" and sub(error, 2) or nil)
  put(id, changed[id])
  verdicts[#verdicts + 1] = "1"
end

for _, run in ipairs(runs) do
  if is_spent() then
    break
  elseif run.id then
    settle_one(run)
  else
    settle_acks(run)
  end
end

local counted = 0
for request in pairs(again_of) do
  if counted < AGAIN_MAX then
    local beyond, is_kept, looked = counted_beyond(request)
    local of = is_kept and ended or timed
    of[request], counted = beyond > 0 and (of[request] or 0) + beyond or of[request], counted + looked
  end
end

local node = node_of(me)
local is_news = announce_starts(node)
local is_back = is_any_back()
if is_back then
  look_first()
end
if changes_len > 0 or is_again then
  local can_expire = check_settled(keyed, uniques, deadlines)
  write_records()
  put_back()
  write_all("HSET", STATE, changes, changes_len)
  write_all("ZREM", BY_KEY, keyed)
  for _, it in ipairs(uniques) do
    if it[3] then
      hold_unique(it[1], it[2], it[3])
    else
      free_unique(it[1], it[2])
    end
  end
  if #over > 0 then
    if can_expire then
      write_all("ZREM", EXPIRY, over)
    end
    remember(over)
  end
  write_all("HDEL", BODY, over)
  if node then
    end_leases(me, node, ended, timed)
  end
  write_all("ZREM", LEASE, deadlines)
elseif is_news then
  keep_node(me, node)
end
local earlier = 0
if is_back then
  earlier = wake(ARGV.origin)
end
keep_counts()
return REPLY { now = now, earlier = earlier, accepted = table.concat(verdicts) }
