// Package ratelimit counts in the memory of one process: token buckets that say when to come back, and turns that bound
// how much runs and waits at the same time. It knows nothing of what is counted.
package ratelimit

import (
	"math"
	"sync"
	"time"
)

// Limit is a token bucket: Count tokens flow in evenly over each Window, and at most Burst are kept. All three must be
// positive.
type Limit struct {
	Count  int
	Window time.Duration
	Burst  int
}

// Share is the part of a limit that percent is, with at least one token in its bucket.
func (l Limit) Share(percent int) Limit {
	if percent >= 100 || percent < 1 {
		return l
	}
	return Limit{Count: l.Count, Window: l.Window * 100 / time.Duration(percent), Burst: max(1, l.Burst*percent/100)}
}

// Every is the time in which one token flows in.
func (l Limit) Every() time.Duration { return max(1, l.Window/time.Duration(l.Count)) }

// span is the time in which n tokens flow in; a century stands for everything longer.
func (l Limit) span(n int) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	if every := l.Every(); time.Duration(n) < century/every {
		return every * time.Duration(n)
	}
	return century
}

// Demand asks for tokens of the bucket that has a key. Demands that share a key share its tokens.
type Demand struct {
	Key    string
	Limit  Limit
	Tokens int // at least 1
}

// Answer says if all demands of a call were met.
type Answer struct {
	OK bool
	// Denied is the index of the demand that was not met; of several, the one that takes longest.
	Denied int
	// Wait is how long until it can be met if nobody else takes tokens. Never means that its bucket is too small for
	// the tokens that were asked for.
	Wait time.Duration
}

// Never is a wait without end.
const Never = time.Duration(math.MaxInt64)

// Buckets are token buckets by key. They are made full at first use, and forgotten when they are full again. The zero
// value is ready to use, and safe for concurrent use.
type Buckets struct {
	// Most bounds the buckets that are kept; 0 means 100,000. Keys for which there is no room share one bucket, so that
	// making up keys gains nothing.
	Most int

	mu    sync.Mutex
	full  map[string]time.Time // when the bucket of a key will be full
	swept time.Time
}

const defaultMost = 100_000

// overflow is the key of all keys for which there is no room.
const overflow = "\x00overflow"

// Take takes the tokens of all demands, or of none.
func (b *Buckets) Take(now time.Time, demands []Demand) Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	answer := Answer{OK: true}
	wanted := make(map[string]time.Time, len(demands))
	for i := range demands {
		d := &demands[i]
		key := b.place(now, d.Key)
		at, again := wanted[key]
		if !again {
			at = b.full[key]
		}
		after, wait := d.take(now, at)
		wanted[key] = after
		if wait > 0 && (answer.OK || wait > answer.Wait) {
			answer = Answer{Denied: i, Wait: wait}
		}
	}
	if answer.OK {
		for key, at := range wanted {
			b.full[key] = at
		}
	}
	return answer
}

// take returns when the bucket will be full after the tokens were taken, and how long to wait until they can be.
func (d *Demand) take(now, full time.Time) (after time.Time, wait time.Duration) {
	all := d.Limit.span(d.Limit.Burst)
	if d.Tokens > d.Limit.Burst {
		return full, Never
	}
	if full.Before(now) {
		full = now
	}
	if most := now.Add(all); full.After(most) { // the limit was another one, or the clock was put back
		full = most
	}
	after = full.Add(d.Limit.span(d.Tokens))
	return after, after.Sub(now) - all
}

// place returns the key under which a bucket is or may be kept.
func (b *Buckets) place(now time.Time, key string) string {
	if b.full == nil {
		b.full = make(map[string]time.Time)
	}
	most := b.Most
	if most <= 0 {
		most = defaultMost
	}
	if _, known := b.full[key]; known || len(b.full) < most {
		return key
	}
	if now.Sub(b.swept) >= time.Second || now.Before(b.swept) { // looking at all is not for every call
		b.swept = now
		for k, at := range b.full {
			if !at.After(now) {
				delete(b.full, k)
			}
		}
	}
	if len(b.full) < most {
		return key
	}
	return overflow
}

// Len is the number of buckets that are kept.
func (b *Buckets) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.full)
}
