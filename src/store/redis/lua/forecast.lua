-- Counts scheduled events that fall due within each of the spans.
--
-- ARGV[2..] spans from now, us
--
-- Returns {now, how many within each}.
local answer = { now }
for i = 2, #ARGV do
  answer[i] = call("ZCOUNT", DELAY, "-inf", math.floor((now + ARGV[i]) / 1000))
end
leave()
return answer
