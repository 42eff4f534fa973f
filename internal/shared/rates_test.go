package shared

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlock/internal/ratelimit"
	"interlock/internal/redistest"
)

// node returns Rates as one node of a gateway has them.
func node(t *testing.T, url string) *Rates {
	t.Helper()
	r, err := New(Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func one(key string, l ratelimit.Limit) []ratelimit.Demand {
	return []ratelimit.Demand{{Key: key, Limit: l, Tokens: 1}}
}

// pass counts the requests that get through when so many come at the same time, spread over nodes.
func pass(n int, demands []ratelimit.Demand, nodes ...*Rates) int {
	var passed atomic.Int32
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := w; i < n; i += 16 {
				if nodes[i%len(nodes)].Take(context.Background(), demands).OK {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(passed.Load())
}

// The script decides as the buckets in process do: the same steps, the same waits.
func TestAsInProcess(t *testing.T) {
	r := node(t, redistest.Start(t).URL())
	var b ratelimit.Buckets
	slow, burst := ratelimit.Limit{Count: 1, Window: time.Hour, Burst: 1}, ratelimit.Limit{Count: 3, Window: time.Hour, Burst: 5}
	ctx := context.Background()
	for i, demands := range [][]ratelimit.Demand{
		one("slow", slow), one("slow", slow), one("burst", burst),
		{{Key: "burst", Limit: burst, Tokens: 3}, {Key: "slow", Limit: slow, Tokens: 1}}, // costs burst nothing
		{{Key: "burst", Limit: burst, Tokens: 2}, {Key: "burst", Limit: burst, Tokens: 2}},
		one("burst", burst),
		{{Key: "burst", Limit: burst, Tokens: 5}}, {{Key: "burst", Limit: burst, Tokens: 6}},
		{{Key: "new", Limit: burst, Tokens: 5}}, one("new", burst), one("new", slow),
	} {
		got, want := r.Take(ctx, demands), b.Take(time.Now(), demands)
		if got.OK != want.OK || got.Denied != want.Denied || (got.Wait-want.Wait).Abs() > time.Second {
			t.Errorf("step %d: %+v, in process %+v", i, got, want)
		}
	}
	if r.Lost() {
		t.Error("Redis counts as lost")
	}
}

// A limit of 100 an hour lets 100 through on three nodes together; tokens that flow in come once.
func TestNodesShareALimit(t *testing.T) {
	url := redistest.Start(t).URL()
	nodes := []*Rates{node(t, url), node(t, url), node(t, url)}
	if n := pass(1000, one("k", ratelimit.Limit{Count: 100, Window: time.Hour, Burst: 100}), nodes...); n != 100 {
		t.Errorf("%d requests got through", n)
	}
	quick := ratelimit.Limit{Count: 10, Window: 100 * time.Millisecond, Burst: 1}
	begun, passed := time.Now(), 0
	for time.Since(begun) < 500*time.Millisecond {
		passed += pass(16, one("quick", quick), nodes...)
	}
	if most := 1 + int(time.Since(begun)/quick.Every()); passed > most || passed < 2 { // what flows in while nobody asks is lost
		t.Errorf("%d requests got through, want 2 to %d", passed, most)
	}
}

// What does happen to the limit when Redis dies under load: each node falls back to its share, at no time to more, and
// to the shared count when Redis is back.
func TestRedisLostAndFound(t *testing.T) {
	server := redistest.Start(t)
	var changes []bool
	r, err := New(Config{URL: server.URL(), LostShare: 20, Changed: func(lost bool, _ error) { changes = append(changes, lost) }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	other := node(t, server.URL())
	hour := func(n int) ratelimit.Limit { return ratelimit.Limit{Count: n, Window: time.Hour, Burst: n} }
	if n := pass(40, one("k", hour(100)), r, other); n != 40 {
		t.Fatalf("%d of the first 40", n)
	}
	server.Kill()
	begun := time.Now()
	if n := pass(500, one("k", hour(100)), r); n != 20 || !r.Lost() {
		t.Errorf("without Redis %d got through, lost: %t", n, r.Lost())
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("500 requests without Redis took %s", took)
	}
	if a := r.Take(context.Background(), one("fresh", hour(1))); !a.OK {
		t.Errorf("one token must be in every bucket: %+v", a)
	}
	if a := r.Take(context.Background(), one("fresh", hour(1))); a.OK || a.Wait < 4*time.Hour {
		t.Errorf("a fifth of one an hour: %+v", a)
	}
	if a := r.Take(context.Background(), []ratelimit.Demand{{Key: "many", Limit: hour(100), Tokens: 21}}); a.OK {
		t.Error("a node's share is too small for this")
	}
	server.Restart()
	for deadline := time.Now().Add(time.Minute); r.Lost(); time.Sleep(20 * time.Millisecond) {
		r.Take(context.Background(), one("probe", hour(1_000_000)))
		if time.Now().After(deadline) {
			t.Fatal("Redis is not found again")
		}
	}
	if n := pass(1000, one("k", hour(100)), r, other, r); n != 100 {
		t.Errorf("%d got through after Redis was back, empty", n)
	}
	if len(changes) != 2 || !changes[0] || changes[1] {
		t.Errorf("told of %v", changes)
	}
}

// Redis that accepts connections and does not answer is lost as well, after the timeout and not later.
func TestRedisHangs(t *testing.T) {
	server := redistest.Start(t)
	r, err := New(Config{URL: server.URL(), Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	limit := ratelimit.Limit{Count: 8, Window: time.Hour, Burst: 8}
	if !r.Take(context.Background(), one("k", limit)).OK {
		t.Fatal("refused")
	}
	other := node(t, server.URL())
	if err := other.client.ClientPause(context.Background(), 1500*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	n := pass(100, one("k", limit), r)
	if took := time.Since(begun); n > 2 || took > time.Second {
		t.Errorf("%d got through in %s while Redis hung", n, took)
	}
}

// What is wrong with the configuration says nothing of the password in it.
func TestMalformedURL(t *testing.T) {
	for _, url := range []string{"", "redis://user:hunter2@host:port", "http://x"} {
		if _, err := New(Config{URL: url}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := New(Config{URL: "rediss://h:1", CA: []byte("none")}); err == nil {
		t.Error("no certificate")
	}
}

func BenchmarkTake(b *testing.B) {
	r, err := New(Config{URL: redistest.Start(b).URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	limit := ratelimit.Limit{Count: 1 << 30, Window: time.Second, Burst: 1 << 20}
	demands := []ratelimit.Demand{{Key: "a", Limit: limit, Tokens: 1}, {Key: "b", Limit: limit, Tokens: 1}}
	for b.Loop() {
		if !r.Take(context.Background(), demands).OK {
			b.Fatal("refused")
		}
	}
}
