-- Script: changes or removes one runtime setting of a queue.
--
-- CONTROL hash  queue ":" name -> value
-- MEMBERS hash  for its field "control": the token of the last change
if ARGV.value == "" then
  call("HDEL", CONTROL, ARGV.name)
else
  call("HSET", CONTROL, ARGV.name, ARGV.value)
end
call("HSET", MEMBERS, "control", ARGV.token)
return 1
