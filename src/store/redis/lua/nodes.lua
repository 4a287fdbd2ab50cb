-- What is known of a node in this bucket, from its first fetch on.
--
--   beat     its last heartbeat; a fetch that leases something is one as well
--   last     its greatest request number, 0 before the first
--   refused  the fetch that told it that it was reaped, 0 before the first
--   kept     how many leases it has that last as long as its heartbeat
--   timed    how many with deadlines of their own
--   lost     it was reaped and has not been told by a refused fetch
--   reaping  it was given up, and still holds something
--   seen     when it was heard of last, us
--   started  the last fetch on whose leases handlers may have started, and `first` on how many of
--            them, from the first one; on all of those before it they may have
--   says     how many leases it said it has by its requests up to `to`, in its last heartbeat; for
--            the audit alone
local NODES_MAX = 256 -- nodes that hold nothing are forgotten beyond this, the quietest first

local function read_node(packed)
  local beat, last, refused, kept, timed, lost, reaping, seen, says, to, started, first =
    unpack_from(">I8I8I8I4I4BBI8I4I8I8I4", packed)
  return {
    beat = beat, last = last, refused = refused, kept = kept, timed = timed,
    lost = lost == 1, reaping = reaping == 1, seen = seen, says = says, to = to,
    started = started, first = first,
  }
end

-- Handlers of a node may have started so far. Returns whether that is news.
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

local function keep_node(id, node)
  call("HSET", NODES, id, pack(">I8I8I8I4I4BBI8I4I8I8I4", node.beat, node.last, node.refused, node.kept,
    node.timed, node.lost and 1 or 0, node.reaping and 1 or 0, node.seen, node.says, node.to,
    node.started, node.first))
end

-- Every node, in the order of their ids.
local function all_nodes()
  local flat, nodes = call("HGETALL", NODES), {}
  for i = 1, #flat, 2 do
    local node = read_node(flat[i + 1])
    node.id = flat[i]
    node.high, node.low = unpack_from(">I4I4", flat[i])
    nodes[#nodes + 1] = node
  end
  table.sort(nodes, function(a, b)
    return a.high < b.high or (a.high == b.high and a.low < b.low)
  end)
  return nodes
end

local function new_node()
  if call("HLEN", NODES) >= NODES_MAX then
    local quietest
    for _, node in ipairs(all_nodes()) do
      if node.kept + node.timed == 0 and (not quietest or node.seen < quietest.seen) then
        quietest = node
      end
    end
    if quietest then
      call("HDEL", NODES, quietest.id)
    end
  end
  return { beat = 0, last = 0, refused = 0, kept = 0, timed = 0, seen = now, says = 0, to = 0,
    started = 0, first = 0 }
end

-- So many leases of a batch have ended.
local function end_batch(batch, count)
  leased = leased - count
  if call("HINCRBY", HELD, "#" .. batch, -count) <= 0 then
    call("HDEL", HELD, "#" .. batch, batch)
  end
end

-- Counts leases that have ended off their batches, and their node.
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
