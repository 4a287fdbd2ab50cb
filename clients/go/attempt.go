package duly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// extensions is how often a lease is extended within its length.
const extensions = 3

// attempt runs a handler for a lease.
type attempt struct {
	lease *Lease
	// stream is the name of the stream that has sent it.
	stream string
	// renewed is when the lease began, as far as is known, or was last extended.
	renewed time.Time
	// ends is when the lease ends if no later extension was confirmed.
	ends time.Time
	// age is by how much earlier it may end, which an extension confirms; misjudged is called where the
	// server says that it was not so old.
	age       time.Duration
	misjudged func()
	// ctx ends when the lease is lost, and when nobody waits for the attempt any more.
	ctx    context.Context
	cancel context.CancelFunc
	check  chan struct{}
	isLost bool
}

func newAttempt(parent context.Context, lease *Lease, stream string, ttr time.Duration, of *ages) *attempt {
	ctx, cancel := context.WithCancel(parent)
	now, age := time.Now(), of.age(lease)
	return &attempt{
		lease: lease, stream: stream, renewed: now.Add(-age), ends: now.Add(ttr), age: age,
		misjudged: of.beginAnew, ctx: ctx, cancel: cancel, check: make(chan struct{}, 1),
	}
}

// isOld reports whether the lease should have been extended, so that it is before its handler begins.
func (a *attempt) isOld(ttr time.Duration) bool { return time.Since(a.renewed) >= ttr/extensions }

// checkLease extends the lease at once: it may have been lost.
func (a *attempt) checkLease() {
	select {
	case a.check <- struct{}{}:
	default: // it is told already
	}
}

// keep extends the lease until done is closed; it cancels the handler when the lease is lost.
func (a *attempt) keep(w *Worker, done <-chan struct{}) {
	begun, step := a.renewed, w.ttr/extensions
	for {
		timer := time.NewTimer(time.Until(earlier(begun.Add(step), a.ends)))
		select {
		case <-done:
			timer.Stop()
			return
		case <-a.check:
		case <-timer.C:
		}
		timer.Stop()
		begun = time.Now()
		isLost, err := a.extend(w, done)
		select {
		case <-done:
			return // what the handler has done is to be settled
		default:
		}
		if isLost {
			a.isLost = true
			a.cancel()
			<-done
			return
		}
		if err != nil {
			w.onError(fmt.Errorf("lease of %s not extended: %w", a.lease.ID, err))
		}
	}
}

// isHeld extends the lease before its handler begins, and returns whether it goes on as far as is
// known.
func (a *attempt) isHeld(w *Worker) bool {
	select {
	case <-a.check:
	default:
	}
	isLost, err := a.extend(w, a.ctx.Done())
	if err != nil && !isLost {
		w.onError(fmt.Errorf("lease of %s not extended: %w", a.lease.ID, err))
	}
	return !isLost
}

// extend extends the lease once, and returns whether it is lost. It gives up when done is closed, and
// in time for another one.
func (a *attempt) extend(w *Worker, done <-chan struct{}) (isLost bool, err error) {
	begun := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), earlier(begun.Add(w.ttr/extensions), a.ends))
	defer cancel()
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err = w.client.Extend(ctx, a.lease, w.ttr)
	if err == nil {
		if a.age > 0 && !begun.Before(a.ends.Add(-a.age)) {
			a.misjudged() // it went on
		}
		a.age, a.renewed, a.ends = 0, begun, begun.Add(w.ttr)
		return false, nil
	}
	var problem *Problem
	isGone := errors.As(err, &problem) && problem.isGone()
	return isGone || errors.Is(err, ErrLeaseLost) || !time.Now().Before(a.ends.Add(-a.age)), err
}

func earlier(one, other time.Time) time.Time {
	if other.Before(one) {
		return other
	}
	return one
}

// run returns how the attempt ended; nil if its lease was lost.
func (a *attempt) run(w *Worker) *Settlement {
	done := make(chan struct{})
	settlement := Retry("the handler ended its goroutine")
	// In a goroutine of its own, which it may end, as the FailNow of a test does.
	go func() {
		defer close(done)
		settlement = a.settlement(w)
	}()
	a.keep(w, done)
	if a.isLost {
		return nil
	}
	return settlement
}

func (a *attempt) settlement(w *Worker) (settlement *Settlement) {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	if w.timeout > 0 {
		timed, cancel := context.WithTimeout(ctx, w.timeout)
		defer cancel()
		ctx = timed
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			const form = "duly: the handler of %s panicked: %v\n%s"
			w.onError(fmt.Errorf(form, a.lease.ID, panicked, debug.Stack()))
			settlement = Retry(fmt.Sprintf("panic: %v", panicked))
		}
	}()
	err := w.handler(ctx, a.lease)
	switch {
	case err == nil:
		return Ack(nil)
	case errors.As(err, &settlement):
		return a.encoded(settlement, w)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Retry(fmt.Sprintf("timed out after %v: %v", w.timeout, err))
	case a.ctx.Err() != nil:
		return Release() // it was told to end, and did
	default:
		w.onError(fmt.Errorf("duly: the handler of %s failed: %w", a.lease.ID, err))
		return Retry(err.Error())
	}
}

// encoded returns a settlement with the JSON of its reply; one that is no JSON is left out, as what
// was done is not to be done again.
func (a *attempt) encoded(settlement *Settlement, w *Worker) *Settlement {
	if settlement == nil {
		return Ack(nil) // a variable of this type that has no value
	}
	if settlement.Reply == nil {
		return settlement
	}
	reply, err := json.Marshal(settlement.Reply)
	if err != nil {
		w.onError(fmt.Errorf("duly: the reply of %s is no JSON: %w", a.lease.ID, err))
		return settlement.withReply(nil)
	}
	return settlement.withReply(json.RawMessage(reply))
}
