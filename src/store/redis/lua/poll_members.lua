-- Script: announces that a node is alive, and returns the other members.
--
-- KEYS[1]  hash  members: node -> number of its last poll, ":", its time in ms; and "buckets" and
--                "control" -> the token of the last change of each
-- KEYS[2]  hash  queues: node -> the queues that it consumes, a line for each
-- KEYS[3]  hash  hub, for its field "format"
-- ARGV[1]  the time in microseconds, or "" for the server's
-- ARGV[2]  node, or "" of one that consumes nothing
-- ARGV[3]  "stays", "leaves", or "queues" when its queues follow
-- ARGV[4]  the queues that it consumes, a line for each
-- ARGV[5]  how long a silent member stays listed, ms
-- ARGV[6]  1 to return the format of all keys
--
-- Returns {token of the buckets, token of the controls, each "" before the first change; 1 if its
-- queues are known, the format of all keys, "none" where there is none, "" unless requested, then
-- two for each member: node, number}. A node is no member before its queues are known.
local now = ARGV[1]
if now == "" then
  local time = call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = math.floor(now / 1000)
end
local me, act = ARGV[2], ARGV[3]
local tokens, mine, others = { buckets = "", control = "" }, nil, {}
local members = call("HGETALL", KEYS[1]) -- the nodes of a store
for i = 1, #members, 2 do
  local node, said = members[i], members[i + 1]
  local number, seen = said:match("^(%d+):(%d+)$")
  if #node ~= 8 then -- no node but a token
    tokens[node] = said
  elseif node == me and number then
    mine = tonumber(number)
  elseif number and now - seen > tonumber(ARGV[5]) then
    call("HDEL", KEYS[1], node)
    call("HDEL", KEYS[2], node)
  elseif number then
    others[#others + 1], others[#others + 2] = node, tonumber(number)
  end
end
local is_known = 1
if act == "leaves" then
  call("HDEL", KEYS[1], me)
  call("HDEL", KEYS[2], me)
elseif me ~= "" and (mine or act == "queues") then
  if act == "queues" then
    call("HSET", KEYS[2], me, ARGV[4])
  end
  mine = (mine or 0) + 1
  call("HSET", KEYS[1], me, mine .. ":" .. string.format("%.0f", now))
  others[#others + 1], others[#others + 2] = me, mine
elseif me ~= "" then
  is_known = 0
end
local format = ARGV[6] == "1" and (call("HGET", KEYS[3], "format") or "none") or ""
local answer = { tokens.buckets, tokens.control, is_known, format }
for i, it in ipairs(others) do
  answer[4 + i] = it
end
return answer
