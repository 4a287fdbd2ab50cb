package duly_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"duly"
	"duly/dulytest"
)

// canned is a client of a server that sends some bytes to each request, and then closes.
func canned(t testing.TB, responses ...string) (*duly.Client, func() []string) {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	requests := make(chan string, len(responses))
	go func() {
		defer listener.Close()
		for _, response := range responses {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			request, err := http.ReadRequest(bufio.NewReader(connection))
			if err == nil {
				body, _ := io.ReadAll(request.Body)
				requests <- string(body)
				_, _ = io.WriteString(connection, response)
			}
			connection.Close()
		}
		close(requests)
	}()
	client := must[*duly.Client](t)(duly.NewClient("http://"+listener.Addr().String(), "x", "ns"))
	return client, func() []string {
		var all []string
		for request := range requests {
			all = append(all, request)
		}
		return all
	}
}

func TestAPushWhoseResponseIsCutIsRepeated(t *testing.T) {
	const stored = `[{"id": "7", "due_ms": 0, "duplicate": true}]`
	whole := fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(stored), stored)
	for _, cut := range []string{
		"", "HTTP/1.1 20", "no HTTP at all\r\n\r\n", whole[:30], whole[:len(whole)-1],
		"HTTP/1.1 201 Created\r\n\r\n" + stored[:20],
		"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2d\r\n" + stored,
		"HTTP/1.1 201 Created\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n[]",
		"HTTP/1.1 503 Unavailable\r\nContent-Length: 99\r\n\r\n{",
		"HTTP/1.1 503 Unavailable\r\nContent-Type: text/html; charset=none\r\n\r\n\xff",
	} {
		client, requests := canned(t, cut, whole)
		pushed, err := client.Push(ctx, "q", duly.Event{Payload: 1})
		if err != nil || !pushed[0].Duplicate {
			t.Fatalf("%q: %v", cut, err)
		}
		if sent := requests(); len(sent) != 2 || sent[0] != sent[1] {
			t.Errorf("%q: %v", cut, sent)
		}
	}
}

func TestAPauseIsReadAsTheServerAsks(t *testing.T) {
	for after, seconds := range map[string]int64{
		"7": 7, "007": 7, "31": 31, "9223372037": math.MaxInt32, strings.Repeat("9", 400): math.MaxInt32,
		"": 0, "0": 0, "-5": 0, "1.5": 0, "soon": 0, "Wed, 21 Oct 2099 07:28:00 GMT": 0,
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			client := standIn(t, func(response http.ResponseWriter, _ *http.Request) {
				response.Header().Set("Retry-After", after)
				response.WriteHeader(status)
			})
			var problem *duly.Problem
			_, err := client.Lease(ctx, "q", 1, time.Second, 0) // it is not repeated
			if !errors.As(err, &problem) || problem.RetryAfter != time.Duration(seconds)*time.Second {
				t.Errorf("%d %q: %v", status, after, err)
			}
		}
	}
}

func TestARedirectIsAnErrorAndIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, own := range map[string]*http.Client{"none": nil, "plain": {}, "default": http.DefaultClient} {
			var methods []string
			client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
				methods = append(methods, request.Method)
				if request.URL.Path == "/login" {
					return
				}
				response.Header().Set("Location", "/login")
				response.WriteHeader(status)
			})
			if own != nil {
				client.HTTP = own
			}
			_, pushed := client.Push(ctx, "q", duly.Event{Payload: 1})
			cancelled, moved := client.Cancel(ctx, "q", "7"), client.Reschedule(ctx, "q", "7", time.Second)
			_, explained := client.Explain(ctx, "q", "7")
			var problem *duly.Problem
			for _, err := range []error{pushed, cancelled, moved, explained} {
				if !errors.As(err, &problem) || problem.Status != status {
					t.Errorf("%d with the client %s: %v", status, name, err)
				}
			}
			if !reflect.DeepEqual(methods, []string{"POST", "DELETE", "PATCH", "GET"}) {
				t.Errorf("%d with the client %s: %v", status, name, methods)
			}
		}
	}
}

func TestASuccessOfSomethingElseIsNone(t *testing.T) {
	lease := &duly.Lease{Token: "t"}
	for _, text := range []string{"<h1>Log in</h1>", "{}", "null", "0", `""`, "[]", `{"login": "/"}`, " "} {
		requests, other, own := 0, 0, 0
		client := standIn(t, func(response http.ResponseWriter, _ *http.Request) {
			requests++
			if requests == 1 {
				response.WriteHeader(other)
				fmt.Fprint(response, text)
				return
			}
			response.WriteHeader(own)
			if own == http.StatusOK {
				fmt.Fprint(response, `{"due_ms": 0}`)
			}
		})
		for name, call := range map[string]func() error{
			"settle":     func() error { return client.Settle(ctx, lease, duly.Ack(nil)) },
			"extend":     func() error { return client.Extend(ctx, lease, time.Second) },
			"cancel":     func() error { return client.Cancel(ctx, "q", "7") },
			"drain":      func() error { return client.Drain(ctx, "q", "s") },
			"reschedule": func() error { return client.Reschedule(ctx, "q", "7", time.Second) },
		} {
			requests, other, own = 0, http.StatusOK, http.StatusNoContent
			if name == "reschedule" {
				other, own = http.StatusCreated, http.StatusOK
			}
			if err := call(); err != nil || requests != 2 {
				t.Errorf("%s, %q: %d requests: %v", name, text, requests, err)
			}
		}
		requests, other, own = 0, http.StatusOK, http.StatusOK
		if err := client.Reschedule(ctx, "q", "7", time.Second); err != nil || requests != 2 {
			t.Errorf("reschedule, %q: %d requests: %v", text, requests, err)
		}
	}
}

func TestASuccessWithoutABodyIsOneOfWhatReturnsNothing(t *testing.T) {
	lease := &duly.Lease{Token: "t"}
	for _, status := range []int{200, 201, 202, 204, 205} {
		requests := 0
		client := standIn(t, func(response http.ResponseWriter, _ *http.Request) {
			requests++
			response.WriteHeader(status)
		})
		for n, err := range []error{
			client.Settle(ctx, lease, duly.Ack(nil)), client.Extend(ctx, lease, time.Second),
			client.Cancel(ctx, "q", "7"), client.Drain(ctx, "q", "s"),
			client.Reschedule(ctx, "q", "7", time.Second),
		} {
			if err != nil {
				t.Errorf("%d, call %d: %v", status, n, err)
			}
		}
		if requests != 5 {
			t.Errorf("%d: %d requests", status, requests)
		}
	}
}

func TestAURLHasNoSpaceAroundIt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/v1/ns/queues/q/leases" {
			response.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(response, "[]")
	}))
	t.Cleanup(server.Close)
	for _, url := range []string{server.URL + " ", " " + server.URL, server.URL + "/\n"} {
		client := must[*duly.Client](t)(duly.NewClient(url, "x", "ns"))
		_, err := client.Lease(ctx, "q", 1, time.Second, 0)
		check(t, err)
	}
}

func TestLeasesThatAreNoneAreNoResponseOfDuly(t *testing.T) {
	for _, text := range []string{"{}", "null", "7", `"leases"`, ""} {
		client := standIn(t, func(response http.ResponseWriter, _ *http.Request) { fmt.Fprint(response, text) })
		if leases, err := client.Lease(ctx, "q", 1, time.Second, 0); err == nil {
			t.Errorf("%s: %v", text, leases)
		}
	}
}

func TestAWorkerThatIsThrottledWaitsAsLongAsTheServerAsks(t *testing.T) {
	var asked, other atomic.Int64
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		if strings.Contains(request.URL.Path, "/asked/") {
			asked.Add(1)
			response.Header().Set("Retry-After", "30")
		} else {
			other.Add(1)
		}
		response.WriteHeader(http.StatusTooManyRequests)
	})
	options := duly.Options{RetryMin: time.Millisecond, RetryMax: time.Millisecond, OnError: func(error) {}}
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	for _, queue := range []string{"asked", "other"} {
		handler := func(context.Context, *duly.Lease) error { return nil }
		worker := must[*duly.Worker](t)(duly.NewWorker(client, queue, handler, options))
		ended.Add(1)
		go func() {
			defer ended.Done()
			check(t, worker.Run(running))
		}()
	}
	until(func() bool { return other.Load() >= 100 && asked.Load() > 0 })
	stop()
	ended.Wait()
	if asked.Load() != 1 {
		t.Error(asked.Load())
	}
}

func TestATokenOfAFileIsTakenAndOneThatCannotBeSentIsNotShown(t *testing.T) {
	sent := ""
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		sent = request.Header.Get("Authorization")
		fmt.Fprint(response, "[]")
	}))
	t.Cleanup(server.Close)
	for _, token := range []string{"secret", "secret\n", "secret\r\n", " secret\t", "secret/"} {
		t.Setenv("DULY_TOKEN", token)
		client := must[*duly.Client](t)(duly.NewClient(server.URL, "", "ns"))
		_, err := client.Lease(ctx, "q", 1, time.Second, 0)
		check(t, err)
		if sent != "Bearer "+strings.TrimSpace(token) {
			t.Errorf("%q: %q", token, sent)
		}
	}
	for _, token := range []string{"secret\nother", "secret\x00", "secret\x7f", "\u00e9secret", "sec\u2028ret", "secret\xff"} {
		_, err := duly.NewClient(server.URL, token, "ns")
		if err == nil || !strings.Contains(err.Error(), "the token") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// tokenOf returns a token of a lease that is none for the same reason: it may have a dot, and is longer.
func tokenOf(name string) string {
	if len(name) > 255 {
		return strings.Repeat(name, 4)
	}
	return strings.Replace(name, "shop.close", "shop.close/", 1)
}

func TestWhatIsNoNameIsRefusedBeforeAnythingIsSent(t *testing.T) {
	requests := 0
	client := standIn(t, func(http.ResponseWriter, *http.Request) { requests++ })
	handler := func(context.Context, *duly.Lease) error { return nil }
	for _, name := range []string{"", ".", "..", "a/b", "a%2Fb", "a b", "a?b", "a#b", "ключ", "q\n", "\xff",
		"shop.close", "a:b", "a@b", "a=b", "a+b", "a$b", "a&b", "\u0661", strings.Repeat("q", 256)} {
		_, pushed := client.Push(ctx, name, duly.Event{Payload: 1})
		_, leased := client.Lease(ctx, name, 1, time.Second, 0)
		_, explained := client.Explain(ctx, "q", name)
		_, named := duly.NewClient("http://127.0.0.1:9", "x", "/"+name+"x")
		_, worked := duly.NewWorker(client, name, handler, duly.Options{})
		for n, err := range []error{
			pushed, leased, explained, named, worked, client.Cancel(ctx, "q", name),
			client.Reschedule(ctx, "q", name, time.Second),
			client.Settle(ctx, &duly.Lease{Token: tokenOf(name)}, duly.Ack(nil)),
			client.Extend(ctx, &duly.Lease{Token: tokenOf(name)}, time.Second),
		} {
			if err == nil || !strings.Contains(err.Error(), "letters, digits") {
				t.Errorf("%q: %d: %v", name, n, err)
			}
		}
	}
	if requests != 0 {
		t.Error(requests)
	}
}

func TestAWorkerWhoseTokenExpiresEndsWithTheReason(t *testing.T) {
	server := dulytest.Start(t)
	response := must[*http.Response](t)(http.Post(
		server.AdminURL+"/token/short?description=test&expires_in=2", "text/plain", nil))
	defer response.Body.Close()
	var made struct{ Token string }
	check(t, json.NewDecoder(response.Body).Decode(&made))
	client := must[*duly.Client](t)(duly.NewClient(server.URL, made.Token, "short"))
	handler := func(context.Context, *duly.Lease) error { return nil }
	worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", handler, duly.Options{}))
	var problem *duly.Problem
	if err := worker.Run(ctx); !errors.As(err, &problem) || problem.Status != 401 {
		t.Fatal(err)
	}
}

func TestAPushThatIsCancelledLeavesAClientThatGoesOn(t *testing.T) {
	client := dulytest.Start(t).Client()
	events := make([]duly.Event, 1000)
	for n := range events {
		events[n] = duly.Event{Payload: n, IdempotencyKey: strconv.Itoa(n)}
	}
	for n := 0; n < 60; n++ {
		cut, cancel := context.WithTimeout(ctx, time.Duration(n)*200*time.Microsecond)
		if _, err := client.Push(cut, "q", events...); err != nil {
			var interrupted *duly.PushError
			if !errors.As(err, &interrupted) || len(interrupted.Remaining) != len(events) {
				t.Fatal(err)
			}
		}
		cancel()
	}
	_, err := client.Push(ctx, "q", events...)
	check(t, err)
	leased := must[[]duly.Lease](t)(client.Lease(ctx, "q", 1000, time.Minute, 0))
	more := must[[]duly.Lease](t)(client.Lease(ctx, "q", 1000, time.Minute, 0))
	if len(leased)+len(more) != len(events) {
		t.Fatalf("%d and %d", len(leased), len(more))
	}
}

func TestAThousandHandlersRunAtATime(t *testing.T) {
	const most = 1000
	server := dulytest.Start(t)
	client := server.Client()
	events := make([]duly.Event, most)
	for n := range events {
		events[n].Payload = n
	}
	_, err := client.Push(ctx, "q", events...)
	check(t, err)
	var begun, done atomic.Int64
	all := make(chan struct{})
	stop := runs(t, client, func(context.Context, *duly.Lease) error {
		if begun.Add(1) == most {
			close(all)
		}
		<-all
		done.Add(1)
		return nil
	}, duly.Options{Concurrency: most, TTR: 10 * time.Minute})
	until(func() bool { return done.Load() == int64(len(events)) })
	stop()
	if left := lease(t, client, time.Minute); len(left) != 0 {
		t.Error(left)
	}
}

// counting returns the URL of a server that has no events, and how many connections were made to it.
func counting(t testing.TB) (string, func() int64) {
	t.Helper()
	var dials atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(response, "[]")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dials.Add(1)
		}
	}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, dials.Load
}

func TestConnectionsAreUsedAgainByHandlersThatEndTogether(t *testing.T) {
	const most, rounds = 20, 10
	url, dials := counting(t)
	client := must[*duly.Client](t)(duly.NewClient(url, "x", "ns"))
	for round := 0; round < rounds; round++ {
		var ended sync.WaitGroup
		for n := 0; n < most; n++ {
			ended.Add(1)
			go func() {
				defer ended.Done()
				_, err := client.Lease(ctx, "q", 1, time.Second, 0)
				check(t, err)
			}()
		}
		ended.Wait()
	}
	if dials() > 2*most {
		t.Errorf("%d connections for %d at a time", dials(), most)
	}
}

func TestClientsOfManyNamespacesShareTheirConnections(t *testing.T) {
	url, dials := counting(t)
	for n := 0; n < 65; n++ {
		client := must[*duly.Client](t)(duly.NewClient(url, "x", fmt.Sprintf("ns%d", n)))
		_, err := client.Lease(ctx, "q", 1, time.Second, 0)
		check(t, err)
	}
	if dials() != 1 {
		t.Errorf("%d connections for one request at a time", dials())
	}
}

func TestAPayloadComesBackAsItWasOrIsNoPayload(t *testing.T) {
	client := dulytest.Start(t).Client()
	for _, text := range []string{
		"9223372036854775808", "18446744073709551616", "1e400", strings.Repeat("9", 400), "-0", "5e-324",
		`"\u0000\u2028"`, `{"":{"é":null}}`, strings.Repeat("[", 500) + strings.Repeat("]", 500),
	} {
		_, err := client.Push(ctx, "q", duly.Event{Payload: json.RawMessage(text)})
		check(t, err)
		var found json.RawMessage
		check(t, lease(t, client, time.Minute)[0].Decode(&found))
		if string(found) != text {
			t.Errorf("%.40s: %.40s", text, found)
		}
	}
	for _, wrong := range []any{math.NaN(), math.Inf(1), json.RawMessage("NaN"), json.RawMessage(""), make(chan int)} {
		if _, err := client.Push(ctx, "q", duly.Event{Payload: wrong}); err == nil {
			t.Errorf("%v is pushed", wrong)
		}
	}
	for _, raw := range []string{"\"\xff\"", "\"\xed\xa0\x80\"", "\xef\xbb\xbf7", "\xff\xfe7\x00", "", "7 8", "NaN"} {
		_, err := client.Push(ctx, "q", duly.Event{Payload: []byte(raw)})
		check(t, err)
		var found any
		if err := lease(t, client, time.Minute)[0].Decode(&found); err == nil {
			t.Errorf("%q is %v", raw, found)
		}
	}
}
