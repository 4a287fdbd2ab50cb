package duly_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"duly"
)

// outage is a stand-in with one lease, whose streams end when they are drained.
type outage struct {
	client  *duly.Client
	mutex   sync.Mutex
	settled []string
}

func (o *outage) settlements() []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return append([]string{}, o.settled...)
}

// newOutage returns a stand-in; respond responds to the nth call of a kind, and returns whether it has.
func newOutage(t testing.TB, respond func(call string, nth int, response http.ResponseWriter, request *http.Request) bool) *outage {
	t.Helper()
	o := &outage{}
	drained, calls := make(chan struct{}), map[string]int{}
	o.client = standIn(t, func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		call := path.Base(request.URL.Path)
		o.mutex.Lock()
		calls[call]++
		nth := calls[call]
		if call == "settle" {
			o.settled = append(o.settled, string(body))
		}
		o.mutex.Unlock()
		switch {
		case call == "stream":
			fmt.Fprint(response, "event: lease\ndata: {\"token\": \"t\"}\n\n")
			response.(http.Flusher).Flush()
			<-drained
		case call == "drain":
			close(drained)
			response.WriteHeader(http.StatusNoContent)
		case !respond(call, nth, response, request):
			response.WriteHeader(http.StatusNoContent)
		}
	})
	return o
}

// waits returns a handler that ends with a channel, or when it is told to, and how it has ended.
func waits(open <-chan struct{}) (duly.Handler, <-chan string) {
	ended := make(chan string, 9)
	return func(ctx context.Context, _ *duly.Lease) error {
		select {
		case <-open:
			ended <- "done"
		case <-ctx.Done():
			ended <- "cancelled"
		}
		return nil
	}, ended
}

const ack = `{"outcome":"ack"}`

func acks(count int) []string {
	return strings.Fields(strings.Repeat(ack+" ", count))
}

func TestAnExtensionThatHangsIsFollowedByAnotherOne(t *testing.T) {
	open := make(chan struct{})
	o := newOutage(t, func(call string, nth int, _ http.ResponseWriter, request *http.Request) bool {
		if call == "extend" && nth == 4 {
			close(open) // later than the first lease would have ended
		}
		if call == "extend" && nth == 1 {
			<-request.Context().Done()
		}
		return false
	})
	handler, ended := waits(open)
	stop := runs(t, o.client, handler, duly.Options{TTR: time.Second})
	if how := <-ended; how != "done" {
		t.Error(how)
	}
	stop()
	if got := o.settlements(); !reflect.DeepEqual(got, acks(1)) {
		t.Error(got)
	}
}

func TestAHandlerThatEndsWhileAnExtensionHangsIsSettledAtOnce(t *testing.T) {
	open := make(chan struct{})
	o := newOutage(t, func(call string, _ int, _ http.ResponseWriter, request *http.Request) bool {
		if call == "extend" {
			close(open)
			<-request.Context().Done()
		}
		return false
	})
	handler, _ := waits(open)
	begun := time.Now()
	stop := runs(t, o.client, handler, duly.Options{TTR: time.Second})
	until(func() bool { return len(o.settlements()) > 0 || time.Since(begun) > 5*time.Second })
	stop()
	if got := o.settlements(); !reflect.DeepEqual(got, acks(1)) {
		t.Error(got)
	}
}

func TestARefusalOfAProxyEndsNoAttemptAndDropsNoSettlementThatMayPass(t *testing.T) {
	for status, tries := range map[int]int{400: 1, 401: 2, 403: 2, 404: 2} {
		status, open := status, make(chan struct{})
		o := newOutage(t, func(call string, nth int, response http.ResponseWriter, _ *http.Request) bool {
			if nth == 1 {
				http.Error(response, "back soon", status)
				return true
			}
			if call == "extend" && nth == 2 {
				close(open)
			}
			return false
		})
		handler, ended := waits(open)
		stop := runs(t, o.client, handler, duly.Options{TTR: time.Second})
		if how := <-ended; how != "done" {
			t.Error(status, how)
		}
		stop()
		if got := o.settlements(); !reflect.DeepEqual(got, acks(tries)) {
			t.Error(status, got)
		}
	}
}

func TestASettlementIsRepeatedForAsLongAsItsLeaseGoesOn(t *testing.T) {
	o := newOutage(t, func(call string, nth int, response http.ResponseWriter, _ *http.Request) bool {
		isAway := call == "settle" && nth < 8
		if isAway {
			response.WriteHeader(http.StatusBadGateway)
		}
		return isAway
	})
	open := make(chan struct{})
	close(open)
	handler, ended := waits(open)
	stop := runs(t, o.client, handler, duly.Options{RetryMin: time.Millisecond, RetryMax: time.Millisecond})
	<-ended
	stop()
	if got := o.settlements(); !reflect.DeepEqual(got, acks(8)) {
		t.Error(got)
	}
}

func TestAPauseThatTheServerAsksForDoesNotOutlastTheLeaseThatIsSettled(t *testing.T) {
	again := make(chan struct{})
	o := newOutage(t, func(call string, nth int, response http.ResponseWriter, _ *http.Request) bool {
		isFirst := call == "settle" && nth == 1
		switch {
		case isFirst:
			response.Header().Set("Retry-After", "30")
			response.WriteHeader(http.StatusServiceUnavailable)
		case call == "settle" && nth == 2:
			close(again)
		}
		return isFirst
	})
	open := make(chan struct{})
	close(open)
	handler, _ := waits(open)
	stop := runs(t, o.client, handler, duly.Options{TTR: time.Second, Grace: -1})
	select {
	case <-again:
	case <-time.After(15 * time.Second):
		t.Error("it is not repeated")
	}
	stop()
}

func TestAStopWaitsForASettlementNoLongerThanItsGrace(t *testing.T) {
	o := newOutage(t, func(call string, _ int, response http.ResponseWriter, _ *http.Request) bool {
		if call == "settle" {
			response.WriteHeader(http.StatusBadGateway)
		}
		return call == "settle"
	})
	open := make(chan struct{})
	close(open)
	handler, _ := waits(open)
	options := duly.Options{TTR: time.Hour, Grace: -1, RetryMin: time.Millisecond, RetryMax: time.Millisecond}
	stop := runs(t, o.client, handler, options)
	until(func() bool { return len(o.settlements()) > 5 })
	stop()
}

func TestAStopIsNotHeldUpByASettlementThatIsNotAnswered(t *testing.T) {
	for how, respond := range map[string]func(http.ResponseWriter, *http.Request){
		"hangs": func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() },
		"is away for long": func(response http.ResponseWriter, _ *http.Request) {
			response.Header().Set("Retry-After", "30")
			response.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		respond := respond
		o := newOutage(t, func(call string, _ int, response http.ResponseWriter, request *http.Request) bool {
			if call == "settle" {
				respond(response, request)
			}
			return call == "settle"
		})
		open := make(chan struct{})
		close(open)
		handler, _ := waits(open)
		stop := runs(t, o.client, handler, duly.Options{TTR: time.Hour, Grace: -1})
		until(func() bool { return len(o.settlements()) > 0 })
		stop()
		// The one that was cut short, and a last one, which is repeated if there is a response.
		got := o.settlements()
		if isOnce := len(got) == 2; isOnce != (how == "hangs") || !reflect.DeepEqual(got[:2], acks(2)) {
			t.Errorf("a server that %s: %v", how, got)
		}
	}
}

func TestAPauseThatTheServerAsksForDoesNotOutlastTheStopThatDrains(t *testing.T) {
	var drains atomic.Int64
	streams, over := make(chan struct{}), make(chan struct{})
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		switch {
		case path.Base(request.URL.Path) == "stream":
			response.WriteHeader(http.StatusOK)
			response.(http.Flusher).Flush()
			close(streams)
			<-over
		case drains.Add(1) == 1:
			response.Header().Set("Retry-After", "30")
			response.WriteHeader(http.StatusServiceUnavailable)
		default:
			response.WriteHeader(http.StatusNoContent)
			close(over)
		}
	})
	stop := runs(t, client, func(context.Context, *duly.Lease) error { return nil }, duly.Options{})
	<-streams
	stop()
	if drains.Load() != 2 {
		close(over)
		t.Error(drains.Load())
	}
}

func TestAStopTakesOneLeaseAtMostOfAStreamThatItCouldNotDrain(t *testing.T) {
	var mutex sync.Mutex
	var settled []string
	calls := map[string]int{}
	count := func(call string) int {
		mutex.Lock()
		defer mutex.Unlock()
		return calls[call]
	}
	begun, sends, open := make(chan struct{}), make(chan struct{}, 9), make(chan struct{})
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		call := path.Base(request.URL.Path)
		mutex.Lock()
		calls[call]++
		nth, drains := calls[call], calls["drain"]
		if call == "settle" {
			settled = append(settled, string(body))
		}
		mutex.Unlock()
		send := func() {
			fmt.Fprint(response, "event: lease\ndata: {\"token\": \"t\"}\n\n")
			response.(http.Flusher).Flush()
		}
		switch {
		case call == "stream" && nth == 1:
			send()
			<-begun
		case call == "stream":
			response.(http.Flusher).Flush()
			for {
				select {
				case <-sends:
					send()
				case <-request.Context().Done():
					return
				case <-open:
					return
				}
			}
		case call == "drain" && nth == 1:
			response.WriteHeader(http.StatusNotFound)
			fmt.Fprint(response, `{"kind": "not_found"}`)
			sends <- struct{}{}
		case call == "settle" && drains < 2 && nth < 5:
			sends <- struct{}{}
			fallthrough
		default:
			response.WriteHeader(http.StatusNoContent)
		}
	})
	options := duly.Options{RetryMin: time.Millisecond, RetryMax: time.Millisecond}
	stop := begins(t, client, func(context.Context, *duly.Lease) error {
		close(begun)
		<-open // whatever its context says
		return nil
	}, options)
	until(func() bool { return count("stream") == 2 })
	stop(func() {
		until(func() bool { return count("settle") == 5 || count("drain") >= 2 && count("settle") == 1 })
		close(open)
	})
	if !reflect.DeepEqual(settled, []string{`{"outcome":"release"}`, ack}) {
		t.Error(settled)
	}
}

func TestAWorkerIsReadyWhenItsStreamHasBegunOrItHasEnded(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusForbidden} {
		status := status
		connects, begins, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
			if path.Base(request.URL.Path) != "stream" {
				response.WriteHeader(http.StatusNoContent)
				close(over)
				return
			}
			close(connects)
			<-begins
			response.WriteHeader(status)
			if status != http.StatusOK {
				fmt.Fprint(response, `{"kind": "forbidden"}`)
				return
			}
			response.(http.Flusher).Flush()
			<-over
		})
		handler := func(context.Context, *duly.Lease) error { return nil }
		worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", handler, duly.Options{}))
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		<-connects
		select {
		case <-worker.Ready():
			t.Error("it is ready before its stream begins")
		default:
		}
		close(begins)
		<-worker.Ready()
		stop()
		if err := <-ended; (err != nil) != (status == http.StatusForbidden) {
			t.Error(status, err)
		}
	}
}

func TestAStopWhileAStreamBeginsCostsNoAttempt(t *testing.T) {
	settled := make(chan string, 9)
	connects, begins, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var drains atomic.Int64
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		call := path.Base(request.URL.Path)
		switch {
		case call == "stream":
			close(connects)
			select {
			case <-begins:
			case <-request.Context().Done():
				return
			}
			fmt.Fprint(response, "event: lease\ndata: {\"token\": \"t\"}\n\n")
			response.(http.Flusher).Flush()
			<-over
			return
		case call == "drain" && drains.Add(1) < 3:
			response.WriteHeader(http.StatusNotFound)
			fmt.Fprint(response, `{"kind": "not_found"}`)
			return
		case call == "drain" && drains.Load() == 3:
			close(begins)
		case call == "settle":
			settled <- string(body)
			close(over)
		}
		response.WriteHeader(http.StatusNoContent)
	})
	stop := runs(t, client, func(context.Context, *duly.Lease) error { return nil }, duly.Options{})
	<-connects
	stop()
	close(settled)
	if said := <-settled; said != `{"outcome":"release"}` {
		t.Error(said)
	}
}

func TestWhatWaitsForASlotIsHandedBackAsTheWorkerStops(t *testing.T) {
	var begun atomic.Value
	settled, handedBack, over := make(chan string, 9), make(chan struct{}), make(chan struct{})
	sends := make(chan struct{})
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		call, token := path.Base(request.URL.Path), path.Base(path.Dir(request.URL.Path))
		switch {
		case call == "stream":
			send := func(token string) {
				fmt.Fprintf(response, "event: lease\ndata: {\"token\": %q}\n\n", token)
				response.(http.Flusher).Flush()
			}
			send("runs")
			<-sends
			send("waits")
			<-over
			return
		case call == "settle":
			settled <- token + " " + string(body)
			if len(settled) == 1 {
				close(handedBack)
			} else {
				close(over)
			}
		}
		response.WriteHeader(http.StatusNoContent)
	})
	options := duly.Options{
		Concurrency: 1, TTR: time.Hour, Grace: 5 * time.Second, OnError: func(err error) { t.Log(err) },
	}
	handler := func(ctx context.Context, lease *duly.Lease) error {
		begun.Store(lease.Token)
		close(sends)
		select {
		case <-handedBack:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", handler, options))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	until(func() bool { return worker.Running() == 2 })
	stop()
	check(t, <-ended)
	close(settled)
	first, second := <-settled, <-settled
	if first != `waits {"outcome":"release"}` || second != "runs "+ack || begun.Load() != "runs" {
		t.Error(first, second, begun.Load())
	}
}

func TestWhatWaitedForASlotWhileItsStreamEndedBeginsOnlyIfItsLeaseGoesOn(t *testing.T) {
	var mutex sync.Mutex
	var begun, settled []string
	streams := 0
	isBegun, open, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		call, token := path.Base(request.URL.Path), path.Base(path.Dir(request.URL.Path))
		if call == "stream" && streams > 0 {
			<-isBegun
		}
		mutex.Lock()
		defer mutex.Unlock()
		switch {
		case call == "stream" && streams < 3:
			token = []string{"first", "second", "third"}[streams]
			streams++
			fmt.Fprintf(response, "event: lease\ndata: {\"token\": %q}\n\n", token)
			return
		case call == "stream":
			close(open) // the last one is taken
			response.WriteHeader(http.StatusOK)
			response.(http.Flusher).Flush()
			mutex.Unlock()
			<-over
			mutex.Lock()
			return
		case call == "drain":
			close(over)
		case call == "extend" && token == "second":
			response.WriteHeader(http.StatusConflict)
			fmt.Fprint(response, `{"kind": "lease_lost"}`)
			return
		case call == "settle":
			settled = append(settled, token)
		}
		response.WriteHeader(http.StatusNoContent)
	})
	stop := runs(t, client, func(_ context.Context, lease *duly.Lease) error {
		mutex.Lock()
		begun = append(begun, lease.Token)
		if len(begun) == 1 {
			close(isBegun)
		}
		mutex.Unlock()
		<-open // whatever its context says
		return nil
	}, duly.Options{Concurrency: 1, RetryMin: time.Millisecond, RetryMax: time.Millisecond})
	until(func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(settled) == len(begun) && len(settled) > 1
	})
	stop()
	sort.Strings(begun)
	sort.Strings(settled)
	expected := []string{"first", "third"}
	if !reflect.DeepEqual(begun, expected) || !reflect.DeepEqual(settled, expected) {
		t.Error(begun, settled)
	}
}

func TestTheEndOfAStreamChecksTheLeaseOfEachHandlerThatRunsAtOnce(t *testing.T) {
	var streams atomic.Int32
	begun, told := make(chan struct{}), make(chan struct{})
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		switch path.Base(request.URL.Path) {
		case "stream":
			streams.Add(1)
			fmt.Fprint(response, "event: lease\ndata: {\"token\": \"t\"}\n\n")
			response.(http.Flusher).Flush()
			<-begun
		case "extend":
			response.WriteHeader(http.StatusConflict)
			fmt.Fprint(response, `{"kind": "lease_lost"}`)
		default:
			response.WriteHeader(http.StatusNoContent)
		}
	})
	stop := runs(t, client, func(ctx context.Context, _ *duly.Lease) error {
		close(begun)
		<-ctx.Done()
		close(told)
		return nil
		// The next stream would begin a long time later.
	}, duly.Options{TTR: time.Hour, RetryMin: time.Hour, RetryMax: time.Hour})
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Error("it is not told that its lease is lost")
	}
	stop()
	if streams.Load() != 1 {
		t.Error(streams.Load())
	}
}

func TestAPushOfManyIsRepeatedWhereOneOfThemMayBeStoredThen(t *testing.T) {
	const (
		away     = `{"problem": {"status": 503, "kind": "unavailable", "detail": "away"}}`
		conflict = `{"problem": {"status": 409, "kind": "conflict", "detail": "another"}}`
		stored   = `{"id": "7", "duplicate": true}`
	)
	cases := map[[2]string]int{
		{away, away}: 2, {conflict, away}: 2, {stored, away}: 2, {conflict, stored}: 1,
	}
	// A gateway makes a 200 of each success.
	for _, statuses := range [][2]int{{http.StatusMultiStatus, http.StatusCreated}, {http.StatusOK, http.StatusOK}} {
		for first, requests := range cases {
			var sent []string
			client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
				body, _ := io.ReadAll(request.Body)
				sent = append(sent, string(body))
				if len(sent) == 1 {
					response.WriteHeader(statuses[0])
					fmt.Fprintf(response, "[%s, %s]", first[0], first[1])
					return
				}
				response.WriteHeader(statuses[1])
				fmt.Fprintf(response, "[%s, %s]", stored, stored)
			})
			pushed, err := client.Push(ctx, "q", duly.Event{Payload: 1}, duly.Event{Payload: 2})
			var refused *duly.PushError
			if len(sent) != requests || sent[0] != sent[len(sent)-1] {
				t.Errorf("%v: %d requests", first, len(sent))
			}
			if isRefused := errors.As(err, &refused); isRefused != (requests == 1) || len(pushed) != 2*(requests-1) {
				t.Errorf("%v: %v, %v", first, pushed, err)
			}
		}
	}
}

func TestPausesAreOthersInEachProcess(t *testing.T) {
	const variable = "DULY_TEST_PAUSES"
	if os.Getenv(variable) != "" {
		for n := 0; n < 9; n++ {
			fmt.Println("pause", duly.Pause(time.Hour))
		}
		return
	}
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var pauses []string
	for n := 0; n < 2; n++ {
		command := exec.CommandContext(bounded, os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		command.Env = append(os.Environ(), variable+"=1")
		output := string(must[[]byte](t)(command.Output()))
		pauses = append(pauses, strings.Join(regexp.MustCompile("pause .*").FindAllString(output, -1), "\n"))
	}
	if strings.Count(pauses[0], "pause") != 9 || pauses[0] == pauses[1] {
		t.Error(pauses)
	}
	for n := 0; n < 1000; n++ {
		if pause := duly.Pause(3); pause < 1 || pause > 3 {
			t.Fatal(pause)
		}
	}
}

func TestAStreamThatIsSilentSaysSo(t *testing.T) {
	before := duly.SetStreamSilence(100 * time.Millisecond)
	defer duly.SetStreamSilence(before)
	for name, hasBegun := range map[string]bool{"at once": false, "later": true} {
		client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
			if hasBegun && strings.Contains(request.URL.Path, "stream") {
				fmt.Fprint(response, ": here\n\n")
				response.(http.Flusher).Flush()
			}
			<-request.Context().Done()
		})
		told := make(chan error, 100)
		running, stop := context.WithCancel(ctx)
		handler := func(context.Context, *duly.Lease) error { return nil }
		options := duly.Options{OnError: func(err error) { told <- err }}
		worker := must[*duly.Worker](t)(duly.NewWorker(client, "q", handler, options))
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(running) }()
		if err := <-told; !strings.Contains(err.Error(), "stream of q: nothing came for 100ms") {
			t.Errorf("%s: %v", name, err)
		}
		stop()
		check(t, <-ended)
	}
}
