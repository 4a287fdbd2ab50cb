-- Script: adds buckets to the registry. Existing ones stay unchanged.
--
-- REGISTERED  set   queue ":" bucket
-- REGISTRY    list  each of them once, in order of registration: a random token of 8 bytes, then
--                   queue ":" bucket
-- MEMBERS     hash  for its field "buckets": the token of the last change
local new = 0
for i = ARGV.rest, #ARGV do
  if call("SISMEMBER", REGISTERED, ARGV.bucket[i]) == 0 then
    call("RPUSH", REGISTRY, ARGV.token .. ARGV.bucket[i])
    call("SADD", REGISTERED, ARGV.bucket[i])
    new = new + 1
  end
end
if new > 0 then
  call("HSET", MEMBERS, "buckets", ARGV.token)
end
return new
