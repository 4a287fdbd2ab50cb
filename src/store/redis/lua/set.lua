-- Script: changes or removes one runtime setting of a queue.
--
-- CONTROL hash  queue ":" name -> value
-- MEMBERS hash  for its field "control": the token of the last change
if ARGV.value ~= "" and call("HLEN", CONTROL) >= RUST.CONTROLS_MAX then
  local queues, count = {}, 0
  for _, field in ipairs(call("HKEYS", CONTROL)) do -- a few for each queue
    local queue = field:match("^[^:]*")
    count = count + (queues[queue] and 0 or 1)
    queues[queue] = true
  end
  if count >= RUST.CONTROLS_MAX and not queues[ARGV.name:match("^[^:]*")] then
    return redis.error_reply("DULY FULL " .. count .. " queues have runtime settings already, which is "
      .. "the limit; reset some")
  end
end
call("HSET", MEMBERS, "control", ARGV.token:reverse()) -- as in register.lua
if ARGV.value == "" then
  call("HDEL", CONTROL, ARGV.name)
else
  call("HSET", CONTROL, ARGV.name, ARGV.value)
end
call("HSET", MEMBERS, "control", ARGV.token)
return 1
