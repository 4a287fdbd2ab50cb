package duly

import (
	"context"
	"crypto/rand"
	"encoding/binary"
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
	// Not by math/rand, which gives every process the same numbers before Go 1.20.
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return length
	}
	part := binary.BigEndian.Uint64(random[:]) % uint64(length/2+1)
	return length/2 + time.Duration(part)
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
