-- Script: a node's heartbeat, which extends all its leases in the bucket.
--
-- ARGV[2]  node
-- ARGV[3]  how many leases the node knows of, by its requests up to ARGV[4]
-- ARGV[5]  the last fetch on whose leases handlers of the node may have started, and ARGV[6] on how
--          many of them, from the first one
--
-- Returns {now, 1 if its leases exist, 0 if they were taken back or it has none, how many leases it
-- has that last as long as its heartbeat, its last request}.
local node = node_of(ARGV[2])
local stands = node and node.kept > 0 and not node.reaping
local is_news = node and announce(node, tonumber(ARGV[5]), tonumber(ARGV[6]))
if stands then
  node.beat, node.seen = node.beat + 1, now
  node.says, node.to = tonumber(ARGV[3]), tonumber(ARGV[4])
end
if stands or is_news then
  keep_node(ARGV[2], node)
end
keep_counts()
return { now, stands and 1 or 0, node and node.kept or 0, node and node.last or 0 }
