-- Script: reads dead events, ordered by id.
--
-- ARGV[2]  the id after which to begin, or ""
-- ARGV[3]  limit, at most 1000
--
-- Returns {now, the id after which there are more or false, then for each its id and the fields of
-- `look_up`}.
local from, most = ARGV[2] == "" and "-" or "(" .. ARGV[2], tonumber(ARGV[3])
local ids = call("ZRANGE", DEAD, from, "+", "BYLEX", "LIMIT", 0, most + 1)
local found = #ids
ids[most + 1] = nil
local answer = { now, false }
local told = look_up(ids, answer, true)
if told < found then
  answer[2] = ids[told]
end
keep_counts()
return answer
