package store

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"interlock/audit"
)

// generated is a log of invented requests.
type generated struct {
	dir    string // of the data
	config audit.Config
	from   time.Time
}

// generate writes n requests: 200 identities, 20 sources, 2,000 statements over 400 tables, a refusal in twelve, a session for 200.
func generate(t testing.TB, dir string, n int) *generated {
	t.Helper()
	g := &generated{dir: dir, from: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	g.config = audit.Config{Dir: filepath.Join(dir, "audit"), Node: "n1", Sync: audit.SyncRelaxed, Compress: true,
		RelaxedWindow: time.Minute, SegmentBytes: int64(max(64<<10, min(64<<20, n*16)))}
	l, err := audit.Open(g.config)
	if err != nil {
		t.Fatal(err)
	}
	judgements := make([][2]*audit.Judgement, 2000)
	for i := range judgements {
		for k, verdict := range []string{"allow", "refuse"} {
			table := fmt.Sprintf("s%d.table_%d", i%7, i%400)
			judgements[i][k] = &audit.Judgement{Ruleset: 3, RulesetDigest: "5f2c90e1d4", Catalog: "c0ffee11",
				Statement:   fmt.Sprintf("select id, name, amount_%d from %s where id = $1 and region = $2 order by id limit $3", i, table),
				Fingerprint: fmt.Sprintf("%016x", i*7919), Kinds: []string{"select"}, Verdict: verdict,
				Reads:   []string{table + ".id", table + ".name", fmt.Sprintf("%s.amount_%d", table, i), table + ".region"},
				Reasons: json.RawMessage(`[{"effect":"allow","role":"analyst","line":12}]`)}
			if i%5 == 0 {
				judgements[i][k].Labels = []string{"pii", "label of " + strconv.Itoa(i%10)}
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	step := 90 * 24 * time.Hour / time.Duration(n)
	for i := range n {
		g.append(t, l, judgements[zipf(rng, len(judgements))], i, g.from.Add(time.Duration(i)*step), rng)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return g
}

// zipf favours small numbers.
func zipf(rng *rand.Rand, n int) int {
	f := rng.Float64()
	return int(f * f * f * float64(n))
}

func (g *generated) append(t testing.TB, l *audit.Log, j [2]*audit.Judgement, i int, at time.Time, rng *rand.Rand) {
	user := zipf(rng, 200)
	door := "pgwire"
	if i%10 == 7 {
		door = "mcp"
	}
	rec := &audit.Record{Time: at, ID: idAt(t, at), Identity: "user" + strconv.Itoa(user), KeyID: "01K0KEY", Door: door,
		ClientAddr: fmt.Sprintf("10.1.%d.%d:5%d", i%3, user, i%10000), Application: "psql", Session: "S" + strconv.Itoa(i/200),
		Source: "source" + strconv.Itoa((user+rng.IntN(2))%20), Judgement: j[0]}
	if i%200 == 0 {
		opened := *rec
		opened.ID, opened.Judgement = idAt(t, at), nil
		untilTaken(func() error { return l.Event(context.Background(), &opened, &audit.Event{Name: audit.SessionOpened}) })
	}
	out := &audit.Outcome{ID: rec.ID, Time: at.Add(time.Millisecond), Status: audit.OK, Rows: int64(i % 50), Bytes: 400, Duration: time.Millisecond}
	if i%12 != 5 {
		untilTaken(func() error { return l.Intent(context.Background(), rec) })
		untilTaken(func() error { return l.Outcome(context.Background(), out) })
		return
	}
	rec.Judgement = j[1]
	out.Status, out.SQLState, out.Refusal = audit.Refused, "42501", &audit.Refusal{Kind: "denied", Message: "permission denied"}
	untilTaken(func() error { return l.Request(context.Background(), rec, out) })
}

// idAt is a decision id of a time.
func idAt(t testing.TB, at time.Time) string {
	t.Helper()
	id, err := ulid.New(ulid.Timestamp(at), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func catchUp(t testing.TB, x *Index, dir string) {
	t.Helper()
	for {
		more, err := x.CatchUp(context.Background(), dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

func openTestIndex(t testing.TB, dir string) *Index {
	t.Helper()
	x, err := OpenIndex(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func ids(t testing.TB, search func(func(audit.View) bool) error) []string {
	t.Helper()
	all := []string{}
	if err := search(func(v audit.View) bool { all = append(all, v.ID+" "+string(v.Status)); return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestIndexFindsWhatTheLogHas compares the index with a search that reads the whole log, when it was made at once, and when
// it was made in parts by one process after the other.
func TestIndexFindsWhatTheLogHas(t *testing.T) {
	g := generate(t, t.TempDir(), 300)
	atOnce := openTestIndex(t, t.TempDir())
	atOnce.blockRows = 32
	catchUp(t, atOnce, g.config.Dir)
	end, err := atOnce.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for last := uint64(90); last < end.Seq+170; last += 170 {
		x := openTestIndex(t, dir)
		x.blockRows = 32
		if _, err := x.CatchUp(t.Context(), g.config.Dir, last); err != nil {
			t.Fatal(err)
		}
		x.Close()
	}
	compareWithLog(t, g, map[string]*Index{"at once": atOnce, "in parts": openTestIndex(t, dir)})
}

// compareWithLog holds every search of indexes against one of the whole log.
func compareWithLog(t *testing.T, g *generated, indexes map[string]*Index) {
	ctx := t.Context()
	for _, f := range filters(t, g) {
		for _, limit := range []int{0, 7} {
			for _, f.OldestFirst = range []bool{false, true} {
				f.Limit = limit
				want := ids(t, func(y func(audit.View) bool) error { return audit.Search(ctx, g.config.Dir, f, y) })
				for name, x := range indexes {
					got := ids(t, func(y func(audit.View) bool) error { return x.Search(ctx, g.config.Dir, f, y) })
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s, %+v: %d found, want %d", name, f, len(got), len(want))
					}
				}
			}
		}
	}
}

// filters are one for each thing that can be searched by, and some of several.
func filters(t testing.TB, g *generated) []audit.Filter {
	first := ids(t, func(y func(audit.View) bool) error {
		return audit.Search(context.Background(), g.config.Dir, audit.Filter{Limit: 1}, y)
	})
	return []audit.Filter{
		{}, {Identity: "user3"}, {Identity: "nobody"}, {Source: "source1", Status: audit.Refused}, {Table: "s1.table_1"}, {Table: "table_8"},
		{Column: "region", Identity: "user1"}, {Column: "s0.table_7.amount_7"}, {Column: "amount_14"}, {Label: "pii"}, {Label: "label of 5", Identity: "user1"}, {Label: "none"}, {Session: "S7"}, {SQLState: "42501"}, {Verdict: "refuse", Source: "source0"},
		{Text: "AMOUNT_12 "}, {Fingerprint: fmt.Sprintf("%016x", 7919*4)}, {Door: "mcp", Identity: "user2"}, {Door: "admin"}, {Client: "10.1.1.7"}, {Client: "10.1.1.0:57"}, {Kind: "denied", Identity: "user0"}, {Kind: "select", Source: "source4"},
		{Since: g.from.Add(30 * 24 * time.Hour), Until: g.from.Add(31 * 24 * time.Hour)}, {Identity: "user2", Since: g.from.Add(80 * 24 * time.Hour)},
		{Event: "log.opened"}, {Events: true, Identity: "user5"}, {ID: first[0][:26]}, {Application: "psql", Identity: "user9"},
	}
}

// TestIndexFollows takes a log over in parts, with requests under way, a death in between and a second writer's turn.
func TestIndexFollows(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	cfg := audit.Config{Dir: filepath.Join(dir, "audit")}
	l, err := audit.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadIndex(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no index: %v", err)
	}
	x := openTestIndex(t, dir)
	rec := func(id string) *audit.Record {
		return &audit.Record{ID: id, Time: time.Now(), Identity: "ana", Session: "S1", Judgement: &audit.Judgement{Statement: "select 1", Verdict: "allow"}}
	}
	status := func(id string, want audit.Status) {
		t.Helper()
		catchUp(t, x, cfg.Dir)
		n := 0
		if err := x.Search(ctx, cfg.Dir, audit.Filter{Identity: "ana", Status: want}, func(v audit.View) bool {
			if v.ID == id {
				n++
			}
			return true
		}); err != nil || n != 1 && want != audit.Unfinished {
			t.Errorf("%s as %s: %d times, %v", id, want, n, err)
		}
	}
	one, two := audit.NewID(), audit.NewID()
	for _, err := range []error{l.Intent(ctx, rec(one)), l.Intent(ctx, rec(two))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	status(one, audit.Running)
	if err := l.Outcome(ctx, &audit.Outcome{ID: one, Status: audit.OK, Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	x.Close()
	x = openTestIndex(t, dir) // it remembers what was running
	status(one, audit.OK)
	status(two, audit.Running)
	l.Close()
	if l, err = audit.Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	catchUp(t, x, cfg.Dir)
	counts, err := x.Stats(ctx, audit.Filter{Identity: "ana"}, []string{"status"})
	if err != nil || len(counts) != 2 || counts[0].Requests != 1 || counts[1].Requests != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestIndexIsMadeAnew from a file that is damaged or of another version.
func TestIndexIsMadeAnew(t *testing.T) {
	g := generate(t, t.TempDir(), 50)
	path := filepath.Join(g.dir, IndexName)
	for _, spoil := range []func(x *Index){
		func(x *Index) { _, _ = x.db.Exec("pragma user_version = 99"); x.Close() },
		func(x *Index) { x.Close(); _ = os.WriteFile(path, []byte("this is no database at all"), 0o600) },
	} {
		x := openTestIndex(t, g.dir)
		catchUp(t, x, g.config.Dir)
		spoil(x)
		x = openTestIndex(t, g.dir)
		catchUp(t, x, g.config.Dir)
		n := ids(t, func(y func(audit.View) bool) error { return x.Search(t.Context(), g.config.Dir, audit.Filter{}, y) })
		if len(n) != 50 {
			t.Errorf("%d requests, want 50", len(n))
		}
		x.Close()
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
