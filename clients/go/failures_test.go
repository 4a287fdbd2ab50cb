package duly_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"duly"
	"duly/dulytest"
)

// standIn is a client of a server that responds as a test says.
func standIn(t testing.TB, respond http.HandlerFunc) *duly.Client {
	t.Helper()
	server := httptest.NewServer(respond)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return must[*duly.Client](t)(duly.NewClient(server.URL, "x", "ns"))
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func TestAnInterruptedPushSaysWhatIsStoredAndTheRestIsPushedAgain(t *testing.T) {
	client := dulytest.Start(t).Client()
	requests := 0
	client.HTTP.Transport = transport(func(request *http.Request) (*http.Response, error) {
		requests++
		response, err := http.DefaultTransport.RoundTrip(request)
		if err == nil && requests > 1 && requests <= 6 {
			response.Body.Close()
			return nil, errors.New("reset") // the second request is stored, and its response is lost
		}
		return response, err
	})
	events := make([]duly.Event, 2500)
	for n := range events {
		events[n] = duly.Event{Payload: n}
	}
	pushed, err := client.Push(ctx, "q", events...)
	var interrupted *duly.PushError
	if !errors.As(err, &interrupted) || len(pushed) != 1000 || len(interrupted.Remaining) != 1500 {
		t.Fatalf("%d: %v", len(pushed), err)
	}
	for n, event := range must[[]duly.Pushed](t)(client.Push(ctx, "q", interrupted.Remaining...)) {
		if event.Duplicate != (n < 1000) {
			t.Fatalf("%d: %v", n, event)
		}
	}
}

func TestAPushOfManyHasAsManyRequestsAsTheirBytesNeed(t *testing.T) {
	for name, c := range map[string]struct {
		count    int
		payload  any
		requests int
	}{
		"9 KB each": {1000, strings.Repeat("x", 9000), 2},
		"1 MB each": {9, strings.Repeat("x", 1000000), 2},
		"bytes":     {9, make([]byte, 1000000), 2},
		"not ASCII": {20, strings.Repeat("\u00e9\u2028", 120000), 3},
		"escapes":   {20, strings.Repeat("\"", 500000), 3},
		"numbers":   {1001, 1, 2},
	} {
		client := dulytest.Start(t).Client()
		requests, longest := 0, int64(0)
		client.HTTP.Transport = transport(func(request *http.Request) (*http.Response, error) {
			requests++
			if request.ContentLength > longest {
				longest = request.ContentLength
			}
			return http.DefaultTransport.RoundTrip(request)
		})
		events := make([]duly.Event, c.count)
		for n := range events {
			events[n].Payload = c.payload
		}
		pushed, err := client.Push(ctx, "q", events...)
		if err != nil || len(pushed) != c.count || requests != c.requests || longest >= 8<<20 {
			t.Errorf("%s: %d pushed by %d requests, of %d bytes at most: %v", name, len(pushed), requests, longest, err)
		}
	}
}

func TestAResponseThatHasNotAResultForEachEventIsNoneOfDuly(t *testing.T) {
	for _, text := range []string{"[]", "null", `[{"id": "7"}]`, `[{"id": "7"}, {}]`} {
		client := standIn(t, func(response http.ResponseWriter, _ *http.Request) {
			response.WriteHeader(http.StatusCreated)
			fmt.Fprint(response, text)
		})
		var failed *duly.PushError
		pushed, err := client.Push(ctx, "q", duly.Event{Payload: 1}, duly.Event{Payload: 2})
		if !errors.As(err, &failed) || len(pushed) != 0 || len(failed.Remaining) != 2 {
			t.Errorf("%s: %v, %v", text, pushed, err)
		}
	}
}

func TestWhatWouldMeanSomethingElseIsRefusedOrDueAtOnce(t *testing.T) {
	client := dulytest.Start(t).Client()
	events := []duly.Event{{Payload: 1}, {Payload: 1, Expires: -1}}
	if _, err := client.Push(ctx, "q", events...); err == nil || !strings.Contains(err.Error(), "0 is never") {
		t.Fatal(err)
	}
	for _, late := range []*duly.Settlement{duly.Snooze(-time.Second), duly.RetryAfter(-1, "why")} {
		if *late.DelayMS != 0 {
			t.Errorf("%v", *late.DelayMS)
		}
	}
	for _, payload := range [][]byte{{}, nil} {
		_, err := client.Push(ctx, "q", duly.Event{Payload: payload})
		check(t, err)
	}
	for _, leased := range lease(t, client, time.Minute) {
		if len(leased.Payload) != 0 {
			t.Errorf("%v", leased)
		}
	}
}

func TestWhatCannotBeAReplyIsLeftOutAndTheEventIsDone(t *testing.T) {
	client := dulytest.Start(t).Client()
	var none *duly.Settlement
	replies := []error{duly.Ack(func() {}), duly.Ack(strings.Repeat("x", 2<<20)), none, duly.Ack(7)}
	var mutex sync.Mutex
	begun := 0
	stop := runs(t, client, func(_ context.Context, lease *duly.Lease) error {
		var n int
		check(t, lease.Decode(&n))
		mutex.Lock()
		defer mutex.Unlock()
		begun++
		return replies[n]
	}, duly.Options{})
	for n := range replies {
		id := must[[]duly.Pushed](t)(client.Push(ctx, "q", duly.Event{Payload: n, Attempts: 1}))[0].ID
		until(func() bool { return state(t, client, id) == "done" })
	}
	stop()
	if begun != len(replies) {
		t.Fatal(begun)
	}
}

func TestAReplyThatTheServerRefusesIsFollowedByAnAckWithoutIt(t *testing.T) {
	drained, settled := make(chan struct{}), make(chan string, 9)
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		switch path := request.URL.Path; {
		case strings.HasSuffix(path, "/stream"):
			payload := base64.StdEncoding.EncodeToString([]byte("7"))
			fmt.Fprintf(response, "event: lease\ndata: {\"token\": \"t\", \"payload_base64\": %q}\n\n", payload)
			response.(http.Flusher).Flush()
			<-drained
		case strings.HasSuffix(path, "/drain"):
			close(drained)
		case strings.HasSuffix(path, "/settle"):
			settled <- string(body)
			if strings.Contains(string(body), "reply") {
				response.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
		}
		if !strings.HasSuffix(request.URL.Path, "/stream") {
			response.WriteHeader(http.StatusNoContent)
		}
	})
	handler := func(context.Context, *duly.Lease) error { return duly.Ack(7) }
	stop := runs(t, client, handler, duly.Options{})
	said := []string{<-settled, <-settled}
	stop()
	if !reflect.DeepEqual(said, []string{`{"outcome":"ack","reply":7}`, `{"outcome":"ack"}`}) {
		t.Fatal(said)
	}
}

func TestAHandlerThatEndsItsGoroutineHasFailed(t *testing.T) {
	client := dulytest.Start(t).Client()
	stop := runs(t, client, func(context.Context, *duly.Lease) error {
		runtime.Goexit()
		return nil
	}, duly.Options{Concurrency: 1})
	for n := 0; n < 2; n++ {
		id := must[[]duly.Pushed](t)(client.Push(ctx, "q", duly.Event{Payload: n, Attempts: 1}))[0].ID
		until(func() bool { return state(t, client, id) == "dead" })
	}
	stop()
}

func failsHere() error { panic("a bug") }

func TestWhatAHandlerFailsByIsToldAndAnOutcomeIsNot(t *testing.T) {
	client := dulytest.Start(t).Client()
	closed, told := errors.New("the bank is closed"), make(chan error, 9)
	options := duly.Options{OnError: func(err error) { told <- err }}
	worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", func(_ context.Context, lease *duly.Lease) error {
		var n int
		check(t, lease.Decode(&n))
		switch n {
		case 0:
			return duly.Bury("poison")
		case 1:
			return closed
		}
		return failsHere()
	}, options))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	for n := 0; n < 3; n++ {
		id := must[[]duly.Pushed](t)(client.Push(ctx, "q", duly.Event{Payload: n, Attempts: 1}))[0].ID
		until(func() bool { return state(t, client, id) == "dead" })
	}
	stop()
	check(t, <-ended)
	close(told)
	failed, panicked := <-told, <-told
	if !errors.Is(failed, closed) || panicked == nil || !strings.Contains(panicked.Error(), "failsHere") || len(told) != 0 {
		t.Error(failed, panicked, len(told))
	}
}

func TestAPushOfWhichTheServerDoesNotKnowIsRepeatedUnderItsKey(t *testing.T) {
	type refusal struct {
		status int
		kind   string
	}
	cases := map[refusal]int{{500, "unknown"}: 2, {500, "corrupt"}: 1, {408, "timeout"}: 2}
	for _, status := range []int{408, 429, 502, 504, 520, 522, 524, 530, 599} {
		cases[refusal{status, ""}] = 2
	}
	for _, status := range []int{401, 403, 404} {
		cases[refusal{status, ""}] = 2
	}
	for _, status := range []int{400, 410, 413, 422} {
		cases[refusal{status, ""}] = 1
	}
	for status, kind := range map[int]string{400: "invalid", 401: "unauthorized", 403: "forbidden"} {
		cases[refusal{status, kind}] = 1
	}
	for refused, requests := range cases {
		var sent []string
		client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
			body, _ := io.ReadAll(request.Body)
			sent = append(sent, string(body))
			if len(sent) == 1 {
				response.WriteHeader(refused.status)
				text := "<html>origin is unreachable</html>"
				if refused.kind != "" {
					text = fmt.Sprintf(`{"kind": %q, "detail": "the reply was lost"}`, refused.kind)
				}
				fmt.Fprint(response, text)
				return
			}
			response.WriteHeader(http.StatusCreated)
			fmt.Fprint(response, `[{"id": "7", "duplicate": true}]`)
		})
		_, err := client.Push(ctx, "q", duly.Event{Payload: 1, Version: 2})
		if (err == nil) != (requests == 2) || len(sent) != requests || sent[0] != sent[len(sent)-1] {
			t.Fatalf("%v: %v, %v", refused, err, sent)
		}
		if !strings.Contains(sent[0], `"version":2`) {
			t.Fatal(sent[0])
		}
	}
}

func TestAnEventForWhichThereIsNoSlotGoesBackBeforeItsLeaseEnds(t *testing.T) {
	drained, settled := make(chan struct{}), make(chan string, 9)
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		switch path := request.URL.Path; {
		case strings.HasSuffix(path, "/stream"):
			fmt.Fprint(response, "event: lease\ndata: {\"token\": \"t\"}\n\nevent: lease\ndata: {\"token\": \"u\"}\n\n")
			response.(http.Flusher).Flush()
			<-drained
		case strings.HasSuffix(path, "/drain"):
			close(drained)
		case strings.HasSuffix(path, "/settle"):
			settled <- string(body)
		}
		if !strings.HasSuffix(request.URL.Path, "/stream") {
			response.WriteHeader(http.StatusNoContent)
		}
	})
	begun, open := make(chan struct{}, 9), make(chan struct{})
	stop := runs(t, client, func(context.Context, *duly.Lease) error {
		begun <- struct{}{}
		<-open // whatever its context says
		return nil
	}, duly.Options{Concurrency: 1, TTR: time.Second})
	said := []string{<-settled}
	close(open)
	said = append(said, <-settled)
	stop()
	if !reflect.DeepEqual(said, []string{`{"outcome":"release"}`, `{"outcome":"ack"}`}) || len(begun) != 1 {
		t.Fatal(said)
	}
}

func TestAWorkerBehindAProxyThatIsWrongGoesOn(t *testing.T) {
	statuses, streams := []int{404, 400, 401, 403, 401}, 0
	client := standIn(t, func(response http.ResponseWriter, _ *http.Request) {
		response.WriteHeader(statuses[streams])
		if streams++; streams == len(statuses) {
			fmt.Fprint(response, `{"kind": "unauthorized"}`)
		}
	})
	handler := func(context.Context, *duly.Lease) error { return nil }
	options := duly.Options{RetryMin: time.Millisecond, RetryMax: time.Millisecond}
	worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", handler, options))
	var problem *duly.Problem
	if err := worker.Run(ctx); !errors.As(err, &problem) || problem.Kind != "unauthorized" || streams != len(statuses) {
		t.Fatalf("%d: %v", streams, err)
	}
}

// A server knows for a minute what has ended: a later repeat of a push could be another event.
func TestNoRepeatBeginsWhenTheServerMayHaveForgottenTheFirstTry(t *testing.T) {
	for name, c := range map[string]struct {
		each  time.Duration
		after string
		tries int
	}{
		"at once":        {0, "", 5},
		"slow":           {9 * time.Second, "", 5},
		"none responds":  {30 * time.Second, "", 2},
		"asked to wait":  {21 * time.Second, "30", 1},
		"slower than it": {time.Minute, "", 1},
	} {
		var passed time.Duration
		before := duly.SetSince(func(begun time.Time) time.Duration { return time.Since(begun) + passed })
		tries := 0
		client := standIn(t, func(response http.ResponseWriter, _ *http.Request) {
			tries++
			passed += c.each
			if c.after != "" {
				response.Header().Set("Retry-After", c.after)
			}
			response.WriteHeader(http.StatusServiceUnavailable)
		})
		_, err := client.Push(ctx, "q", duly.Event{Payload: 1})
		duly.SetSince(before)
		var interrupted *duly.PushError
		if !errors.As(err, &interrupted) || len(interrupted.Remaining) != 1 || tries != c.tries {
			t.Errorf("%s: %d tries: %v", name, tries, err)
		}
	}
}
