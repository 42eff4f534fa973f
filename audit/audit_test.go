package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var ctx = context.Background()

// testConfig returns a config in a fresh directory, with small segments.
func testConfig(t testing.TB) Config {
	return Config{Dir: filepath.Join(t.TempDir(), "audit"), Node: "n1", SegmentBytes: 4096}
}

func mustOpen(t testing.TB, cfg Config) *Log {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testJudgement() *Judgement {
	return &Judgement{Ruleset: 3, RulesetDigest: "sha256:abc", Catalog: "c-7", Statement: "select id, name from crm.customers where id = $1",
		Fingerprint: "f00d", Kinds: []string{"select"}, Reads: []string{"crm.customers.id", "crm.customers.name"},
		Functions: []string{"pg_catalog.int4eq(integer, integer)"}, Verdict: "allow", Reasons: json.RawMessage(`[{"granted": true}]`)}
}

func testRecord(identity string) *Record {
	return &Record{Time: time.Now(), ID: NewID(), Identity: identity, KeyID: "k1", Door: "pgwire", ClientAddr: "127.0.0.1:5000",
		Application: "psql", Session: "s1", Source: "shop", Judgement: testJudgement()}
}

// run records n requests that end well and returns their ids.
func run(t testing.TB, l *Log, n int) []string {
	t.Helper()
	ids := make([]string, 0, n)
	for range n {
		rec := testRecord("ana")
		must(t, l.Intent(ctx, rec))
		must(t, l.Outcome(ctx, &Outcome{ID: rec.ID, Time: time.Now(), Status: OK, Rows: 2, Bytes: 10, Duration: time.Millisecond}))
		ids = append(ids, rec.ID)
	}
	return ids
}

func verify(t testing.TB, cfg Config) Report {
	t.Helper()
	r, err := Verify(ctx, cfg, nil)
	must(t, err)
	return r
}

func verifyOK(t testing.TB, cfg Config) Report {
	t.Helper()
	r := verify(t, cfg)
	if !r.OK() {
		t.Fatalf("the log does not verify: %v", r.Problems)
	}
	return r
}

// lines returns every line of the log, without line feeds.
func lines(t testing.TB, cfg Config) []string {
	t.Helper()
	segs, err := segments(cfg.Dir)
	must(t, err)
	var all []string
	for _, s := range segs {
		f, err := openSegment(cfg.Dir, s.name)
		must(t, err)
		data, err := io.ReadAll(f.reader(0))
		must(t, errors.Join(err, f.Close()))
		all = append(all, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
	}
	return all
}

// TestChainAsDocumented follows the rule of the package documentation, as an outsider would, with none of our code.
func TestChainAsDocumented(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	run(t, l, 30)
	mustClose(t, l)
	prev := strings.Repeat("0", 64)
	for i, text := range lines(t, cfg) {
		sealed := text[:strings.LastIndex(text, `,"hash":"`)]
		sum := sha256.Sum256([]byte(sealed))
		var e struct {
			Seq        int
			Prev, Hash string
		}
		must(t, json.Unmarshal([]byte(text), &e))
		if e.Seq != i+1 || e.Prev != prev || e.Hash != hex.EncodeToString(sum[:]) {
			t.Fatalf("line %d breaks the chain: %s", i+1, text)
		}
		prev = e.Hash
	}
	if n := len(lines(t, cfg)); n != 61 {
		t.Errorf("%d entries, want 61", n)
	}
	if segs, _ := segments(cfg.Dir); len(segs) < 5 {
		t.Errorf("%d segments, want several", len(segs))
	}
}

func TestFilesArePrivate(t *testing.T) {
	cfg := testConfig(t)
	must(t, os.MkdirAll(cfg.Dir, 0o755))
	l := mustOpen(t, cfg)
	run(t, l, 1)
	for path, want := range map[string]os.FileMode{
		cfg.Dir: 0o700 | os.ModeDir, cfg.Dir + "-head": 0o700 | os.ModeDir,
		filepath.Join(cfg.Dir, segmentName(1)): 0o600, filepath.Join(cfg.Dir+"-head", headName): 0o600,
	} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
}

// TestRoundTrip writes every field and reads it back, with texts that JSON must escape.
func TestRoundTrip(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	nasty := "quote \" slash \\ line\nfeed nul\x00 del\x7f ü \u2028 end"
	rec := &Record{Time: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), ID: NewID()}
	rec.Judgement = &Judgement{Reasons: json.RawMessage("[1,{\"a\":\"b\"}]"), Write: true, Ruleset: 9}
	fillStrings(reflect.ValueOf(rec).Elem(), nasty)
	fillStrings(reflect.ValueOf(rec.Judgement).Elem(), nasty)
	out := &Outcome{Status: Refused, Rows: 1, Bytes: 2, Duration: 3 * time.Second, Refusal: &Refusal{}, Masks: []Masked{{Mask: "email", Columns: []string{"crm.customers.email"}, Values: 7}, {Mask: "null"}}}
	fillStrings(reflect.ValueOf(out.Refusal).Elem(), nasty)
	out.SQLState = "42501"
	must(t, l.Request(ctx, rec, out))
	mustClose(t, l)

	got, err := Find(ctx, cfg.Dir, rec.ID)
	must(t, err)
	rec.Judgement.encoded.Store(nil)
	if !reflect.DeepEqual(got.Record.Judgement, rec.Judgement) {
		t.Errorf("judgement\n got %+v\nwant %+v", got.Record.Judgement, rec.Judgement)
	}
	got.Record.Judgement, rec.Judgement = nil, nil
	if !reflect.DeepEqual(got.Record, *rec) {
		t.Errorf("record\n got %+v\nwant %+v", got.Record, *rec)
	}
	out.ID, out.Time = rec.ID, rec.Time.Add(out.Duration)
	if !reflect.DeepEqual(got.Outcome, out) {
		t.Errorf("outcome\n got %+v\nwant %+v", got.Outcome, out)
	}
	if got.Status != Refused || got.Type != TypeRequest {
		t.Errorf("status %q, type %q", got.Status, got.Type)
	}
}

// fillStrings sets every empty string and string list of a struct.
func fillStrings(v reflect.Value, text string) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.String && f.Len() == 0:
			f.SetString(text)
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{text, "b"}))
		}
	}
}

func TestBadInputIsRefused(t *testing.T) {
	l := mustOpen(t, testConfig(t))
	bad := map[string]*Record{
		"no id":      {},
		"bad id":     {ID: `x"y`},
		"reasons":    {ID: NewID(), Judgement: &Judgement{Reasons: json.RawMessage(`{"a"`)}},
		"over limit": {ID: NewID(), Judgement: &Judgement{Reads: []string{strings.Repeat("x", maxEntry)}}},
	}
	for name, rec := range bad {
		if err := l.Intent(ctx, rec); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
	run(t, l, 1)
}

func TestInvalidUTF8AndLongStatement(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	rec := testRecord("ana")
	rec.Application = "a\xffb"
	rec.Statement = strings.Repeat("ü", maxStatement)
	must(t, l.Intent(ctx, rec))
	v, err := Find(ctx, cfg.Dir, rec.ID)
	must(t, err)
	if v.Application != "a\ufffdb" {
		t.Errorf("application %q", v.Application)
	}
	if v.Statement != strings.Repeat("ü", maxStatement/2) || v.StatementBytes != 2*maxStatement {
		t.Errorf("statement of %d bytes, said to be %d", len(v.Statement), v.StatementBytes)
	}
}

func TestConcurrentAppends(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	const workers, each = 16, 200
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				rec := testRecord(fmt.Sprint("user", w))
				rec.Judgement.Write = i%50 == 0
				if err := l.Intent(ctx, rec); err != nil {
					t.Error(err)
				}
				// What was returned must be in the file and in the head already.
				if i%40 == 0 {
					if v, err := Find(ctx, cfg.Dir, rec.ID); err != nil || v.Status != Running {
						t.Errorf("%v %v", v.Status, err)
					}
				}
				if err := l.Outcome(ctx, &Outcome{ID: rec.ID, Status: OK}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, l)
	r := verifyOK(t, cfg)
	if r.Entries != workers*each*2+1 || r.UnfinishedCount != 0 {
		t.Errorf("%d entries, %d unfinished", r.Entries, r.UnfinishedCount)
	}
}

func TestWritesWaitForFsync(t *testing.T) {
	cfg := testConfig(t)
	cfg.SyncInterval = time.Hour
	l := mustOpen(t, cfg)
	run(t, l, 1)
	if s := l.Stats(); s.Synced >= s.Seq {
		t.Errorf("reads were synced at once: %+v", s)
	}
	rec := testRecord("ana")
	rec.Judgement.Write = true
	must(t, l.Intent(ctx, rec))
	if s := l.Stats(); s.Synced != s.Seq || s.Seq != 4 {
		t.Errorf("a write was released before its fsync: %+v", s)
	}
}

func TestSyncAlways(t *testing.T) {
	cfg := testConfig(t)
	cfg.Sync, cfg.SyncInterval = SyncAlways, time.Hour
	l := mustOpen(t, cfg)
	run(t, l, 3)
	if s := l.Stats(); s.Synced != 7 {
		t.Errorf("%+v, want everything synced", s)
	}
}

func TestGroupSyncWithinInterval(t *testing.T) {
	l := mustOpen(t, testConfig(t))
	run(t, l, 1)
	deadline := time.Now().Add(30 * time.Second)
	for l.Stats().Synced != 3 {
		if time.Now().After(deadline) {
			t.Fatalf("not synced: %+v", l.Stats())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCanceledIntent(t *testing.T) {
	cfg := testConfig(t)
	var stuck atomic.Bool
	hold := make(chan struct{})
	cfg.fsync = func(f *os.File) error {
		if stuck.Load() {
			<-hold
		}
		return f.Sync()
	}
	cfg.Timeout = 50 * time.Millisecond
	l := mustOpen(t, cfg)
	stuck.Store(true)
	rec := testRecord("ana")
	rec.Judgement.Write = true
	start := time.Now()
	if err := l.Intent(ctx, rec); !errors.Is(err, ErrUnavailable) {
		t.Errorf("stuck disk: %v, want ErrUnavailable", err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("waited %v", d)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	rec = testRecord("ana")
	rec.Judgement.Write = true
	if err := l.Intent(canceled, rec); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	stuck.Store(false)
	close(hold)
	run(t, l, 1)
	mustClose(t, l)
	verifyOK(t, cfg)
}

func TestClosedLog(t *testing.T) {
	l := mustOpen(t, testConfig(t))
	mustClose(t, l)
	mustClose(t, l)
	if err := l.Intent(ctx, testRecord("ana")); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if l.Stats().Err == nil {
		t.Error("a closed log must say that it is not ready")
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	if _, err := Open(cfg); !errors.Is(err, ErrLocked) {
		t.Fatalf("%v, want ErrLocked", err)
	}
	other := testConfig(t)
	other.HeadDir = cfg.Dir + "-head"
	if _, err := Open(other); !errors.Is(err, ErrLocked) {
		t.Fatalf("a head with two logs: %v, want ErrLocked", err)
	}
	mustClose(t, l)
	mustOpen(t, cfg)
}

func TestConfigErrors(t *testing.T) {
	for _, cfg := range []Config{{}, {Dir: "/x", HeadDir: "/x/"}, {Dir: "/x", Sync: "never"}} {
		if _, err := Open(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestEvents(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	rec := &Record{Time: time.Now(), ID: NewID(), Identity: "ana", Door: "mcp"}
	must(t, l.Event(ctx, rec, &Event{Name: "authentication.failed", Attributes: map[string]string{"b": "2", "a": "1"}}))
	v, err := Find(ctx, cfg.Dir, rec.ID)
	must(t, err)
	if v.Event == nil || v.Event.Name != "authentication.failed" || v.Event.Attributes["b"] != "2" || v.Identity != "ana" {
		t.Errorf("%+v", v)
	}
	if all := lines(t, cfg); !strings.Contains(all[1], `"attributes":{"a":"1","b":"2"}`) {
		t.Errorf("attributes are not sorted: %s", all[1])
	}
}

func TestNewID(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := ""
			for range 5000 {
				id := NewID()
				if id <= last || len(id) != 26 || !strings.HasPrefix(id, "01") {
					t.Errorf("%q after %q", id, last)
				}
				last = id
				mu.Lock()
				if seen[id] {
					t.Errorf("%q twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func FuzzParseLine(f *testing.F) {
	text, _ := appendLine(nil, 7, []byte(`"time":"2026-01-02T03:04:05Z","type":"intent","id":"01K"`), genesis)
	text = text[:len(text)-1]
	f.Add(text)
	f.Add(text[:len(text)-3])
	f.Add([]byte(`{"v":1,"seq":99999999999999999999,`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseLine(data)
		if err != nil {
			return
		}
		l.valid()
		l.when()
		l.decode()
		// An entry with a right hash must be one that appendLine makes again from its parts.
		if l.valid() {
			body := data[len(lineStart)+len(fmt.Sprint(l.seq))+1 : len(data)-endSize]
			if again, hash := appendLine(nil, l.seq, body, l.prev); hash != l.hash || !bytes.Equal(again, append(bytes.Clone(data), '\n')) {
				t.Errorf("%q is valid but not canonical", data)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			cfg := testConfig(b)
			cfg.SegmentBytes = 0
			l := mustOpen(b, cfg)
			judged := testJudgement()
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range workers {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						rec := &Record{Time: time.Now(), ID: NewID(), Identity: "ana", KeyID: "k", Door: "pgwire", ClientAddr: "127.0.0.1:1",
							Application: "psql", Session: "s", Source: "shop", Judgement: judged}
						if err := l.Intent(ctx, rec); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
