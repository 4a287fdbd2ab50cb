-- Reads dead events in the order of their ids.
--
-- ARGV[2]  the id after which, or ""
-- ARGV[3]  most of them, at most 1000
--
-- Returns {now, the id after which there are more or false, then for each its id and what `look_up`
-- says}.
local from, most = ARGV[2] == "" and "-" or "(" .. ARGV[2], tonumber(ARGV[3])
local ids = call("ZRANGE", DEAD, from, "+", "BYLEX", "LIMIT", 0, most + 1)
local found = #ids
ids[most + 1] = nil
local answer = { now, false }
local told = look_up(ids, answer, true)
if told < found then
  answer[2] = ids[told]
end
leave()
return answer
