-- Script: takes back the leases of silent nodes and those past their own deadline. Counts that are wrong are made
-- anew, where that is little work; nodes that hold nothing and were silent for a day are forgotten, and so are
-- unique keys whose time is over.
local ENTRIES_MAX, IDS_MAX = 256, 1024 -- of a ready list that is counted; the first of leases, too
local LAST = string.rep("\255", 8) -- beyond every request
local SOME = 16 -- nodes of which a call looks for leftovers, and requests of one that is counted

-- Counts the events of a ready list that is not long.
local function count_ready()
  local entries = call("LLEN", READY) <= ENTRIES_MAX and call("LRANGE", READY, 0, ENTRIES_MAX - 1) or nil
  local ids, numbers, live, seen = {}, {}, 0, {}
  read_pages(entries or {})
  for _, entry_of in ipairs(entries or {}) do
    local part, its_ids, number_of = read_entry(entry_of)
    live = live + (part and not seen[entry_of] and part.count or 0)
    for _, id in ipairs(its_ids) do
      ids[#ids + 1], numbers[#ids + 1] = id, number_of
    end
    seen[entry_of] = true
  end
  if not entries or #ids > IDS_MAX then
    return
  end
  for i, state in ipairs(read_all("HMGET", STATE, ids)) do
    if is_placed(state, numbers[i]) and not seen[ids[i]] then
      live, seen[ids[i]] = live + 1, true
    end
  end
  surplus = #entries - live
end

-- Subtracts leases that are still counted of a node and that no request has, left by a call that failed
-- midway.
local function forget_leases(id, node)
  if node and node.kept > 0 and not batches_of(id, ZERO, LAST)() then
    leased, node.kept, node.reaping = leased - node.kept, 0, false
    keep_node(id, node)
  end
end

-- Counts the leases of a node that last as long as its heartbeat, where they are of few requests.
local function count_kept(id, node)
  local batches = call("ZRANGE", REQUESTS, "[" .. id .. ZERO, "[" .. id .. LAST, "BYLEX", "LIMIT", 0, SOME + 1)
  if #batches > 0 and #batches <= SOME then
    local kept, fields = 0, {}
    for i, batch in ipairs(batches) do
      fields[i] = "#" .. batch
    end
    for _, count in ipairs(read_all("HMGET", HELD, fields)) do
      kept = kept + (tonumber(count or 0))
    end
    if kept ~= node.kept then
      leased, node.kept, node.reaping = leased - node.kept + kept, kept, node.reaping and kept > 0
      keep_node(id, node)
    end
  elseif #batches == 0 then
    forget_leases(id, node)
  end
end

-- Returns how many leases with deadlines each node holds, where they are few.
local function count_timed()
  local ids = call("ZCARD", LEASE) <= ENTRIES_MAX and call("ZRANGE", LEASE, 0, ENTRIES_MAX - 1) or nil
  local by_node = ids and {}
  for _, packed in ipairs(read_all("HMGET", STATE, ids or {})) do
    local it = packed and read_state(packed)
    if it and it.kind == "L" and it.timed then
      local holder = sub(it.token, 1, 8)
      by_node[holder] = (by_node[holder] or 0) + 1
    end
  end
  return by_node
end

-- Each call:
check_lease_keys()
count_ready()
look_first()
local HOLDERS_MAX = RUST.BATCH_MAX
local FREED_MAX, MANY = 250, 100 -- unique keys; leases: a call that takes back so many does nothing else
local SILENT_MAX = 86400000000 -- us until a node that holds nothing is forgotten
local emptied = {} -- nodes without leases left
local holders = {} -- nodes with leases that last as long as their heartbeat, by their ids

for i = ARGV.rest, #ARGV, ARGV.width do
  local node = node_of(ARGV.silent[i])
  if node and node.kept > 0 and node.beat == tonumber(ARGV.beat[i]) and not node.reaping then
    node.reaping, node.lost = true, true
    keep_node(ARGV.silent[i], node)
  end
end

local function reap_node(id, node)
  for batch in batches_of(id, ZERO, LAST) do -- `LOOKED_MAX` ids
    if is_full() or not take_batch(node, batch, {}) then
      return
    end
  end
  emptied[#emptied + 1] = id
end

-- Where there may be more than are looked at, each minute has others: a node is silent only to who sees it
-- again and again.
local minute = math.floor(now / 60000000)
local first = call("ZCARD", REQUESTS) > HOLDERS_MAX and char(math.fmod(97 * minute, 256)) or ""
local from, to, is_around = first == "" and "-" or "[" .. first, "+", first == ""
while #holders < HOLDERS_MAX do -- nodes that hold something
  local batch = call("ZRANGE", REQUESTS, from, to, "BYLEX", "LIMIT", 0, 1)[1]
  if batch then
    holders[#holders + 1] = sub(batch, 1, 8)
    from = "(" .. sub(batch, 1, 8) .. LAST
  elseif is_around then
    break
  else
    from, to, is_around = "-", "(" .. first, true
  end
end
for _, id in ipairs(holders) do
  local node = node_of(id)
  if node and node.reaping and not is_full() then
    reap_node(id, node)
  end
end

take_overdue()

write_taken()
for _, id in ipairs(emptied) do
  forget_leases(id, node_of(id))
end
local some, all = call("HRANDFIELD", NODES, SOME, "WITHVALUES"), 0
local timed = count_timed()
for i = 1, #some, 2 do
  local node = read_node(some[i + 1])
  local its = timed and timed[some[i]] or 0
  if timed and node.timed ~= its then
    leased, node.timed = leased - node.timed + its, its
    keep_node(some[i], node)
  end
  count_kept(some[i], node)
  all = all + node.kept + node.timed
  if node.kept + node.timed == 0 and node.seen + SILENT_MAX < now then
    call("HDEL", NODES, some[i])
  end
end
if #some < 2 * SOME then -- there are no others
  leased = all
end
if taken < MANY then
  forget(false)
end

-- Frees unique keys that events which are done have reserved until now.
local freed = taken < MANY and FREED_MAX or 0
for _, unique in ipairs(call("ZRANGE", HOLDS, "-inf", now_ms, "BYSCORE", "LIMIT", 0, freed)) do
  local its = call("HGET", UNIQUE, unique)
  if its and #its > 16 and number_at(its, 17) <= now_ms then
    call("HDEL", UNIQUE, unique)
  end
  call("ZREM", HOLDS, unique)
end

local earlier_ready, earlier_dead = taken_earlier()
if earlier_ready + earlier_dead > 0 then
  call("HDEL", META, "taken")
end
local more = has_overdue()
local deadline = call("ZRANGE", LEASE, 0, 0, "WITHSCORES")[2]
local reply = REPLY { now = now, earlier = wake(ARGV.origin), ready = earlier_ready + ready,
  dead = earlier_dead + #dead / 2, more = 0, next_deadline = deadline and tonumber(deadline) or false }
for _, id in ipairs(holders) do
  local node = node_of(id)
  if node and node.kept > 0 then
    more = more or node.reaping
    reply[#reply + 1], reply[#reply + 2] = id, node.beat
  end
end
reply[REPLY.more] = more and 1 or 0
keep_counts()
return reply
