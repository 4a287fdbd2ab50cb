-- KEYS: delay, ready, held, body, record. ARGV: the packed records or nothing, then the ids.
local ids = {}
for i = 2, #ARGV do
    ids[i - 1] = ARGV[i]
end
redis.call('HDEL', KEYS[3], unpack(ids))
redis.call('HDEL', KEYS[4], unpack(ids))
if ARGV[1] ~= '' then
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', 10000, '*', 'r', ARGV[1])
end
return #ids
