package duly_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"duly"
	"duly/dulytest"
)

// runs runs a worker; the function that it returns stops it.
func runs(t testing.TB, client *duly.Client, handler duly.Handler, options duly.Options) func() {
	t.Helper()
	stop := begins(t, client, handler, options)
	return func() {
		t.Helper()
		stop(func() {})
	}
}

// begins is as runs; its function calls another when the worker takes no more events.
func begins(t testing.TB, client *duly.Client, handler duly.Handler, options duly.Options) func(func()) {
	t.Helper()
	if options.OnError == nil {
		options.OnError = func(err error) { t.Log(err) }
	}
	worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", handler, options))
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	return func(isStopping func()) {
		t.Helper()
		cancel()
		until(worker.IsStopping)
		isStopping()
		check(t, <-ended)
	}
}

// until waits for a condition; a test that hangs is ended by its runner.
func until(holds func() bool) {
	for !holds() {
		time.Sleep(5 * time.Millisecond)
	}
}

func TestEachOutcomeIsWhatTheServerRecords(t *testing.T) {
	server := dulytest.Start(t)
	client := server.Client()
	var mutex sync.Mutex
	seen := map[string][]int{}
	stop := runs(t, client, func(_ context.Context, lease *duly.Lease) error {
		var name string
		if err := lease.Decode(&name); err != nil {
			return duly.Bury(err.Error())
		}
		mutex.Lock()
		seen[name] = append(seen[name], lease.Attempt)
		count := len(seen[name])
		mutex.Unlock()
		switch {
		case name == "retry" && lease.Attempt < 3:
			return duly.RetryAfter(time.Minute, "not yet")
		case name == "snooze" && count < 3:
			return fmt.Errorf("later: %w", duly.Snooze(time.Minute))
		case name == "discard":
			return duly.Discard("of no use")
		case name == "fail":
			return errors.New("the bank is closed")
		case name == "panic":
			panic("a bug")
		}
		return nil
	}, duly.Options{})
	names := []string{"ack", "retry", "snooze", "discard", "fail", "panic"}
	ids := map[string]string{}
	for _, name := range names {
		pushed := must[[]duly.Pushed](t)(client.Push(ctx, "q", duly.Event{Payload: name, Attempts: 3}))
		ids[name] = pushed[0].ID
	}
	until(func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(seen) == len(names)
	})
	server.AdvanceSettling(24*time.Hour, time.Minute)
	stop()
	states := map[string]string{}
	for name, id := range ids {
		states[name] = state(t, client, id)
	}
	expected := map[string]string{"ack": "done", "retry": "done", "snooze": "done",
		"discard": "discarded", "fail": "dead", "panic": "dead"}
	if !reflect.DeepEqual(states, expected) {
		t.Errorf("%v", states)
	}
	attempts := map[string][]int{"ack": {1}, "retry": {1, 2, 3}, "snooze": {1, 1, 1},
		"discard": {1}, "fail": {1, 2, 3}, "panic": {1, 2, 3}}
	if !reflect.DeepEqual(seen, attempts) {
		t.Errorf("%v", seen)
	}
}

func TestAHandlerWhoseLeaseWasLostIsCancelled(t *testing.T) {
	server := dulytest.Start(t)
	client := server.Client()
	begun, cancelled := make(chan int, 9), make(chan struct{})
	stop := runs(t, client, func(ctx context.Context, lease *duly.Lease) error {
		begun <- lease.Attempt
		if lease.Attempt == 1 {
			<-ctx.Done()
			close(cancelled)
		}
		return nil
	}, duly.Options{TTR: time.Second})
	id := must[[]duly.Pushed](t)(client.Push(ctx, "q", duly.Event{Payload: 7, Attempts: 3}))[0].ID
	if attempt := <-begun; attempt != 1 {
		t.Fatal(attempt)
	}
	server.Advance(time.Second)
	<-cancelled
	server.AdvanceSettling(time.Hour, time.Minute)
	if attempt := <-begun; attempt != 2 {
		t.Fatal(attempt)
	}
	stop()
	if got := state(t, client, id); got != "done" {
		t.Fatal(got)
	}
}

func TestNoMoreRunAtATimeThanAllowed(t *testing.T) {
	client := dulytest.Start(t).Client()
	for n := 0; n < 30; n++ {
		_, err := client.Push(ctx, "q", duly.Event{Payload: n})
		check(t, err)
	}
	var mutex sync.Mutex
	now, most, done := 0, 0, 0
	three := make(chan struct{})
	stop := runs(t, client, func(context.Context, *duly.Lease) error {
		mutex.Lock()
		now++
		if now > most {
			most = now
			if most == 3 {
				close(three)
			}
		}
		mutex.Unlock()
		<-three // the first three are in at the same time
		mutex.Lock()
		now--
		done++
		mutex.Unlock()
		return nil
	}, duly.Options{Concurrency: 3})
	until(func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return done == 30
	})
	stop()
	if most != 3 {
		t.Fatal(most)
	}
}

func TestAStopLetsHandlersEndAndCostsOthersNoAttempt(t *testing.T) {
	client := dulytest.Start(t).Client()
	for n := 0; n < 10; n++ {
		_, err := client.Push(ctx, "q", duly.Event{Payload: n, Attempts: 9})
		check(t, err)
	}
	begun, open := make(chan string, 10), make(chan struct{})
	stop := begins(t, client, func(_ context.Context, lease *duly.Lease) error {
		begun <- lease.ID
		<-open
		return nil
	}, duly.Options{Concurrency: 4})
	until(func() bool { return len(begun) == 4 })
	stop(func() { close(open) })
	left := lease(t, client, time.Minute)
	for _, lease := range left {
		if lease.Attempt != 1 {
			t.Errorf("%v", lease)
		}
	}
	if len(left) != 6 || len(begun) != 4 {
		t.Fatalf("%d are left, %d have begun", len(left), len(begun))
	}
}

func TestAStopHandsBackWhatTakesLongerThanItsGrace(t *testing.T) {
	client := dulytest.Start(t).Client()
	_, err := client.Push(ctx, "q", duly.Event{Payload: 1, Attempts: 9})
	check(t, err)
	begun := make(chan struct{})
	stop := runs(t, client, func(ctx context.Context, _ *duly.Lease) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}, duly.Options{Grace: -1})
	<-begun
	stop()
	if left := lease(t, client, time.Minute); len(left) != 1 || left[0].Attempt != 1 {
		t.Fatalf("%v", left)
	}
}

func TestATimeoutEndsAnAttempt(t *testing.T) {
	client := dulytest.Start(t).Client()
	id := must[[]duly.Pushed](t)(client.Push(ctx, "q", duly.Event{Payload: 1, Attempts: 1}))[0].ID
	stop := runs(t, client, func(ctx context.Context, _ *duly.Lease) error {
		<-ctx.Done()
		return ctx.Err()
	}, duly.Options{Timeout: 50 * time.Millisecond})
	until(func() bool { return state(t, client, id) == "dead" })
	stop()
}

func TestAWorkerWithoutARightEndsWithTheReason(t *testing.T) {
	server := dulytest.Start(t)
	client := must[*duly.Client](t)(duly.NewClient(server.URL, "wrong", "ns"))
	handler := func(context.Context, *duly.Lease) error { return nil }
	worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", handler, duly.Options{}))
	var problem *duly.Problem
	if err := worker.Run(ctx); !errors.As(err, &problem) || problem.Status != 401 {
		t.Fatal(err)
	}
	for _, options := range []duly.Options{{Concurrency: 1001}, {TTR: time.Millisecond}} {
		if _, err := duly.NewWorker(client, "q", handler, options); err == nil {
			t.Errorf("%v", options)
		}
	}
}
