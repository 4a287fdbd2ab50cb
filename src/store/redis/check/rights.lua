-- Says what the user who asks may not do.
--
-- ARGV[1]   a key such as the store uses
-- ARGV[2]   a channel such as the store uses
-- ARGV[3..] commands: "HSET", "CONFIG|GET"
--
-- Returns {the commands that are denied, those that are denied on this key alone, 1 if the channel
-- is denied}. It asks and does nothing.
local function may(...)
  local known, allowed = pcall(redis.acl_check_cmd, ...)
  return known and allowed == true
end

local commands, on_key = {}, {}
for i = 3, #ARGV do
  local name, part = ARGV[i]:match("^([^|]+)|?(.*)$")
  if part ~= "" then
    if not may(name, part) then
      commands[#commands + 1] = ARGV[i]
    end
  elseif not may(name) then
    commands[#commands + 1] = ARGV[i]
  elseif not may(name, ARGV[1], "x", "x", "x") then
    on_key[#on_key + 1] = ARGV[i]
  end
end
local channel = 0
if may("SPUBLISH") and not may("SPUBLISH", ARGV[2], "x") then
  channel = 1
end
return { commands, on_key, channel }
