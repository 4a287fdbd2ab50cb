package duly

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Event is an event to push: due at once, after Delay, or at At.
type Event struct {
	// Payload is a value of JSON; []byte is pushed as it is.
	Payload any
	Delay   time.Duration
	At      time.Time
	// Key is by which events are found.
	Key string
	// Unique is of which only one event waits or runs, in a queue of one bucket, the server's
	// default; Replace replaces that one.
	Unique  string
	Replace bool
	// Attempts is the most attempts; 0 is the default of the queue.
	Attempts int
	// Expires is how long until it is of no use any more; 0 is never.
	Expires time.Duration
	// KeepPayload is whether its records keep its payload, so that it can be replayed; nil is the
	// default of the queue.
	KeepPayload *bool
	// Version is that of the form of its payload, for handlers in Rust that upgrade older ones.
	Version uint32
	Headers map[string]string
	// ID is a ULID, if you choose it.
	ID string
	// IdempotencyKey is a name that stands for the id. Without it and ID one is made, so that a
	// repeat is safe.
	IdempotencyKey string
}

// Pushed is a stored event.
type Pushed struct {
	ID string `json:"id"`
	// DueMS is when it is due, in milliseconds since the epoch.
	DueMS int64 `json:"due_ms"`
	// Duplicate is whether it was there already; nothing was changed then.
	Duplicate bool `json:"duplicate"`
}

// Lease is a leased event: settle it before its deadline, or extend the lease.
type Lease struct {
	ID           string            `json:"id"`
	Token        string            `json:"token"`
	DeadlineMS   int64             `json:"deadline_ms"`
	Attempt      int               `json:"attempt"`
	AttemptsLeft int               `json:"attempts_left"`
	Key          string            `json:"key"`
	Headers      map[string]string `json:"headers"`
	Payload      []byte            `json:"payload_base64"`
}

// Decode reads the payload as JSON.
func (l *Lease) Decode(into any) error {
	if !utf8.Valid(l.Payload) {
		return fmt.Errorf("duly: payload of %s: it is no UTF-8", l.ID)
	}
	if err := json.Unmarshal(l.Payload, into); err != nil {
		return fmt.Errorf("duly: payload of %s: %w", l.ID, err)
	}
	return nil
}

type eventBody struct {
	Payload        json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64  *[]byte           `json:"payload_base64,omitempty"`
	ID             string            `json:"id,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	DelayMS        *int64            `json:"delay_ms,omitempty"`
	DueMS          *int64            `json:"due_ms,omitempty"`
	Key            string            `json:"key,omitempty"`
	Unique         string            `json:"unique,omitempty"`
	Replace        bool              `json:"replace,omitempty"`
	Attempts       int               `json:"attempts,omitempty"`
	ExpiresMS      *int64            `json:"expires_ms,omitempty"`
	KeepPayload    *bool             `json:"keep_payload,omitempty"`
	Version        uint32            `json:"version,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
}

// millis returns a span in milliseconds, rounded up, so that nothing is early.
func millis(span time.Duration) *int64 {
	ms := int64(span / time.Millisecond)
	if span%time.Millisecond > 0 {
		ms++
	}
	return &ms
}

// newKey returns a name that nothing else has.
func newKey() (string, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("duly: no random bytes for a name: %w", err)
	}
	return hex.EncodeToString(random), nil
}

// keyed returns an event that stays the same one when it is pushed again.
func (e Event) keyed() (Event, error) {
	if e.ID != "" || e.IdempotencyKey != "" {
		return e, nil
	}
	var err error
	e.IdempotencyKey, err = newKey()
	return e, err
}

// body returns the JSON of an event.
func (e Event) body() (json.RawMessage, error) {
	body := &eventBody{
		ID: e.ID, IdempotencyKey: e.IdempotencyKey, Key: e.Key, Unique: e.Unique, Replace: e.Replace,
		Attempts: e.Attempts, KeepPayload: e.KeepPayload, Version: e.Version, Headers: e.Headers,
	}
	switch {
	case e.Delay != 0 && !e.At.IsZero():
		return nil, errors.New("duly: there are Delay and At; give one of them")
	case e.ID != "" && e.IdempotencyKey != "":
		return nil, errors.New("duly: there are ID and IdempotencyKey; give one of them")
	case e.Delay < 0:
		return nil, fmt.Errorf("duly: Delay is %v; it must be 0 or more", e.Delay)
	case e.Expires < 0:
		return nil, fmt.Errorf("duly: Expires is %v; it must be 0 or more, and 0 is never", e.Expires)
	case e.Attempts < 0 || e.Attempts > 65535:
		return nil, fmt.Errorf("duly: Attempts is %d; it must be 0 to 65535", e.Attempts)
	}
	if e.Delay > 0 {
		body.DelayMS = millis(e.Delay)
	}
	if !e.At.IsZero() {
		due := e.At.Add(time.Millisecond - 1).UnixMilli()
		body.DueMS = &due
	}
	if e.Expires > 0 {
		body.ExpiresMS = millis(e.Expires)
	}
	if bytes, isBytes := e.Payload.([]byte); isBytes {
		if bytes == nil {
			bytes = []byte{}
		}
		body.PayloadBase64 = &bytes
		return json.Marshal(body)
	}
	payload, err := json.Marshal(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("duly: the payload is no JSON: %w", err)
	}
	body.Payload = payload
	return json.Marshal(body)
}
