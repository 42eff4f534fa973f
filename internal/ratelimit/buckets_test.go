package ratelimit

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func one(key string, l Limit) []Demand { return []Demand{{key, l, 1}} }

// A bucket hands out its burst at once, then one token each time that one has flowed in, and says exactly when.
func TestBucket(t *testing.T) {
	var b Buckets
	l := Limit{Count: 100, Window: time.Minute, Burst: 3}
	for i := range 3 {
		if a := b.Take(start, one("k", l)); !a.OK {
			t.Fatalf("take %d: %+v", i, a)
		}
	}
	if a := b.Take(start, one("k", l)); a.OK || a.Wait != 600*time.Millisecond {
		t.Fatalf("a fourth at once: %+v", a)
	}
	if a := b.Take(start.Add(600*time.Millisecond-1), one("k", l)); a.OK || a.Wait != 1 {
		t.Fatalf("a nanosecond early: %+v", a)
	}
	if a := b.Take(start.Add(600*time.Millisecond), one("k", l)); !a.OK {
		t.Fatalf("in time: %+v", a)
	}
	if a := b.Take(start.Add(time.Hour), []Demand{{"k", l, 3}}); !a.OK {
		t.Fatalf("the burst after an hour: %+v", a)
	}
	if a := b.Take(start.Add(time.Hour), one("k", l)); a.OK {
		t.Fatal("an idle bucket keeps no more than its burst")
	}
}

// In any time, whatever the pattern of requests, a bucket gives at most its burst and what flows in.
func TestBucketBound(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 599 * time.Millisecond, time.Second, 3 * time.Second} {
		var b Buckets
		l := Limit{Count: 100, Window: time.Minute, Burst: 10}
		passed, now := 0, start
		for ; now.Before(start.Add(5 * time.Minute)); now = now.Add(step) {
			if b.Take(now, one("k", l)).OK {
				passed++
			}
		}
		most := l.Burst + int(now.Sub(start)/l.Every())
		least := min(int(5*time.Minute/step), most-l.Burst)
		if passed > most || passed < least {
			t.Errorf("every %s: %d passed, want %d to %d", step, passed, least, most)
		}
	}
}

// All demands are met or none: what one bucket refuses costs the others nothing.
func TestAllOrNone(t *testing.T) {
	var b Buckets
	wide, narrow := Limit{10, time.Minute, 10}, Limit{1, time.Hour, 1}
	both := []Demand{{"wide", wide, 1}, {"narrow", narrow, 1}}
	if a := b.Take(start, both); !a.OK {
		t.Fatalf("%+v", a)
	}
	for range 20 {
		if a := b.Take(start, both); a.OK || a.Denied != 1 || a.Wait != time.Hour {
			t.Fatalf("%+v", a)
		}
	}
	if a := b.Take(start, []Demand{{"wide", wide, 9}}); !a.OK {
		t.Errorf("the refusals cost tokens: %+v", a)
	}
	if a := b.Take(start, []Demand{{"same", wide, 6}, {"same", wide, 6}}); a.OK {
		t.Error("demands with one key share its tokens")
	}
	if a := b.Take(start, []Demand{{"k", wide, 11}}); a.OK || a.Wait != Never {
		t.Errorf("more than the bucket holds: %+v", a)
	}
}

// A limit that is changed does not leave a key locked out by the old one, and none makes time run over.
func TestChangedAndExtremeLimits(t *testing.T) {
	var b Buckets
	b.Take(start, one("k", Limit{1, 24 * time.Hour, 1}))
	if a := b.Take(start, one("k", Limit{60, time.Minute, 60})); a.OK || a.Wait > time.Second {
		t.Errorf("after the change: %+v", a)
	}
	huge := Limit{1, 7 * 24 * time.Hour, 10_000_000}
	for range 3 {
		if a := b.Take(start, []Demand{{"huge", huge, 1}}); !a.OK {
			t.Errorf("%+v", a)
		}
	}
	if s := (Limit{100, time.Minute, 100}).Share(25); s.Burst != 25 || s.Every() != 2400*time.Millisecond {
		t.Errorf("a quarter: %+v", s)
	}
	if s := (Limit{1, time.Minute, 1}).Share(1); s.Burst != 1 || s.Every() != 100*time.Minute {
		t.Errorf("a hundredth of one: %+v", s)
	}
}

// Keys for which there is no room share one bucket; buckets that are full again make room.
func TestBoundedMemory(t *testing.T) {
	b := Buckets{Most: 10}
	l := Limit{1, time.Minute, 1}
	passed := 0
	for i := range 1000 {
		if b.Take(start, one(fmt.Sprint(i), l)).OK {
			passed++
		}
	}
	if passed != 11 || b.Len() > 11 {
		t.Errorf("%d passed, %d buckets are kept", passed, b.Len())
	}
	if a := b.Take(start.Add(time.Hour), one("new", l)); !a.OK || b.Len() > 2 {
		t.Errorf("an hour later: %+v, %d buckets", a, b.Len())
	}
}

func BenchmarkTake(b *testing.B) {
	var buckets Buckets
	demands := []Demand{{"a", Limit{1 << 30, time.Second, 1 << 30}, 1}, {"b", Limit{1 << 30, time.Second, 1 << 30}, 1}}
	for b.Loop() {
		buckets.Take(time.Now(), demands)
	}
}
