-- Script: counts the scheduled events that fall due within each span.
--
-- ARGV[2..] spans from now, us, in ascending order
--
-- Returns {now, the count of each span}.
local answer, events = { now }, counter_of_events()

local function count(at)
  answer[at] = events(math.floor((now + ARGV[at]) / 1000))
end

-- Counts the spans between two counted ones, by bisection: where both counts are equal, so are all
-- between them, and nothing is looked up.
local function fill(from, to)
  if answer[from] == answer[to] then
    for at = from + 1, to - 1 do
      answer[at] = answer[from]
    end
  elseif to - from > 1 then
    local middle = math.floor((from + to) / 2)
    count(middle)
    fill(from, middle)
    fill(middle, to)
  end
end

if #ARGV > 1 then
  count(2)
  count(#ARGV)
  fill(2, #ARGV)
end
keep_counts()
return answer
