-- Reads dead events in the order of their ids.
--
-- ARGV[2]  the id after which, or ""
-- ARGV[3]  most of them, at most 1000
--
-- Returns {now, then for each its id and what `look_up` says}.
local from = ARGV[2] == "" and "-" or "(" .. ARGV[2]
local answer = { now }
look_up(call("ZRANGE", DEAD, from, "+", "BYLEX", "LIMIT", 0, ARGV[3]), answer, true)
leave()
return answer
