-- Says that a node is there, and answers who else is.
--
-- KEYS[1]  hash  members: node -> number of its last call, ":", its time in ms
-- KEYS[2]  hash  queues: node -> the queues that it consumes, a line for each
-- KEYS[3]  hash  hub: calls, version
-- ARGV[1]  the time in microseconds, or "" for the server's
-- ARGV[2]  node, or "" of one that consumes nothing
-- ARGV[3]  "stays", "leaves", or "queues" when its queues follow
-- ARGV[4]  the queues that it consumes, a line for each
-- ARGV[5]  how long a member that does not call stays listed, ms
--
-- Returns {version, 1 if its queues are known, then two for each member: node, number}.
local call = redis.call
local now = ARGV[1]
if now == "" then
  local time = call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = math.floor(now / 1000)
end
local me, act = ARGV[2], ARGV[3]
if act == "leaves" then
  call("HDEL", KEYS[1], me)
  call("HDEL", KEYS[2], me)
elseif me ~= "" then
  local calls = call("HINCRBY", KEYS[3], "calls", 1)
  call("HSET", KEYS[1], me, calls .. ":" .. string.format("%.0f", now))
  if act == "queues" then
    call("HSET", KEYS[2], me, ARGV[4])
  end
end
local answer = {
  tonumber(call("HGET", KEYS[3], "version") or 0),
  (me == "" or call("HEXISTS", KEYS[2], me) == 1) and 1 or 0,
}
local members = call("HGETALL", KEYS[1])
for i = 1, #members, 2 do
  local number, seen = members[i + 1]:match("^(%d+):(%d+)$")
  if now - seen > tonumber(ARGV[5]) then
    call("HDEL", KEYS[1], members[i])
    call("HDEL", KEYS[2], members[i])
  else
    local n = #answer
    answer[n + 1], answer[n + 2] = members[i], tonumber(number)
  end
end
return answer
