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

// mayPass reports whether the same request may succeed later.
func (p *Problem) mayPass() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, http.StatusInsufficientStorage:
		return true
	}
	return false
}

// isLasting reports whether a stream would be refused again.
func (p *Problem) isLasting() bool {
	return p.Status >= 400 && p.Status < 500 && p.Status != http.StatusTooManyRequests &&
		p.Status != http.StatusRequestTimeout
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
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return problem
}

// PushError says that not every event was stored.
type PushError struct {
	// Results has a Pushed or a Problem for each event of the request.
	Results []PushResult
}

// PushResult is what became of one event; Problem is nil if it is stored.
type PushResult struct {
	Pushed
	Problem *Problem `json:"problem"`
}

func (e *PushError) Error() string {
	for _, result := range e.Results {
		if result.Problem != nil {
			return result.Problem.Error()
		}
	}
	return "duly: not every event was stored"
}
