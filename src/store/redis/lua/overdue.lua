-- Script: takes back the leases that are past their own deadline.
check_keys()
call("ZCARD", LEASE)
look_first()
take_overdue()
write_taken()
keep_counts()
return REPLY { now = now, earlier = wake(ARGV.origin), more = has_overdue() and 1 or 0, ready = ready,
  dead = #dead / 2 }
