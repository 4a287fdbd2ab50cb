-- Script: reads events that have not ended by key, ordered by id, or the one with a unique key.
local name, after, limit = ARGV.name, ARGV.after, tonumber(ARGV.limit)
local ids = {}
local reply = REPLY { now = now, next = false }
if ARGV.by == "u" then
  local id = call("HGET", UNIQUE, name)
  if id and #id == 16 and after == "" then -- behind it there is none
    ids[1] = id
  end
  look_up(ids, reply, true)
else
  local from = after == "" and "[" .. key_entry(name, "") or "(" .. key_entry(name, after)
  local to = "[" .. key_entry(name, string.rep("\255", 16))
  local entries = call("ZRANGE", BY_KEY, from, to, "BYLEX", "LIMIT", 0, limit)
  for i, entry_of in ipairs(entries) do
    ids[i] = sub(entry_of, -16)
  end
  local count = look_up(ids, reply, true)
  reply[REPLY.next] = (count < #ids or count == limit) and ids[count]
  local gone = {}
  for i = REPLY.next + 1, #reply, 5 do
    if not reply[i + 2] then -- left by a push that failed midway
      gone[#gone + 1] = key_entry(name, reply[i])
    end
  end
  write_all("ZREM", BY_KEY, gone)
end
keep_counts()
return reply
