package duly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// extensions is how often a lease is extended within its length.
const extensions = 3

// attempt runs a handler for a lease.
type attempt struct {
	lease    *Lease
	received time.Time
	// ctx is that of the handler.
	ctx    context.Context
	cancel context.CancelFunc
	check  chan struct{}
	isLost bool
}

func newAttempt(parent context.Context, lease *Lease) *attempt {
	ctx, cancel := context.WithCancel(parent)
	return &attempt{
		lease: lease, received: time.Now(), ctx: ctx, cancel: cancel, check: make(chan struct{}, 1),
	}
}

// checkLease extends the lease at once: it may have been lost.
func (a *attempt) checkLease() {
	select {
	case a.check <- struct{}{}:
	default: // it is told already
	}
}

// keep extends the lease until done is closed; it cancels the handler when the lease is lost.
func (a *attempt) keep(w *Worker, done <-chan struct{}) {
	begun, ends := a.received, a.received.Add(w.ttr)
	for {
		pause := time.Until(begun.Add(w.ttr / extensions))
		if left := time.Until(ends); left < pause {
			pause = left
		}
		timer := time.NewTimer(pause)
		select {
		case <-done:
			timer.Stop()
			return
		case <-a.check:
		case <-timer.C:
		}
		timer.Stop()
		begun = time.Now()
		ctx, cancel := context.WithDeadline(context.Background(), ends)
		err := w.client.Extend(ctx, a.lease, w.ttr)
		cancel()
		var problem *Problem
		isGone := errors.As(err, &problem) && problem.Status == http.StatusNotFound
		switch {
		case err == nil:
			ends = begun.Add(w.ttr)
		case errors.Is(err, ErrLeaseLost), isGone, !time.Now().Before(ends):
			a.isLost = true
			a.cancel()
			<-done
			return
		default:
			w.onError(fmt.Errorf("lease of %s not extended: %w", a.lease.ID, err))
		}
	}
}

// run returns how the attempt ended; nil if its lease was lost.
func (a *attempt) run(w *Worker) *Settlement {
	done, kept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		a.keep(w, done)
	}()
	settlement := a.settlement(w)
	close(done)
	<-kept
	a.cancel()
	if a.isLost {
		return nil
	}
	return settlement
}

func (a *attempt) settlement(w *Worker) (settlement *Settlement) {
	ctx := a.ctx
	if w.timeout > 0 {
		timed, cancel := context.WithTimeout(ctx, w.timeout)
		defer cancel()
		ctx = timed
	}
	defer func() {
		if panicked := recover(); panicked != nil {
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
