-- Library: removes from the ready list what events that have left it have left behind, so that the next
-- fetch does not pass it. Each event that leaves pays for some entries.
--
-- Stale entries at both ends are cut off, in front also those behind a live one. Where most entries are
-- stale, those in the middle are gathered in a gap, which the live ones behind it pass in their order,
-- until it is at the end. All that is overwritten is read first: where the gap lies is a hint.
local LOOKED_AT, LOOKED_AT_ALL, SWEPT = 8, 512, 16 -- entries: the last for each event that leaves
local IDS_MAX = 1024 -- ids of entries that one look reads, and those of an entry
local NO_EVENT = string.rep("\0", 24) -- an entry under a number that no event has

-- Looks at some entries of the ready list, in the order of `step`. Returns by their places which are live,
-- and how many it has looked at.
local function look_at_entries(entries, step)
  local live, ids, numbers, places, looked = {}, {}, {}, {}, 0
  read_pages(entries)
  for i = step > 0 and 1 or #entries, step > 0 and #entries or 1, step do
    if #ids >= IDS_MAX then
      break
    end
    local part, its_ids, number_of = read_entry(entries[i])
    looked, live[i] = looked + 1, part ~= nil
    for _, id in ipairs(its_ids) do
      ids[#ids + 1], numbers[#ids + 1], places[#ids + 1] = id, number_of, i
    end
  end
  for at, state in ipairs(read_all("HMGET", STATE, ids)) do
    live[places[at]] = live[places[at]] or is_placed(state, numbers[at])
  end
  return live, looked
end

-- Removes the stale ones of the first `most` entries: the live ones, which keep their order, are moved
-- together behind them. Each is first written to its new place, the last one first: twice in the list, and
-- never missing. Returns whether it removed all that it looked at.
local function drop_stale_in_front(most)
  local entries = call("LRANGE", READY, 0, most - 1)
  local live, looked = look_at_entries(entries, 1)
  local stale = 0
  for i = 1, looked do -- `most` entries
    stale = stale + (live[i] and 0 or 1)
  end
  if stale == 0 then
    return false
  end
  surplus = surplus - stale
  move_gap(-stale)
  keep_counts(false, 0, -stale, "")
  local place = looked
  for i = looked, 1, -1 do -- `most` entries
    if live[i] then
      place = place - 1
      if place >= i then
        call("LSET", READY, place, entries[i])
      end
    end
  end
  call("LTRIM", READY, stale, -1) -- `most` entries
  return stale == #entries
end

-- Removes the stale ones of the last `most` entries that no live one is behind.
local function drop_stale_at_the_end(most)
  local entries, stale = call("LRANGE", READY, -most, -1), 0
  local live, looked = look_at_entries(entries, -1)
  while stale < looked and not live[#entries - stale] do -- `most` entries
    stale = stale + 1
  end
  if stale > 0 then
    surplus = surplus - stale
    keep_counts(false, 0, -stale, "")
    call("LTRIM", READY, 0, -stale - 1) -- `most` entries
  end
end

-- Looks at the next `most` entries behind the gap, and moves the live ones before it.
local function move_live(most)
  local from, to = meta.gap_from, meta.gap_to
  local gap = to - from
  local before = gap > 0 and call("LRANGE", READY, from, from + math.min(gap, most) - 1) or {}
  local its_live, its_looked = look_at_entries(before, 1)
  for i = 1, its_looked do -- `most` entries
    if its_live[i] then -- it is no gap any more
      meta.gap_from, meta.gap_to = 0, 0
      return
    end
  end
  local room = its_looked == gap and most or its_looked
  local entries = call("LRANGE", READY, to, to + math.min(room, most) - 1)
  local live, looked = look_at_entries(entries, 1)
  local moved = {}
  for i = 1, looked do -- `most` entries
    local at = to + i - 1
    if live[i] then
      if from < at then
        call("LSET", READY, from, entries[i]) -- first: twice in the list, and never missing
        moved[#moved + 1] = at
      end
      from = from + 1
    end
  end
  for _, at in ipairs(moved) do
    if at >= from then
      call("LSET", READY, at, NO_EVENT)
    end
  end
  local is_over = looked == 0 or to + looked >= call("LLEN", READY)
  meta.gap_from, meta.gap_to = is_over and 0 or from, is_over and 0 or to + looked
end

-- Removes entries of events that have left the ready list, more than the `left` events of this call have
-- left there; where all seem to be such, many. Each is looked at, since counts may be wrong, and entries
-- that stand for several events hide others from them: so those at the ends are looked at in any case,
-- and a few in between, one of them where a front is looked at: a live head would hide what is behind it.
local function drop_stale(left)
  local len = left > 0 and call("LLEN", READY) or 0
  if len == 0 then
    return
  end
  local from = math.fmod(now, len)
  local swept = math.min(left * SWEPT, LOOKED_AT_ALL)
  local ends = { call("LINDEX", READY, 0), call("LINDEX", READY, -1),
    call("LINDEX", READY, math.fmod(now, math.min(swept, len))) }
  local some = call("LRANGE", READY, from, from + 1)
  local live = look_at_entries({ ends[1], ends[2], ends[3], some[1], some[2] }, 1)
  local is_mostly_stale = 4 * surplus >= 3 * len or not (live[4] or live[5])
  local many = surplus >= len and LOOKED_AT_ALL or is_mostly_stale and swept
    or math.min(left * LOOKED_AT, LOOKED_AT_ALL)
  if not (live[1] and live[3]) and drop_stale_in_front(live[1] and swept or many) then
    return
  end
  if not live[2] then
    drop_stale_at_the_end(many)
  end
  if meta.gap_to > 0 or is_mostly_stale then
    move_live(swept)
  end
end
