package duly

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"
)

const (
	// streamLasted: a stream that lasted so long is no failure.
	streamLasted = 5 * time.Second
	// drainMax is how long a stop waits for the server to drain a stream, and to end it.
	drainMax = 5 * time.Second
	// drainAgain is how long until a stream that the server does not know yet is drained again.
	drainAgain = 50 * time.Millisecond
	// settleMax is how long a stop waits for a settlement after the grace period.
	settleMax = 5 * time.Second
	// slotWaits: an event waits for a slot for such a part of its lease, before it is handed back.
	slotWaits = 2
)

// Handler handles a leased event. Its context ends when the lease is lost, as another worker may
// have the event, when the attempt has timed out, and when a stop has waited for the grace period.
type Handler func(ctx context.Context, lease *Lease) error

// Options are those of a worker; what is zero has its default.
type Options struct {
	// Concurrency is how many handlers run at a time, 1 to 1,000. Default: 10.
	Concurrency int
	// Timeout is how long an attempt may take. Default: for ever.
	Timeout time.Duration
	// TTR is the length of a lease, which is extended, at least a second. Default: 30 s.
	TTR time.Duration
	// Grace is how long a stop waits for handlers; less than zero is not at all. Default: 25 s.
	Grace time.Duration
	// RetryMin and RetryMax bound the pause before a new connection. Defaults: 0.1 s and 10 s.
	RetryMin, RetryMax time.Duration
	// OnError is told of what handlers return or panic with, and of lost leases and connections; the
	// worker goes on. Default: log.Print.
	OnError func(error)
}

// Worker runs a handler for the events of a queue.
type Worker struct {
	client  *Client
	queue   string
	handler Handler
	ttr     time.Duration
	timeout time.Duration
	grace   time.Duration
	backoff backoff
	onError func(error)
	slots   chan struct{}

	mutex    sync.Mutex
	running  map[*attempt]struct{}
	live     string // the name of the stream that goes on, if there is one
	stopping bool
	drained  bool
	// leaving is closed when what has not begun goes back.
	leaving chan struct{}
	work    sync.WaitGroup
	ready   chan struct{}
	begun   sync.Once
}

// Ready returns a channel that is closed when the server has begun a stream, as then what is due is
// handled, or when Run ends.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

func (w *Worker) isReady() { w.begun.Do(func() { close(w.ready) }) }

// NewWorker returns a worker; Run runs it.
func NewWorker(client *Client, queue string, handler Handler, options Options) (*Worker, error) {
	or := func(span, otherwise time.Duration) time.Duration {
		if span == 0 {
			return otherwise
		}
		return span
	}
	if options.Concurrency == 0 {
		options.Concurrency = 10
	}
	if options.Concurrency < 1 || options.Concurrency > inFlightMax {
		return nil, fmt.Errorf("duly: Concurrency is %d; it must be 1 to %d", options.Concurrency, inFlightMax)
	}
	if err := checkPath(queuePath(queue, "")); err != nil {
		return nil, err
	}
	ttr := or(options.TTR, 30*time.Second)
	if ttr < time.Second {
		return nil, fmt.Errorf("duly: TTR is %v; it must be at least 1s", ttr)
	}
	onError := options.OnError
	if onError == nil {
		onError = func(err error) { log.Print(err) }
	}
	return &Worker{
		client: client, queue: queue, handler: handler, ttr: ttr, timeout: options.Timeout,
		grace:   or(options.Grace, 25*time.Second),
		backoff: backoff{or(options.RetryMin, 100*time.Millisecond), or(options.RetryMax, 10*time.Second)},
		onError: onError,
		slots:   make(chan struct{}, options.Concurrency),
		running: map[*attempt]struct{}{},
		leaving: make(chan struct{}),
		ready:   make(chan struct{}),
	}, nil
}

// Run runs until the context ends: then it takes no more events, waits for its handlers as long as
// the grace period, hands back the others, and returns nil. It returns an error where the server
// refuses it for good. Run it once.
func (w *Worker) Run(ctx context.Context) error {
	// Streams and handlers go on after a stop, for as long as it takes.
	inner, end := context.WithCancel(context.Background())
	defer end()
	defer w.isReady()
	for failures := 0; ctx.Err() == nil; {
		begun := time.Now()
		var failure error
		ended := make(chan struct{})
		streaming, closeStream := context.WithCancel(inner)
		name, err := newKey()
		if err != nil {
			closeStream()
			return err
		}
		go func() {
			defer close(ended)
			failure = w.receive(streaming, inner, name)
		}()
		select {
		case <-ctx.Done():
			w.endStream(name, ended)
			closeStream()
			return nil
		case <-ended:
			closeStream()
			var problem *Problem
			if errors.As(failure, &problem) && problem.isLasting() {
				w.stop()
				return failure
			}
			w.onError(failure)
			failures++
			if time.Since(begun) >= streamLasted {
				failures = 1
			}
			pause := w.backoff.pause(failures)
			if asked := askedPause(failure); asked > pause {
				pause = asked
			}
			_ = sleep(ctx, pause) // an end of the context is seen above
		}
	}
	w.stop()
	return nil
}

func (w *Worker) receive(ctx, handlers context.Context, name string) error {
	// Again as it begins: the server may have been away when an earlier one ended, and gives back what
	// is not extended soon.
	w.setLive(name)
	defer w.setLive("")
	undrained, ages := 0, &ages{}
	options := streamOptions{queue: w.queue, name: name, ttr: w.ttr, inFlight: cap(w.slots), begun: w.isReady}
	return w.client.stream(ctx, options, func(lease *Lease) {
		attempt := newAttempt(handlers, lease, name, w.ttr, ages)
		w.mutex.Lock()
		isStopping := w.stopping
		if !isStopping {
			w.running[attempt] = struct{}{}
			w.work.Add(1)
		}
		w.mutex.Unlock()
		if isStopping {
			attempt.cancel()
			isDrained := w.drainStream(name, nil) // or the server would send it again
			w.settle(attempt, Release())
			if !isDrained {
				undrained++
				_ = sleep(ctx, w.backoff.pause(undrained)) // the stream ends with its context
			}
			return
		}
		go w.runAttempt(attempt)
	})
}

// setLive notes which stream goes on, and has the leases of all attempts that run extended at once.
func (w *Worker) setLive(name string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.live = name
	for attempt := range w.running {
		attempt.checkLease()
	}
}

// runAttempt runs an attempt when there is a slot; more than there are come after a reconnection.
func (w *Worker) runAttempt(attempt *attempt) {
	defer w.work.Done()
	defer attempt.cancel()
	settlement := Release()
	timer := time.NewTimer(w.ttr / slotWaits)
	defer timer.Stop()
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
		isSure := w.goesOn(attempt.stream) && !attempt.isOld(w.ttr)
		if !isSure && !w.isStopping() && !attempt.isHeld(w) {
			w.onError(fmt.Errorf("duly: the lease of %s was lost before its handler began", attempt.lease.ID))
			settlement = nil
		} else if !w.isStopping() {
			settlement = attempt.run(w)
		}
	case <-w.leaving:
	case <-timer.C:
		w.onError(fmt.Errorf("duly: no slot for %s of %s; it is handed back", attempt.lease.ID, w.queue))
	}
	if settlement != nil {
		w.settle(attempt, settlement)
	}
	w.mutex.Lock()
	delete(w.running, attempt)
	w.mutex.Unlock()
}

// goesOn reports whether a stream goes on: what it has sent may have been given back when it ended.
func (w *Worker) goesOn(stream string) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.live == stream
}

func (w *Worker) isStopping() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.stopping
}

// settle settles an attempt, again and again while its lease goes on and the server is away.
func (w *Worker) settle(attempt *attempt, settlement *Settlement) {
	for failures := 1; ; failures++ {
		// It came too late, or the event comes back when its lease ends.
		err := w.trySettle(attempt, settlement)
		if err == nil {
			return
		}
		w.onError(fmt.Errorf("%s of %s failed: %w", settlement.Outcome, attempt.lease.ID, err))
		var problem *Problem
		if settlement.Reply != nil && errors.As(err, &problem) && problem.isInvalid() {
			w.settle(attempt, settlement.withReply(nil)) // it is the reply that is refused
			return
		}
		pause := w.backoff.pause(failures)
		if !mayPass(err) || !time.Now().Add(pause).Before(attempt.ends) || sleep(attempt.ctx, pause) != nil {
			return
		}
	}
}

// trySettle settles an attempt; where nobody waits for that any more, once more and not for long.
func (w *Worker) trySettle(attempt *attempt, settlement *Settlement) error {
	err := w.client.settle(attempt.ctx, attempt.lease, settlement, attempt.ends)
	if err == nil || attempt.ctx.Err() == nil || !mayPass(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleMax)
	defer cancel()
	return w.client.settle(ctx, attempt.lease, settlement, time.Now().Add(settleMax))
}

// endStream stops: nothing more is sent, and what was sent ends or is handed back.
func (w *Worker) endStream(name string, ended <-chan struct{}) {
	w.mutex.Lock()
	w.stopping = true
	w.mutex.Unlock()
	w.drainStream(name, ended)
	w.stop()
	if !w.isDrained() {
		return
	}
	timer := time.NewTimer(drainMax)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// drainStream lets the server send nothing more, and returns whether it does. It does not know yet a
// stream that is about to begin: one that has not ended is drained when it has begun.
func (w *Worker) drainStream(name string, ended <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	again := time.NewTicker(drainAgain)
	defer again.Stop()
	for !w.isDrained() {
		err := w.client.drain(ctx, w.queue, name)
		if err == nil {
			break
		}
		var problem *Problem
		if ended != nil && errors.As(err, &problem) && problem.isGone() {
			select {
			case <-again.C:
				continue
			case <-ctx.Done():
			case <-ended:
			}
		}
		// The server gives back what is on its way when the connection ends.
		w.onError(fmt.Errorf("stream of %s not drained: %w", w.queue, err))
		return false
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.drained = true
	return true
}

func (w *Worker) isDrained() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.drained
}

// stop hands back what waits for a slot, and waits for the handlers that run; it cancels those that take longer than the grace period,
// and waits for these.
func (w *Worker) stop() {
	w.mutex.Lock()
	w.stopping = true
	w.mutex.Unlock()
	close(w.leaving)
	all := make(chan struct{})
	go func() {
		w.work.Wait()
		close(all)
	}()
	timer := time.NewTimer(w.grace)
	defer timer.Stop()
	select {
	case <-all:
		return
	case <-timer.C:
	}
	w.mutex.Lock()
	for attempt := range w.running {
		attempt.cancel()
	}
	w.mutex.Unlock()
	<-all
}
