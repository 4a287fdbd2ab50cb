-- Script: adds buckets to the registry. Existing ones stay unchanged.
--
-- KEYS[1]  set   registered: queue ":" bucket
-- KEYS[2]  list  registry: each of them once, in order of registration: a random token of 8 bytes,
--                then queue ":" bucket
-- KEYS[3]  hash  members, for its field "buckets": the token of the last change
-- ARGV[1]  a random token of 8 bytes
-- ARGV[2..] queue ":" bucket
--
-- Returns how many were added.
local new = 0
for i = 2, #ARGV do
  if call("SISMEMBER", KEYS[1], ARGV[i]) == 0 then
    call("RPUSH", KEYS[2], ARGV[1] .. ARGV[i])
    call("SADD", KEYS[1], ARGV[i])
    new = new + 1
  end
end
if new > 0 then
  call("HSET", KEYS[3], "buckets", ARGV[1])
end
return new
