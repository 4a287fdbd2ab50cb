-- Script: counts the scheduled events that fall due within each span.
local reply, events = REPLY { now = now }, counter_of_events()

-- The count of a span is in its place.
local function count(at)
  reply[at] = events(math.floor((now + ARGV.span[at]) / 1000))
end

-- Counts the spans between two counted ones, by bisection: where both counts are equal, so are all
-- between them, and nothing is looked up.
local function fill(from, to)
  if reply[from] == reply[to] then
    for at = from + 1, to - 1 do -- the spans of the call
      reply[at] = reply[from]
    end
  elseif to - from > 1 then
    local middle = math.floor((from + to) / 2)
    count(middle)
    fill(from, middle)
    fill(middle, to)
  end
end

if #ARGV >= ARGV.rest then
  count(ARGV.rest)
  count(#ARGV)
  fill(ARGV.rest, #ARGV)
end
keep_counts()
return reply
