-- Script: reads dead events, ordered by id.
local from, most = ARGV.after == "" and "-" or "(" .. ARGV.after, tonumber(ARGV.limit)
local ids = call("ZRANGE", DEAD, from, "+", "BYLEX", "LIMIT", 0, most + 1)
local found = #ids
ids[most + 1] = nil
local reply = REPLY { now = now, next = false }
local count = look_up(ids, reply, true)
if count < found then
  reply[REPLY.next] = ids[count]
end
keep_counts()
return reply
