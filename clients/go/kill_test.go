package duly_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"duly"
	"duly/dulytest"
)

func TestNothingIsLostWhenTheServerIsKilled(t *testing.T) {
	const count, kills = 600, 3
	server := dulytest.StartOn(t, "sqlite:jobs.db")
	client := server.Client()
	var mutex sync.Mutex
	ends := map[int]int{}
	ended := func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return len(ends)
	}
	stop := runs(t, client, func(_ context.Context, lease *duly.Lease) error {
		var payload int
		if err := lease.Decode(&payload); err != nil {
			return duly.Bury(err.Error())
		}
		time.Sleep(2 * time.Millisecond) // work
		mutex.Lock()
		defer mutex.Unlock()
		ends[payload]++
		return nil
	}, duly.Options{Concurrency: 20, TTR: 2 * time.Second, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond})
	ids := make(chan []string, 1)
	go func() {
		var all []string
		for begin := 0; begin < count; begin += 20 {
			events := make([]duly.Event, 20)
			for n := range events {
				key := strconv.Itoa(begin + n)
				events[n] = duly.Event{Payload: begin + n, Attempts: 99, IdempotencyKey: key}
			}
			pushed, err := client.Push(ctx, "q", events...)
			for err != nil { // a start may take longer than the client repeats a push
				t.Log(err)
				pushed, err = client.Push(ctx, "q", events...)
			}
			for _, event := range pushed {
				all = append(all, event.ID)
			}
			time.Sleep(10 * time.Millisecond) // so that the kills come in between
		}
		ids <- all
	}()
	for number := 1; number <= kills; number++ {
		until(func() bool { return ended() >= number*count/10 })
		server.Kill()
		server.Restart()
	}
	until(func() bool { return ended() == count })
	all := map[string]bool{}
	for _, id := range <-ids {
		all[id] = true
		until(func() bool { return state(t, client, id) == "done" })
	}
	stop()
	if len(all) != count {
		t.Fatalf("%d ids", len(all))
	}
}
