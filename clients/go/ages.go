package duly

import (
	"sync"
	"time"
)

// ages tells how long leases of a stream have lain in its socket, as while the process was stopped.
// The clocks of the server and of this machine need not agree: only differences count.
type ages struct {
	mutex sync.Mutex
	// quickest is how long the quickest lease was on its way, by whatever difference of the clocks.
	quickest time.Duration
	isKnown  bool
}

// begin is when this clock began, which nobody sets.
var begin = time.Now()

// age returns by how much longer a lease was on its way than the quickest one.
func (a *ages) age(lease *Lease) time.Duration {
	if lease.DeadlineMS == 0 {
		return 0
	}
	passed := time.Since(begin) - time.Duration(lease.DeadlineMS)*time.Millisecond
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !a.isKnown || passed < a.quickest {
		a.quickest, a.isKnown = passed, true
	}
	return passed - a.quickest
}

// beginAnew forgets the quickest one: a clock was set.
func (a *ages) beginAnew() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.isKnown = false
}
