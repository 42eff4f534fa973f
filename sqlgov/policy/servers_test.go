package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestUpstreamServers(t *testing.T) {
	for _, c := range []struct {
		host string
		port int
		want string
	}{
		{"db", 0, "[db:5432]"},
		{"db", 6000, "[db:6000]"},
		{"DB.example:5433", 6000, "[db.example:5433]"},
		{"a, b:5433,c", 6000, "[a:6000 b:5433 c:6000]"},
		{"::1", 0, "[::1:5432]"},
		{"[::1]:5433,[::2]", 0, "[::1:5433 ::2:5432]"},
		{"/run/a,/run/b", 0, "[/run/a:5432 /run/b:5432]"},
		{"a,", 0, "a host between two commas is missing"},
		{"a,a:5432", 0, "server a:5432 is named twice"},
		{"a:0", 0, `"0" is not a port between 1 and 65535`},
		{"a:65536", 0, `"65536" is not a port between 1 and 65535`},
		{"[::1", 0, `"[::1" is not a host and a port`},
		{"[::1]5", 0, `"[::1]5" is not a host and a port`},
		{strings.TrimSuffix(strings.Repeat("h%d,", 17), ","), 0, "17 servers are too many; 16 are possible"},
	} {
		if n := strings.Count(c.host, "%d"); n > 0 {
			numbers := make([]any, n)
			for i := range numbers {
				numbers[i] = i
			}
			c.host = fmt.Sprintf(c.host, numbers...)
		}
		servers, err := (&UpstreamSpec{Host: c.host, Port: c.port}).Servers()
		got := fmt.Sprint(servers)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, not %s", c.host, got, c.want)
		}
	}
}

// Results are kept by the servers that have the data, in whatever order a source lists them.
func TestDataOfServers(t *testing.T) {
	data := func(host string) string { return (&UpstreamSpec{Host: host, Port: 5432, Database: "d"}).Data() }
	if data("a,b:1") != data("B:1,A") || data("a") == data("a,b") || data("a") != "a:5432/d" {
		t.Errorf("%s, %s, %s", data("a,b:1"), data("B:1,A"), data("a"))
	}
}

// A standby is behind its primary, so a result of one must not be kept as that of a write's generation.
func TestNoCacheOfStandby(t *testing.T) {
	for _, c := range []struct {
		host, target string
		problems     int
	}{
		{"a", "", 0}, {"a", "any", 0}, {"a,b", "", 1}, {"a,b", "any", 1}, {"a,b", "primary", 0}, {"a,b", "read-write", 0},
		{"a", "standby", 1}, {"a,b", "prefer-standby", 1}, {"a", "read-only", 1}, {"a", "master", 2},
	} {
		doc := &Document{Sources: []SourceSpec{{ID: "s", Kind: "postgres", Cache: CacheSpec{TTL: 1}, Upstream: UpstreamSpec{Host: c.host, Target: c.target}}}}
		if found := Check(doc); len(found) != c.problems {
			t.Errorf("%+v: %v", c, found)
		}
	}
}
