package duly_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"duly"
	"duly/dulytest"
)

var ctx = context.Background()

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lease leases all that can be leased now.
func lease(t testing.TB, client *duly.Client, ttr time.Duration) []duly.Lease {
	t.Helper()
	return must[[]duly.Lease](t)(client.Lease(ctx, "q", 100, ttr, 0))
}

func state(t testing.TB, client *duly.Client, id string) string {
	t.Helper()
	return must[duly.Explanation](t)(client.Explain(ctx, "q", id)).State
}

func TestHalfAnHourPassesInAMoment(t *testing.T) {
	server := dulytest.Start(t)
	client := server.Client()
	event := duly.Event{Payload: map[string]int{"order": 7}, Delay: 30 * time.Minute, Key: "customer:8"}
	pushed := must[[]duly.Pushed](t)(client.Push(ctx, "q", event))
	server.Advance(30*time.Minute - time.Millisecond)
	if early := lease(t, client, time.Minute); len(early) != 0 {
		t.Fatalf("%v is early", early)
	}
	before := server.Now()
	if now := server.Advance(time.Millisecond); now.Sub(before) != time.Millisecond {
		t.Fatalf("the clock moved from %v to %v", before, now)
	}
	leased := lease(t, client, time.Minute)
	var order struct{ Order int }
	if len(leased) != 1 || leased[0].ID != pushed[0].ID || leased[0].Key != "customer:8" {
		t.Fatalf("%v", leased)
	}
	check(t, leased[0].Decode(&order))
	if order.Order != 7 || leased[0].Attempt != 1 {
		t.Fatalf("%v of %v", order, leased[0])
	}
	check(t, client.Settle(ctx, &leased[0], duly.Ack(nil)))
	if got := state(t, client, pushed[0].ID); got != "done" {
		t.Fatal(got)
	}
}

func TestALeaseThatHasEndedIsLost(t *testing.T) {
	server := dulytest.Start(t)
	client := server.Client()
	_, err := client.Push(ctx, "q", duly.Event{Payload: 1, Attempts: 3})
	check(t, err)
	first := lease(t, client, 10*time.Second)[0]
	check(t, client.Extend(ctx, &first, time.Minute))
	server.Advance(59 * time.Second)
	check(t, client.Extend(ctx, &first, 10*time.Second))
	server.Advance(time.Hour)
	err = client.Settle(ctx, &first, duly.Ack(nil))
	if !errors.Is(err, duly.ErrLeaseLost) {
		t.Fatal(err)
	}
	again := lease(t, client, time.Minute)[0]
	if again.ID != first.ID || again.Attempt != 2 {
		t.Fatalf("%v", again)
	}
	check(t, client.Settle(ctx, &again, duly.RetryAfter(time.Minute, "the bank is closed")))
	server.Advance(time.Minute)
	if third := lease(t, client, time.Minute)[0]; third.Attempt != 3 {
		t.Fatalf("%v", third)
	}
}

func TestManyArePushedAndARepeatAddsNone(t *testing.T) {
	client := dulytest.Start(t).Client()
	events := make([]duly.Event, 2500)
	for n := range events {
		events[n] = duly.Event{Payload: n, IdempotencyKey: "n" + strings.Repeat("x", n%100) + string(rune('a'+n/100))}
	}
	for _, isDuplicate := range []bool{false, true} {
		pushed := must[[]duly.Pushed](t)(client.Push(ctx, "q", events...))
		ids := map[string]bool{}
		for _, event := range pushed {
			ids[event.ID] = true
			if event.Duplicate != isDuplicate {
				t.Fatalf("%v", event)
			}
		}
		if len(ids) != len(events) {
			t.Fatalf("%d ids", len(ids))
		}
	}
}

func TestEventsAreMovedAndCancelled(t *testing.T) {
	client := dulytest.Start(t).Client()
	event := duly.Event{Payload: []byte{0, 255}, At: time.Now().Add(24 * time.Hour)}
	id := must[[]duly.Pushed](t)(client.Push(ctx, "q", event))[0].ID
	check(t, client.Reschedule(ctx, "q", id, 0))
	leased := lease(t, client, time.Minute)
	if string(leased[0].Payload) != "\x00\xff" {
		t.Fatalf("%v", leased)
	}
	err := client.Cancel(ctx, "q", id)
	var problem *duly.Problem
	if !errors.As(err, &problem) || problem.Status != 409 || !strings.Contains(problem.Detail, "leased") {
		t.Fatal(err)
	}
}

func TestErrorsSayWhatWouldBeRight(t *testing.T) {
	server := dulytest.Start(t)
	client := server.Client()
	_, err := client.Push(ctx, "q", duly.Event{Payload: 1, IdempotencyKey: "a"})
	check(t, err)
	for word, event := range map[string]duly.Event{
		"`duly-`":     {Payload: 1, Headers: map[string]string{"duly-x": "1"}},
		"0 or more":   {Payload: 1, Delay: -1},
		"0 to 65535":  {Payload: 1, Attempts: 65536},
		"one of them": {Payload: 1, Delay: 1, At: time.Now()},
		"no JSON":     {Payload: func() {}},
		"409":         {Payload: 2, IdempotencyKey: "a"},
	} {
		if _, err := client.Push(ctx, "q", event); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
	_, err = client.Push(ctx, "q", duly.Event{Payload: 2, IdempotencyKey: "a"}, duly.Event{Payload: 3})
	var part *duly.PushError
	if !errors.As(err, &part) || part.Results[0].Problem == nil || part.Results[1].ID == "" {
		t.Fatal(err)
	}
	stranger := must[*duly.Client](t)(duly.NewClient(server.URL, "x", "other"))
	_, err = stranger.Push(ctx, "q", duly.Event{Payload: 1})
	var problem *duly.Problem
	if !errors.As(err, &problem) || problem.Status != 401 {
		t.Fatal(err)
	}
	for _, wrong := range []string{"here", "localhost:7777", "127.0.0.1:7777", "ftp://here", "http://", "http:///x", "://"} {
		if _, err := duly.NewClient(wrong, "x", "ns"); err == nil || !strings.Contains(err.Error(), "no URL") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestAProgramIsFoundFromHere(t *testing.T) {
	program := os.Getenv("DULY_PROGRAM")
	if program == "" {
		program = "duly"
	}
	path := must[string](t)(filepath.Abs(must[string](t)(exec.LookPath(program))))
	here := must[string](t)(os.Getwd())
	t.Setenv("DULY_PROGRAM", must[string](t)(filepath.Rel(here, path)))
	dulytest.Start(t).Client()
}

func TestAServerHasNoSettingOfTheEnvironment(t *testing.T) {
	for _, store := range []string{"memory:", "sqlite:jobs.db"} {
		t.Run(store, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(folder+"/duly.toml", []byte("no settings"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("DULY_SERVER__OUTBOX__URL", "sqlite:"+folder+"/outbox.db")
			t.Setenv("DULY_SERVER__ADMIN__ACCOUNTS__ANN", "secret")
			t.Setenv("DULY_SERVER__POOLS__OTHER__URL", "sqlite:"+folder+"/other.db")
			t.Setenv("duly_server__admin__state", "sqlite:"+folder+"/state.db")
			t.Setenv("DULY__RECORDS__JOURNAL", "sqlite:"+folder+"/records.db")
			t.Setenv("DULY_CONFIG", folder+"/duly.toml")
			dulytest.StartOn(t, store).Client()
			if found := must[[]os.DirEntry](t)(os.ReadDir(folder)); len(found) != 1 {
				t.Fatal(found)
			}
		})
	}
}
