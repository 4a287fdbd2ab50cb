-- KEYS: delay, ready, held, body, record. ARGV: limit, how many ms ahead. Returns the due time of
-- the next one or 0, the ids that are leased now, and their bodies.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local max = tonumber(ARGV[1])
local ids = redis.call('ZRANGE', KEYS[1], '-inf', now + ARGV[2], 'BYSCORE', 'LIMIT', 0, max)
if #ids > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #ids - 1)
end
if #ids < max then
    local ready = redis.call('LPOP', KEYS[2], max - #ids)
    if ready then
        for i = 1, #ready do
            ids[#ids + 1] = ready[i]
        end
    end
end
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local next = tonumber(head[2] or 0)
if #ids == 0 then
    return { next, {}, {} }
end
local held = {}
for i = 1, #ids do
    held[2 * i - 1] = ids[i]
    held[2 * i] = 1
end
redis.call('HSET', KEYS[3], unpack(held))
return { next, ids, redis.call('HMGET', KEYS[4], unpack(ids)) }
