-- Script: tests which commands the connected user is permitted to run. Runs none of them.
-- ARGV  for each command: its number of words, and the words, complete with keys. A command that
--       finds its keys by a number among its words (EVAL) crashes a server of version 7.0 if that
--       number is missing. Newer servers refuse a wrong number of words, so that words at the end
--       are left out until it is right.
--
-- Returns a text with "1" for each permitted command, "2" for each that the server does not know, and
-- "0" for each other.
local replies = {}
local at = 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local taken = words
  local known, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
  while not known and taken > 2 do
    taken = taken - 1
    known, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + taken))
  end
  local error = type(allowed) == "table" and allowed.err or tostring(allowed)
  if not known and error:find("Invalid command", 1, true) then
    replies[#replies + 1] = "2"
  else
    replies[#replies + 1] = (known and allowed == true) and "1" or "0"
  end
  at = at + 1 + words
end
return table.concat(replies)
