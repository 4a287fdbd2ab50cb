-- Library: the record of a node in this bucket, from its first fetch on.
--
--   beat     its last heartbeat; a fetch that leases something counts as one
--   last     its greatest request number, 0 before the first
--   refused  the fetch that was refused because the node was reaped, 0 before the first
--   kept     how many leases it has that last as long as its heartbeat
--   timed    how many with deadlines of their own
--   lost     it was reaped, and no fetch has been refused since
--   reaping  it is being reaped, and still holds something
--   seen     the time of its last call, us
--   started  the last fetch on whose leases handlers may have started, and `first` on how many of
--            them, from the first one; on all of those before it they may have
--   says     how many leases it reported by its requests up to `to`, in its last heartbeat; for
--            the audit alone
local NODES_MAX = 256 -- beyond this, nodes without leases are removed, the longest silent of as many first

local function read_node(packed)
  local beat, last, refused, kept, timed, lost, reaping, seen, says, to, started, first =
    unpack_from(">I8I8I8I4I4BBI8I4I8I8I4", packed)
  return {
    beat = beat, last = last, refused = refused, kept = kept, timed = timed,
    lost = lost == 1, reaping = reaping == 1, seen = seen, says = says, to = to,
    started = started, first = first,
  }
end

-- Records that handlers of a node may have started up to there. Returns whether that is a change.
local function announce(node, request, first)
  if request > node.started or (request == node.started and first > node.first) then
    node.started, node.first = request, first
    return true
  end
  return false
end

local function node_of(id)
  local packed = call("HGET", NODES, id)
  return packed and read_node(packed)
end

-- Keeps the record of a node, but not in a bucket that does not exist.
local function keep_node(id, node)
  if meta[1] or node.kept + node.timed > 0 then
    call("HSET", NODES, id, pack(">I8I8I8I4I4BBI8I4I8I8I4", node.beat, node.last, node.refused, node.kept,
      node.timed, node.lost and 1 or 0, node.reaping and 1 or 0, node.seen, node.says, node.to,
      node.started, node.first))
  end
end

-- Returns the record of a node, a new one before its first fetch.
local function node_for(id)
  local node = node_of(id)
  if node then
    return node
  end
  if call("HLEN", NODES) >= NODES_MAX then
    local some, idle = call("HRANDFIELD", NODES, NODES_MAX, "WITHVALUES"), {}
    for i = 1, #some, 2 do
      local other = read_node(some[i + 1])
      if other.kept + other.timed == 0 then
        other.id, idle[#idle + 1] = some[i], other
      end
    end
    table.sort(idle, function(a, b) return a.seen < b.seen end)
    for i = 1, math.min(#idle, 2) do -- one more than comes, so that there are few again
      call("HDEL", NODES, idle[i].id)
    end
  end
  return { beat = 0, last = 0, refused = 0, kept = 0, timed = 0, seen = now, says = 0, to = 0,
    started = 0, first = 0 }
end

local function drop_batch(batch)
  call("HDEL", HELD, "#" .. batch, batch)
  call("ZREM", REQUESTS, batch)
end

-- Subtracts `count` ended leases from a batch.
local function end_batch(batch, count)
  leased = leased - count
  if call("HINCRBY", HELD, "#" .. batch, 0 - count) <= 0 then -- without a sign for none
    drop_batch(batch)
  end
end

-- Subtracts ended leases from their batches and their node.
--
-- `ended` is request -> how many of those that last as long as the heartbeat, `timed` likewise.
local function end_leases(id, node, ended, timed)
  for request, count in pairs(ended) do
    node.kept = node.kept - count
    end_batch(id .. request, count)
  end
  for request, count in pairs(timed) do
    node.timed = node.timed - count
    end_batch(id .. request, count)
  end
  if node.kept == 0 then
    node.reaping = false
  end
  keep_node(id, node)
end
