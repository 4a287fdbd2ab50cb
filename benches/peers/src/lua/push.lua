-- KEYS: delay, ready, held, body, record. ARGV: due time in ms or 0, then id and body of each.
local members, bodies = {}, {}
local due = tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
    if due > 0 then
        members[#members + 1] = due
    end
    members[#members + 1] = ARGV[i]
    bodies[#bodies + 1] = ARGV[i]
    bodies[#bodies + 1] = ARGV[i + 1]
end
redis.call('HSET', KEYS[4], unpack(bodies))
if due > 0 then
    redis.call('ZADD', KEYS[1], unpack(members))
else
    redis.call('RPUSH', KEYS[2], unpack(members))
end
return #bodies / 2
