package duly

import (
	"context"
	"math/rand"
	"time"
)

// backoff has pauses that double from first to longest; each is a random part of its length.
type backoff struct {
	first, longest time.Duration
}

// pause returns the pause after so many failures in a row: half of its length at least.
func (b backoff) pause(failures int) time.Duration {
	length := b.first
	for i := 1; i < failures && length < b.longest; i++ {
		length *= 2
	}
	if length > b.longest {
		length = b.longest
	}
	return length/2 + time.Duration(rand.Int63n(int64(length/2)+1))
}

// sleep waits; it returns the error of the context if that ends first.
func sleep(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
