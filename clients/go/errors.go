package duly

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// ErrLeaseLost is what errors.Is finds in the error of a settlement or an extension whose lease has
// ended: the event is somebody else's, or was settled otherwise.
var ErrLeaseLost = errors.New("duly: the lease is lost")

// Problem is what the server says of an error: problem details of RFC 9457.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	// Detail is what is wrong, and what would be right.
	Detail string `json:"detail"`
	// Kind is the class of the error, for programs.
	Kind string `json:"kind"`
	// RetryAfter is how long until the same may succeed; 0 if the server has not said so.
	RetryAfter time.Duration `json:"-"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("duly: %d %s: %s", p.Status, p.Kind, p.Detail)
}

// Is reports whether the problem is a lost lease.
func (p *Problem) Is(target error) bool {
	return target == ErrLeaseLost && p.Kind == "lease_lost"
}

// mayPass reports whether the same request may succeed later, for one event of a push at least.
func mayPass(err error) bool {
	var push *PushError
	if errors.As(err, &push) {
		for _, result := range push.Results {
			if result.Problem != nil && result.Problem.mayPass() {
				return true
			}
		}
		return false
	}
	var problem *Problem
	return !errors.As(err, &problem) || problem.mayPass()
}

func (p *Problem) mayPass() bool {
	if p.isOfProxy() {
		return true
	}
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInsufficientStorage:
		return true
	}
	// It may have been done, or is of a proxy with statuses of its own; a repeat is safe, and tells.
	return p.Status >= 500 && p.isBare()
}

// isBare reports whether it has no kind: it is no problem of the server, which tells one.
func (p *Problem) isBare() bool {
	return p.Kind == "unknown"
}

// isOfProxy reports whether a proxy refuses whoever asks, or has a 404 of its own. A bare 400 is of
// the request: the same would meet it again.
func (p *Problem) isOfProxy() bool {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return p.isBare()
	}
	return p.Status == http.StatusNotFound && !p.isGone()
}

// isGone reports whether there is no such thing.
func (p *Problem) isGone() bool {
	return p.Status == http.StatusNotFound && p.Kind == "not_found"
}

// isInvalid reports whether the form of the request is wrong.
func (p *Problem) isInvalid() bool {
	switch p.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// isLasting reports whether the server itself has refused a stream, and would again.
func (p *Problem) isLasting() bool {
	isDenied := p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden
	return !p.isBare() && (p.isInvalid() || isDenied)
}

// problemOf reads a problem; a response of something between here and the server has other forms.
func problemOf(response *http.Response, body []byte) *Problem {
	problem := &Problem{}
	if json.Unmarshal(body, problem) != nil || problem.Detail == "" {
		problem.Detail = fmt.Sprintf("%.200s", body)
	}
	if problem.Kind == "" {
		problem.Kind = "unknown"
	}
	problem.Status = response.StatusCode
	// The number of one that is too large is the largest; that of a date is 0.
	seconds, _ := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 32)
	if seconds > 0 {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return problem
}

// askedPause returns how long the server asks to wait, within bounds; 0 if it does not.
func askedPause(err error) time.Duration {
	var problem *Problem
	if !errors.As(err, &problem) {
		return 0
	}
	if problem.RetryAfter > retryAfterMax {
		return retryAfterMax
	}
	return problem.RetryAfter
}

// PushError says that not every event was stored, or that it is not known.
type PushError struct {
	// Results has a Pushed or a Problem for each event of the request that failed; it is empty where
	// there was no response.
	Results []PushResult
	// Remaining has the events of that request and those after it, with their keys, to push again:
	// what is stored of them is not stored twice while it waits or runs, and for a minute after.
	Remaining []Event
	// Err is why the request failed; nil where there are Results.
	Err error
}

// PushResult is what became of one event; Problem is nil if it is stored.
type PushResult struct {
	Pushed
	Problem *Problem `json:"problem"`
}

func (e *PushError) Error() string {
	if err := e.Unwrap(); err != nil {
		return err.Error()
	}
	return "duly: not every event was stored"
}

// Unwrap returns why the request failed, or the first Problem of the results.
func (e *PushError) Unwrap() error {
	for _, result := range e.Results {
		if result.Problem != nil {
			return result.Problem
		}
	}
	return e.Err
}
