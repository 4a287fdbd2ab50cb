package duly

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	eventMax    = 32 << 20
	inFlightMax = 1000
)

// streamSilence is for how long a stream may say nothing: it has a comment every ten seconds.
var streamSilence = 35 * time.Second

var errStreamEnded = errors.New("duly: the server closed the stream")

// streamOptions are those of a stream; by its name it is drained.
type streamOptions struct {
	queue, name string
	ttr         time.Duration
	inFlight    int
	// begun is called when the server knows the stream.
	begun func()
}

func (o streamOptions) path() string {
	const form = "/leases/stream?max_in_flight=%d&ttr_ms=%d&name=%s"
	return queuePath(o.queue, fmt.Sprintf(form, o.inFlight, *millis(o.ttr), url.QueryEscape(o.name)))
}

// stream calls receive for each lease until the stream ends, which is an error in any case.
func (c *Client) stream(ctx context.Context, options streamOptions, receive func(*Lease)) error {
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.read(streaming, cancel, options, receive)
	if streaming.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("duly: stream of %s: nothing came for %v", options.queue, streamSilence)
	}
	return err
}

// read reads a stream; it cancels one that is silent.
func (c *Client) read(ctx context.Context, cancel context.CancelFunc, options streamOptions, receive func(*Lease)) error {
	silence := time.AfterFunc(streamSilence, cancel)
	defer silence.Stop()
	made, err := c.new(ctx, http.MethodGet, options.path(), nil)
	if err != nil {
		return err
	}
	response, err := c.do(made)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, responseMax)) // its status says enough
		return problemOf(response, text)
	}
	options.begun()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, eventMax)
	var name string
	for lines.Scan() {
		silence.Reset(streamSilence)
		line := lines.Bytes()
		if value := bytes.TrimPrefix(line, []byte("event: ")); len(value) < len(line) {
			name = string(value)
		}
		data := bytes.TrimPrefix(line, []byte("data: "))
		if len(data) == len(line) {
			continue
		}
		switch name {
		case "lease":
			lease := &Lease{}
			if err := json.Unmarshal(data, lease); err != nil {
				return fmt.Errorf("duly: an event of the stream is no lease: %w", err)
			}
			receive(lease)
		case "problem":
			problem := &Problem{}
			if err := json.Unmarshal(data, problem); err != nil {
				return fmt.Errorf("duly: an event of the stream is no problem: %w", err)
			}
			return problem
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("duly: stream of %s: %w", options.queue, err)
	}
	return errStreamEnded
}
