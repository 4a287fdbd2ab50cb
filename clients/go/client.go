// Package duly is a client of the delayed job queue duly: jobs that run in half an hour, at a time,
// or again after a failure.
package duly

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	pushMax = 1000
	// pushBytesMax bounds the events of one request; a server takes 8 MiB, and one event has less.
	pushBytesMax = 7 << 20
	triesMax     = 5
	// repeatsMax: no repeat begins later after the first try, as a server knows for a minute what
	// has ended.
	repeatsMax    = 50 * time.Second
	retryAfterMax = 30 * time.Second
	responseMax   = 64 << 20
	requestMax    = 30 * time.Second
	// idleMax is how many connections wait for the next request; handlers end many at a time.
	idleMax = 100
)

var requestBackoff = backoff{50 * time.Millisecond, 5 * time.Second}

// since is that of the clock; a test has one of its own.
var since = time.Since

// shared has the connections of all clients, however many there are.
var shared struct {
	once      sync.Once
	transport *http.Transport
}

// Client calls a server; it may be used by many goroutines.
type Client struct {
	base, token, namespace string
	// HTTP sends the requests; change it before the first. It must have no timeout of its own, as
	// that would end streams. Its CheckRedirect is not asked, since no redirect is followed.
	// A transport of your own should offer no HTTP/2, by which a dead connection is used for minutes.
	HTTP *http.Client
}

// NewClient returns a client of a server, with a token of a namespace. What is empty comes from
// DULY_URL, DULY_TOKEN and DULY_NAMESPACE.
func NewClient(server, token, namespace string) (*Client, error) {
	or := func(value, variable, otherwise string) string {
		if value == "" {
			value = os.Getenv(variable)
		}
		if value == "" {
			value = otherwise
		}
		return value
	}
	server = strings.TrimRight(strings.TrimSpace(or(server, "DULY_URL", "http://127.0.0.1:7777")), "/")
	token, namespace = or(token, "DULY_TOKEN", ""), or(namespace, "DULY_NAMESPACE", "")
	if token == "" || namespace == "" {
		return nil, errors.New("duly: no token or no namespace; give both, or set DULY_TOKEN and DULY_NAMESPACE")
	}
	token = strings.TrimSpace(token) // what is read from a file ends by a line break
	if strings.IndexFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return nil, errors.New("duly: the token has a line break in it, or a letter that is not ASCII")
	}
	parsed, err := url.Parse(server)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return nil, fmt.Errorf("duly: %q is no URL; it must be like http://127.0.0.1:7777", server)
	}
	path := "/v1/" + url.PathEscape(namespace)
	if err := checkPath(path); err != nil {
		return nil, err
	}
	calls := &http.Client{}
	if usual, isUsual := http.DefaultTransport.(*http.Transport); isUsual {
		shared.once.Do(func() {
			shared.transport = onlyHTTP1(usual.Clone())
			shared.transport.MaxIdleConnsPerHost = idleMax
		})
		calls.Transport = shared.transport
	}
	return &Client{base: server + path, token: token, namespace: namespace, HTTP: calls}, nil
}

// onlyHTTP1 returns a transport that offers no HTTP/2: there one connection has every request and
// stream, and it is used again though it is dead, until the system finds that after minutes.
func onlyHTTP1(transport *http.Transport) *http.Transport {
	transport.ForceAttemptHTTP2 = false
	transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	if transport.TLSClientConfig != nil {
		transport.TLSClientConfig.NextProtos = nil // a clone has them of what it is a clone of
	}
	return transport
}

var (
	nameForm = regexp.MustCompile(`^[-_A-Za-z0-9]{1,255}$`)
	// leaseForm is that of the token of a lease, which has the name of its queue in it.
	leaseForm = regexp.MustCompile(`^[-_.A-Za-z0-9]{1,1000}$`)
)

// checkPath refuses a path with a part that is no name: it would be another path to the server, or
// to something before it.
func checkPath(path string) error {
	path, _, _ = strings.Cut(path, "?")
	form := nameForm
	if strings.HasPrefix(path, "/leases/") {
		form = leaseForm
	}
	for _, part := range strings.Split(path[1:], "/") {
		if !form.MatchString(part) || strings.Trim(part, ".") == "" {
			return fmt.Errorf("duly: %q has a part that is no name; one has 1 to 255 letters, digits, - and _", path)
		}
	}
	return nil
}

func queuePath(queue, rest string) string {
	return "/queues/" + url.PathEscape(queue) + rest
}

// request is a request, and how its response is read.
type request struct {
	method, path string
	body         any
	read         func(status int, text []byte) error
	// wanted is, of what returns nothing, the only status of a success with a body. Without a body any
	// success is one: something on the way may make a 200 of a 204.
	wanted int
	// isOnce is whether it is sent once only, also where it may not have arrived.
	isOnce bool
	wait   time.Duration
	// ends is when it is of no use any more, if that is known: no pause that the server asks for
	// outlasts that.
	ends time.Time
}

// pause returns how long to wait after so many tries.
func (r *request) pause(tries int, err error) time.Duration {
	asked := askedPause(err)
	if left := time.Until(r.ends) / 2; !r.ends.IsZero() && asked > left {
		asked = left // another try comes in time
	}
	if usual := requestBackoff.pause(tries); asked < usual {
		return usual
	}
	return asked
}

// into reads a response into a value.
func into(value any) func(int, []byte) error {
	return func(_ int, text []byte) error { return json.Unmarshal(text, value) }
}

func (c *Client) new(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	made, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	made.Header.Set("Authorization", "Bearer "+c.token)
	made.Header.Set("User-Agent", "duly-go/0.1.0")
	if body != nil {
		made.Header.Set("Content-Type", "application/json")
	}
	return made, nil
}

// do sends a request. A redirect would make a GET of a DELETE, and a success of what was not done.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	calls := *c.HTTP
	calls.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return calls.Do(request)
}

func (c *Client) sendOnce(ctx context.Context, r request, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestMax+r.wait)
	defer cancel()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	made, err := c.new(ctx, r.method, r.path, reader)
	if err != nil {
		return err
	}
	response, err := c.do(made)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, responseMax))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return problemOf(response, text)
	}
	if r.wanted != 0 && len(text) == 0 {
		return nil
	}
	if r.wanted != 0 && response.StatusCode != r.wanted {
		return fmt.Errorf("no response of duly: its status is %d", response.StatusCode)
	}
	if r.read == nil {
		return nil
	}
	return r.read(response.StatusCode, text)
}

func (c *Client) send(ctx context.Context, r request) error {
	if err := checkPath(r.path); err != nil {
		return err
	}
	var body []byte
	if r.body != nil {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			return fmt.Errorf("duly: the request is no JSON: %w", err)
		}
		body = encoded
	}
	begun := time.Now()
	for tries := 1; ; tries++ {
		err := c.sendOnce(ctx, r, body)
		if err == nil || !mayPass(err) {
			return err
		}
		pause := r.pause(tries, err)
		if r.isOnce || tries == triesMax || ctx.Err() != nil || since(begun)+pause >= repeatsMax {
			return fmt.Errorf("duly: %s %s: %w", r.method, r.path, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// Push pushes events, with each request a thousand or 7 MiB. Where a request fails, or not every
// event of it is stored, it returns those of the requests before and a *PushError.
func (c *Client) Push(ctx context.Context, queue string, events ...Event) ([]Pushed, error) {
	keyed, bodies := make([]Event, len(events)), make([]json.RawMessage, len(events))
	for i, event := range events {
		var err error
		if keyed[i], err = event.keyed(); err != nil {
			return nil, err
		}
		if bodies[i], err = keyed[i].body(); err != nil {
			return nil, err
		}
	}
	pushed := make([]Pushed, 0, len(events))
	path := queuePath(queue, "/events")
	for begin, end := 0, 0; begin < len(bodies); begin = end {
		end = begin + countOf(bodies[begin:])
		var results []PushResult
		read := func(_ int, text []byte) error {
			results = nil // of an earlier try
			if err := json.Unmarshal(text, &results); err != nil {
				return err
			}
			if len(results) != end-begin {
				return fmt.Errorf("duly: %d results for %d events", len(results), end-begin)
			}
			// Not by the status: a gateway may make a 200 of each success.
			isWhole := true
			for _, result := range results {
				if result.Problem == nil && result.ID == "" {
					return errors.New("no response of duly: an event has no id")
				}
				isWhole = isWhole && result.Problem == nil
			}
			if !isWhole {
				return &PushError{Results: results}
			}
			return nil
		}
		body := map[string]any{"events": bodies[begin:end]}
		err := c.send(ctx, request{method: http.MethodPost, path: path, body: body, read: read})
		var refused *PushError
		if errors.As(err, &refused) {
			return pushed, &PushError{Results: refused.Results, Remaining: keyed[begin:]}
		}
		if err != nil {
			return pushed, &PushError{Remaining: keyed[begin:], Err: err}
		}
		for _, result := range results {
			pushed = append(pushed, result.Pushed)
		}
	}
	return pushed, nil
}

// countOf returns how many of some events go with one request: one at least.
func countOf(bodies []json.RawMessage) int {
	count, length := 0, 0
	for _, body := range bodies {
		length += len(body) + 1
		if count > 0 && (count == pushMax || length > pushBytesMax) {
			break
		}
		count++
	}
	return count
}

// Cancel cancels an event that waits.
func (c *Client) Cancel(ctx context.Context, queue, id string) error {
	path := queuePath(queue, "/events/"+url.PathEscape(id))
	return c.send(ctx, request{method: http.MethodDelete, path: path, wanted: http.StatusNoContent})
}

// Reschedule makes an event that waits due after a delay from now.
func (c *Client) Reschedule(ctx context.Context, queue, id string, delay time.Duration) error {
	path := queuePath(queue, "/events/"+url.PathEscape(id))
	body := map[string]any{"delay_ms": millis(delay)}
	read := func(_ int, text []byte) error {
		var changed struct {
			DueMS *int64 `json:"due_ms"`
		}
		err := json.Unmarshal(text, &changed)
		if err == nil && changed.DueMS == nil {
			return errors.New("no response of duly: it has no due time")
		}
		return err
	}
	return c.send(ctx, request{
		method: http.MethodPatch, path: path, body: body, read: read, wanted: http.StatusOK,
	})
}

// Explanation is where an event is and what it waits for.
type Explanation struct {
	ID    string `json:"id"`
	State string `json:"state"`
	DueMS int64  `json:"due_ms"`
}

// Explain explains an event, also one that is over.
func (c *Client) Explain(ctx context.Context, queue, id string) (Explanation, error) {
	var explanation Explanation
	path := queuePath(queue, "/explanations/"+url.PathEscape(id))
	err := c.send(ctx, request{method: http.MethodGet, path: path, read: into(&explanation)})
	return explanation, err
}

// Lease leases up to limit events for ttr; it waits up to wait for the first, and 8 s at most.
func (c *Client) Lease(ctx context.Context, queue string, limit int, ttr, wait time.Duration) ([]Lease, error) {
	var leases []Lease
	body := map[string]any{"max": limit, "ttr_ms": millis(ttr), "wait_ms": millis(wait)}
	read := func(_ int, text []byte) error {
		err := json.Unmarshal(text, &leases)
		if err == nil && leases == nil {
			return errors.New("no response of duly: it has no list of leases")
		}
		return err
	}
	// What was leased by a lost response comes back by itself.
	err := c.send(ctx, request{
		method: http.MethodPost, path: queuePath(queue, "/leases"), body: body, read: read,
		isOnce: true, wait: wait,
	})
	return leases, err
}

// Settle ends an attempt.
func (c *Client) Settle(ctx context.Context, lease *Lease, settlement *Settlement) error {
	return c.settle(ctx, lease, settlement, time.Time{})
}

// settle ends an attempt whose lease ends at a time, if that is known.
func (c *Client) settle(ctx context.Context, lease *Lease, settlement *Settlement, ends time.Time) error {
	path := "/leases/" + url.PathEscape(lease.Token) + "/settle"
	return c.send(ctx, request{
		method: http.MethodPost, path: path, body: settlement, wanted: http.StatusNoContent, ends: ends,
	})
}

// drain lets a stream end when all that it has sent is settled.
func (c *Client) drain(ctx context.Context, queue, name string) error {
	path := queuePath(queue, "/leases/stream/drain?name="+url.QueryEscape(name))
	ends, _ := ctx.Deadline() // a pause that the server asks for does not outlast it
	return c.send(ctx, request{method: http.MethodPost, path: path, wanted: http.StatusNoContent, ends: ends})
}

// Extend makes a lease end ttr from now.
func (c *Client) Extend(ctx context.Context, lease *Lease, ttr time.Duration) error {
	path := "/leases/" + url.PathEscape(lease.Token) + "/extend"
	body := map[string]any{"ttr_ms": millis(ttr)}
	return c.send(ctx, request{method: http.MethodPost, path: path, body: body, wanted: http.StatusNoContent})
}
