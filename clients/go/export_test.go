package duly

import (
	"context"
	"time"
)

// Drain is for tests: it drains a stream.
func (c *Client) Drain(ctx context.Context, queue, name string) error {
	return c.drain(ctx, queue, name)
}

// SetStreamSilence is for tests: for how long a stream may say nothing; it returns what it replaces.
func SetStreamSilence(to time.Duration) (before time.Duration) {
	before, streamSilence = streamSilence, to
	return before
}

// SetSince is for tests: how long it is since a time, for repeats; it returns what it replaces.
func SetSince(to func(time.Time) time.Duration) (before func(time.Time) time.Duration) {
	before, since = since, to
	return before
}

// IsStopping is for tests: whether the worker takes no more events.
func (w *Worker) IsStopping() bool { return w.isStopping() }

// Running is for tests: how many leases the worker has.
func (w *Worker) Running() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.running)
}

// Pause is for tests: a pause after a failure, with jitter.
func Pause(first time.Duration) time.Duration {
	return backoff{first, first}.pause(1)
}
