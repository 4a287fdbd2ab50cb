-- Says that a node is alive, and so keeps everything that it holds in the bucket.
--
-- ARGV[2]  node
--
-- Returns {now, 1 if its leases stand, 0 if they were taken back or it has none}.
local node = node_of(ARGV[2])
local stands = node and node.kept > 0 and not node.reaping
if stands then
  node.beat = node.beat + 1
  keep_node(ARGV[2], node)
end
leave()
return { now, stands and 1 or 0 }
