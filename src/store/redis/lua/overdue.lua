-- Script: takes back the leases that are past their own deadline.
check_lease_keys()
look_first()
take_overdue()
write_taken()
if taken > 0 then
  local earlier_ready, earlier_dead = taken_earlier()
  call("HSET", META, "taken", pack(">dd", earlier_ready + ready, earlier_dead + #dead / 2))
end
keep_counts()
return REPLY { now = now, earlier = wake(ARGV.origin), more = has_overdue() and 1 or 0, ended = taken }
