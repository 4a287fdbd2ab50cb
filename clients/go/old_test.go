package duly_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"duly"
)

// Ages are told by the stand-in; a busy machine does not make a new lease a third of this old.
const oldTTR = 6 * time.Second

// old is a stand-in that streams leases which have lain in the socket, and a worker that takes them.
type old struct {
	mutex                 sync.Mutex
	stream                http.ResponseWriter
	begun, extended, told []string
	stop                  func()
}

// newOld returns one that has handled the lease "first", which was quick.
func newOld(t testing.TB, isLost func(token string) bool) *old {
	t.Helper()
	o := &old{}
	drained := make(chan struct{})
	client := standIn(t, func(response http.ResponseWriter, request *http.Request) {
		call, token := path.Base(request.URL.Path), path.Base(path.Dir(request.URL.Path))
		switch call {
		case "stream":
			o.mutex.Lock()
			o.stream = response
			o.mutex.Unlock()
			o.send("first", 0)
			<-drained
			return
		case "drain":
			close(drained)
		case "extend":
			o.mutex.Lock()
			o.extended = append(o.extended, token)
			o.mutex.Unlock()
			if isLost(token) {
				response.WriteHeader(http.StatusConflict)
				fmt.Fprint(response, `{"kind": "lease_lost"}`)
				return
			}
		}
		response.WriteHeader(http.StatusNoContent)
	})
	o.stop = runs(t, client, func(_ context.Context, lease *duly.Lease) error {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		o.begun = append(o.begun, lease.Token)
		return nil
	}, duly.Options{TTR: oldTTR, OnError: func(err error) {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		o.told = append(o.told, err.Error())
	}})
	until(func() bool { return len(o.has(&o.begun)) == 1 })
	return o
}

// send streams a lease that began so long ago.
func (o *old) send(token string, age time.Duration) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	const form = "event: lease\ndata: {\"token\": %q, \"id\": %q, \"deadline_ms\": %d}\n\n"
	fmt.Fprintf(o.stream, form, token, token, time.Now().Add(oldTTR-age).UnixMilli())
	o.stream.(http.Flusher).Flush()
}

// has returns what there is so far, sorted.
func (o *old) has(what *[]string) []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	has := append([]string{}, *what...)
	sort.Strings(has)
	return has
}

func TestALeaseThatHasLainInTheSocketForLongBeginsOnlyIfItGoesOn(t *testing.T) {
	o := newOld(t, func(token string) bool { return token == "lost" })
	o.send("lost", oldTTR/2)
	o.send("held", oldTTR/2)
	o.send("new", 0)
	until(func() bool {
		begun := len(o.has(&o.begun))
		return begun > 3 || begun > 2 && len(o.has(&o.extended)) > 1
	})
	o.stop()
	if begun := o.has(&o.begun); !reflect.DeepEqual(begun, []string{"first", "held", "new"}) {
		t.Error(begun)
	}
	if extended := o.has(&o.extended); !reflect.DeepEqual(extended, []string{"held", "lost"}) {
		t.Error(extended)
	}
}

func TestALeaseThatEndedInTheSocketAndIsNotExtendedDoesNotBegin(t *testing.T) {
	o := newOld(t, func(token string) bool {
		if token == "over" {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	o.send("over", oldTTR*14/10)
	o.send("new", 0)
	until(func() bool {
		begun := len(o.has(&o.begun))
		return begun > 2 || begun > 1 && len(o.has(&o.told)) > 0
	})
	o.stop()
	if begun := o.has(&o.begun); !reflect.DeepEqual(begun, []string{"first", "new"}) {
		t.Error(begun)
	}
	if told := strings.Join(o.has(&o.told), "\n"); !strings.Contains(told, "the lease of over was lost before") {
		t.Error(told)
	}
}

func TestAClockThatWasSetBackMakesOnlyTheNextLeaseLookOld(t *testing.T) {
	o := newOld(t, func(string) bool { return false })
	o.send("second", 2*oldTTR)
	until(func() bool { return len(o.has(&o.begun)) == 2 })
	o.send("third", 2*oldTTR)
	until(func() bool { return len(o.has(&o.begun)) == 3 })
	o.stop()
	if extended := o.has(&o.extended); !reflect.DeepEqual(extended, []string{"second"}) {
		t.Error(extended)
	}
}
