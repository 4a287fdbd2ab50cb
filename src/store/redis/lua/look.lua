-- Script: looks events up by id.
local reply = REPLY { now = now }
local AT_ONCE = RUST.BATCH_MAX
look_up({ unpack(ARGV, ARGV.rest, math.min(#ARGV, AT_ONCE + ARGV.rest - 1)) }, reply)
keep_counts()
return reply
