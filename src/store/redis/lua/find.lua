-- Script: reads events that have not ended by key, ordered by id, or the one with a unique key.
--
-- ARGV[2]  "k" key, "u" unique key
-- ARGV[3]  the key
-- ARGV[4]  the id after which to begin, or ""
-- ARGV[5]  limit, at most 1000
--
-- Returns {now, the last id or false where there are no more, then for each its id and the fields
-- of `look_up`}.
local name, after, limit = ARGV[3], ARGV[4], tonumber(ARGV[5])
local ids = {}
local answer = { now, false }
if ARGV[2] == "u" then
  local id = call("HGET", UNIQUE, name)
  if id and #id == 16 and (after == "" or id > after) then
    ids[1] = id
  end
  look_up(ids, answer, true)
else
  local from = after == "" and "[" .. key_entry(name, "") or "(" .. key_entry(name, after)
  local to = "[" .. key_entry(name, string.rep("\255", 16))
  local entries = call("ZRANGE", BY_KEY, from, to, "BYLEX", "LIMIT", 0, limit)
  for i, entry_of in ipairs(entries) do
    ids[i] = sub(entry_of, -16)
  end
  local told = look_up(ids, answer, true)
  answer[2] = (told < #ids or told == limit) and ids[told]
  local gone = {}
  for i = 3, #answer, 5 do
    if not answer[i + 2] then -- left by a push that failed midway
      gone[#gone + 1] = key_entry(name, answer[i])
    end
  end
  write_all("ZREM", BY_KEY, gone)
end
keep_counts()
return answer
