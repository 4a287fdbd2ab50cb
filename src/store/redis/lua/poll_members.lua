-- Script: announces that a node is alive, and returns the other members.
--
-- MEMBERS hash  node -> number of its last poll, ":", its time in ms; and "buckets" and "control" ->
--               the token of the last change of each
-- QUEUES  hash  node -> the queues that it consumes, a line for each; node .. "h" -> its host
-- HUB     hash  for its field "format"
--
-- A node is no member before its queues are known. One that is silent for too long is removed, by a
-- member: where the last poll of that seems as old, the clock has stepped, and each has its time anew.
local now = ARGV.now
if now == "" then
  local time = call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = math.floor(now / 1000)
end
local me, act = ARGV.node, ARGV.act
local tokens, others, silent = { buckets = "", control = "" }, {}, {}
local mine, has_stepped
local function polled(node, number)
  call("HSET", MEMBERS, node, number .. ":" .. string.format("%.0f", now))
end
local members = call("HGETALL", MEMBERS) -- the nodes of a store
for i = 1, #members, 2 do
  local node, said = members[i], members[i + 1]
  local number, seen = said:match("^(%d+):(%d+)$")
  local is_silent = number and now - seen > tonumber(ARGV.listed_for)
  if #node ~= 8 then -- no node but a token
    tokens[node] = said
  elseif node == me and number then
    mine, has_stepped = tonumber(number), is_silent
  elseif number then
    local list = is_silent and silent or others
    list[#list + 1], list[#list + 2] = node, tonumber(number)
  end
end
for i = 1, #silent, 2 do
  local node, number = silent[i], silent[i + 1]
  if has_stepped then
    others[#others + 1], others[#others + 2] = node, number
    polled(node, number)
  elseif mine then
    call("HDEL", MEMBERS, node)
    call("HDEL", QUEUES, node, node .. "h")
  end
end
local is_known = 1
if act == "leaves" then
  call("HDEL", MEMBERS, me)
  call("HDEL", QUEUES, me, me .. "h")
elseif me ~= "" and (mine or act == "queues") then
  if act == "queues" then
    call("HSET", QUEUES, me, ARGV.queues, me .. "h", ARGV.host)
  end
  mine = (mine or 0) + 1
  polled(me, mine)
  others[#others + 1], others[#others + 2] = me, mine
elseif me ~= "" then
  is_known = 0
end
local format = ARGV.asks_format == "1" and (call("HGET", HUB, "format") or "none") or ""
local reply = REPLY { buckets = tokens.buckets, controls = tokens.control, is_known = is_known, format = format }
for _, it in ipairs(others) do
  reply[#reply + 1] = it
end
return reply
