-- Script: looks events up by id.
--
-- ARGV[2..] ids, at most 1000
--
-- Returns {now, then for each the fields of `look_up`, as many as fit into one call}.
local answer = { now }
local AT_ONCE = 1000
look_up({ unpack(ARGV, 2, math.min(#ARGV, AT_ONCE + 1)) }, answer)
keep_counts()
return answer
