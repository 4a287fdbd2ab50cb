-- Script: reads dead events, ordered by id.
local from, most = ARGV.after == "" and "-" or "(" .. ARGV.after, tonumber(ARGV.limit)
local ids = call("ZRANGE", DEAD, from, "+", "BYLEX", "LIMIT", 0, most + 1)
local found = #ids
ids[most + 1] = nil
local answer = REPLY { now = now, next = false }
local told = look_up(ids, answer, true)
if told < found then
  answer[REPLY.next] = ids[told]
end
keep_counts()
return answer
