-- Script: adds buckets to the registry. Existing ones stay unchanged.
--
-- REGISTERED  set   queue ":" bucket
-- REGISTRY    list  each of them, in order of registration: a random token of 8 bytes, then
--                   queue ":" bucket; again if a call failed midway, and its repeat does not see it
-- MEMBERS     hash  for its field "buckets": the token of the last change
--
-- Another token comes before each change, so that nodes see what was added where the call fails midway;
-- and the token behind it, for a node that has read the list between a call and its repeat.
local new = 0
for i = ARGV.rest, #ARGV do
  if call("SISMEMBER", REGISTERED, ARGV.bucket[i]) == 0 then
    if new == 0 then
      call("HSET", MEMBERS, "buckets", ARGV.token:reverse())
    end
    call("RPUSH", REGISTRY, ARGV.token .. ARGV.bucket[i])
    call("SADD", REGISTERED, ARGV.bucket[i])
    new = new + 1
  end
end
if new > 0 then
  call("HSET", MEMBERS, "buckets", ARGV.token)
end
return new
