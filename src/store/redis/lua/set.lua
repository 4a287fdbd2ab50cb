-- Script: changes or removes one runtime setting of a queue.
--
-- KEYS[1]  hash  control: queue ":" name -> value
-- KEYS[2]  hash  members, for its field "control": the token of the last change
-- ARGV[1]  queue ":" name
-- ARGV[2]  value, or "" to remove it
-- ARGV[3]  a random token of 8 bytes
--
-- Returns 1.
if ARGV[2] == "" then
  call("HDEL", KEYS[1], ARGV[1])
else
  call("HSET", KEYS[1], ARGV[1], ARGV[2])
end
call("HSET", KEYS[2], "control", ARGV[3])
return 1
