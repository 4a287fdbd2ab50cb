package duly

import (
	"fmt"
	"time"
)

// Settlement is how an attempt ends. A handler returns it as an error; nil is an ack, and any other
// error is a Retry.
type Settlement struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	DelayMS *int64 `json:"delay_ms,omitempty"`
	Reply   any    `json:"reply,omitempty"`
}

// reasonMax is the longest reason in characters; a longer one is cut.
const reasonMax = 4096

func (s *Settlement) Error() string {
	return fmt.Sprintf("duly: %s %s", s.Outcome, s.Reason)
}

// withReply returns it with another reply, or without one.
func (s *Settlement) withReply(reply any) *Settlement {
	changed := *s
	changed.Reply = reply
	return &changed
}

func cut(reason string) string {
	if runes := []rune(reason); len(runes) > reasonMax {
		return string(runes[:reasonMax])
	}
	return reason
}

// Ack says that the event is done; a reply that is not nil goes to a caller that waits for one.
func Ack(reply any) *Settlement {
	return &Settlement{Outcome: "ack", Reply: reply}
}

// Retry says that the attempt failed: the event is due again by the policy of its queue.
func Retry(reason string) *Settlement {
	return &Settlement{Outcome: "retry", Reason: cut(reason)}
}

// fromNow returns a delay in milliseconds; what is computed from a time may be a moment late.
func fromNow(delay time.Duration) *int64 {
	if delay < 0 {
		delay = 0
	}
	return millis(delay)
}

// RetryAfter is Retry with a delay.
func RetryAfter(delay time.Duration, reason string) *Settlement {
	return &Settlement{Outcome: "retry", Reason: cut(reason), DelayMS: fromNow(delay)}
}

// Snooze makes the event due again after a delay; the attempt does not count.
func Snooze(delay time.Duration) *Settlement {
	return &Settlement{Outcome: "snooze", DelayMS: fromNow(delay)}
}

// Release makes the event ready again at once, at its place; the attempt does not count.
func Release() *Settlement {
	return &Settlement{Outcome: "release"}
}

// Bury makes the event a dead letter: no further attempt would help.
func Bury(reason string) *Settlement {
	return &Settlement{Outcome: "bury", Reason: cut(reason)}
}

// Discard drops the event as no longer useful.
func Discard(reason string) *Settlement {
	return &Settlement{Outcome: "discard", Reason: cut(reason)}
}
