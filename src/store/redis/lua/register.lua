-- Writes down a bucket that may hold events from now on.
--
-- KEYS[1]  hash  buckets: queue ":" bucket -> its number
-- KEYS[2]  hash  members, for its field "version"
-- ARGV[1]  queue ":" bucket
-- ARGV[2]  the channel that says that there is news
--
-- Returns 1 if it is new.
if redis.call("HEXISTS", KEYS[1], ARGV[1]) == 1 then
  return 0
end
redis.call("HSET", KEYS[1], ARGV[1], redis.call("HLEN", KEYS[1]))
redis.call("HINCRBY", KEYS[2], "version", 1)
redis.call("SPUBLISH", ARGV[2], "")
return 1
