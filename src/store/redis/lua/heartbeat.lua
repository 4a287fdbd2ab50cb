-- Script: a node's heartbeat, which extends all its leases in the bucket.
local node = node_of(ARGV.node)
local stands = node and node.kept > 0 and not node.reaping
local is_news = node and announce(node, tonumber(ARGV.started), tonumber(ARGV.starts))
if stands then
  node.beat, node.seen = node.beat + 1, now
  node.says, node.to = tonumber(ARGV.leases), tonumber(ARGV.last)
end
if stands or is_news then
  keep_node(ARGV.node, node)
end
keep_counts()
return REPLY { now = now, stands = stands and 1 or 0, kept = node and node.kept or 0, last = node and node.last or 0 }
