-- Says whether the user who asks may do this and that. It asks, and does nothing.
--
-- ARGV  for each question: how many words it has, and the words, a command with all that it needs.
--       Commands that find their keys by a number among their words (EVAL) crash a server of
--       version 7.0 that is asked without that number.
--
-- Returns a text with "1" for each that is allowed and "0" for each that is not.
local answers = {}
local at = 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local known, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
  answers[#answers + 1] = (known and allowed == true) and "1" or "0"
  at = at + 1 + words
end
return table.concat(answers)
