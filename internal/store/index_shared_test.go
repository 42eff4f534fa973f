package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock/audit"
	"interlock/internal/pgtest"
)

// sharedPart is the part of a log with blocks of some rows.
func sharedPart(t testing.TB, dsn, log string, blockRows int) *SharedPart {
	t.Helper()
	p, err := OpenSharedPart(dsn, log, log)
	if err != nil {
		t.Fatal(err)
	}
	p.blockRows = blockRows
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func readShared(t testing.TB, dsn string) *SharedIndex {
	t.Helper()
	x, err := ReadShared(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func catchUpShared(t testing.TB, p *SharedPart, dir string) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = p.CatchUp(t.Context(), dir, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// lines are what a search yields, as the command line prints it.
func lines(t testing.TB, search func(func(audit.View) bool) error) []string {
	t.Helper()
	all := []string{}
	err := search(func(v audit.View) bool {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSharedIndexFindsWhatTheLogsHave compares searches for all nodes with searches that read the logs, whole requests with all
// that they say. One node writes its part at once, the other one in parts by one process after the other.
func TestSharedIndexFindsWhatTheLogsHave(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	logs := []*generated{generate(t, t.TempDir(), 150), generate(t, t.TempDir(), 80)}
	catchUpShared(t, sharedPart(t, dsn, "n1", 140), logs[0].config.Dir)
	for last := uint64(50); last < 250; last += 60 {
		p := sharedPart(t, dsn, "n2", 32)
		if _, err := p.CatchUp(t.Context(), logs[1].config.Dir, last); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	x := readShared(t, dsn)
	fromLogs := func(f audit.Filter) []string {
		searches := []audit.Searcher{}
		for i, node := range []string{"n1", "n2"} {
			searches = append(searches, func(yield func(audit.View) bool) error {
				return audit.Search(t.Context(), logs[i].config.Dir, f, func(v audit.View) bool {
					v.Node = node
					return yield(v)
				})
			})
		}
		return lines(t, func(y func(audit.View) bool) error { return audit.Merge(searches, f.OldestFirst, f.Limit, y) })
	}
	for _, f := range filters(t, logs[0]) {
		for _, f.OldestFirst = range []bool{false, true} {
			want := fromLogs(f)
			got := lines(t, func(y func(audit.View) bool) error { return x.Search(t.Context(), f, y) })
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v: %d found, want %d\n%.2000v\nwant\n%.2000v", f, len(got), len(want), got, want)
			}
			f.Limit = 7
		}
	}
	parts, err := x.Parts(t.Context())
	if err != nil || len(parts) != 2 || parts[0].Node != "n1" || parts[1].Entries == 0 || time.Since(parts[0].Written) > time.Hour {
		t.Errorf("%+v, %v", parts, err)
	}
	compareStats(t, x, logs)
}

// compareStats holds the statistics of all nodes against the sums of those of each.
func compareStats(t *testing.T, x *SharedIndex, logs []*generated) {
	for _, f := range []audit.Filter{{}, {Source: "source1"}, {Kind: "denied"}} {
		want := map[string]int64{}
		for _, g := range logs {
			own := openTestIndex(t, t.TempDir())
			catchUp(t, own, g.config.Dir)
			counts, err := own.Stats(t.Context(), f, []string{"identity", "status", "day"})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range counts {
				want[strings.Join(c.By, " ")] += c.Requests
			}
		}
		counts, err := x.Stats(t.Context(), f, []string{"identity", "status", "day"})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, c := range counts {
			got[strings.Join(c.By, " ")] = c.Requests
		}
		if len(want) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %v, want %v", f, got, want)
		}
	}
}

// TestSharedPartFollows requests that outlive their block, end under another process or never, sessions, and what was pruned.
func TestSharedPartFollows(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	dir := filepath.Join(t.TempDir(), "audit")
	open := func() *audit.Log {
		l, err := audit.Open(audit.Config{Dir: dir, SegmentBytes: 4096})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	l, p := open(), sharedPart(t, dsn, "n1", 4)
	hold := func(want map[string]audit.Status) {
		t.Helper()
		catchUpShared(t, p, dir)
		x := readShared(t, dsn)
		defer x.Close()
		for id, status := range want {
			for _, f := range []audit.Filter{{ID: id}, {Identity: "ana", Status: status}, {Identity: "ana", OldestFirst: true}} {
				found := map[string]audit.Status{}
				if err := x.Search(t.Context(), f, func(v audit.View) bool { found[v.ID] = v.Status; return true }); err != nil {
					t.Fatal(err)
				}
				if found[id] != status {
					t.Errorf("%+v: %q, want %s", f, found[id], status)
				}
			}
		}
	}
	event(t, l, audit.SessionOpened, "S1", nil)
	slow, lost := begin(t, l, "S1"), begin(t, l, "S1")
	for range 6 {
		end(t, l, begin(t, l, "S1"), audit.OK)
	}
	hold(map[string]audit.Status{slow: audit.Running, lost: audit.Running})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = sharedPart(t, dsn, "n1", 4)
	end(t, l, slow, audit.Failed)
	hold(map[string]audit.Status{slow: audit.Failed, lost: audit.Running})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open()
	hold(map[string]audit.Status{slow: audit.Failed, lost: audit.Unfinished})
	list, err := readShared(t, dsn).Sessions(t.Context(), audit.Filter{Identity: "ana", Client: "10.1.1.1"})
	if err != nil || len(list) != 1 || list[0].Node != "n1" || list[0].Session != "S1" || list[0].Statements != 8 {
		t.Errorf("%+v, %v", list, err)
	}
	prunedPart(t, l, p, dsn, dir)
}

// prunedPart removes the oldest segments of a log; the part forgets them.
func prunedPart(t *testing.T, l *audit.Log, p *SharedPart, dsn, dir string) {
	t.Helper()
	for range 60 {
		end(t, l, begin(t, l, ""), audit.OK)
	}
	catchUpShared(t, p, dir)
	segs, err := audit.Segments(dir)
	if err != nil || len(segs) < 4 {
		t.Fatal(len(segs), err)
	}
	if err := audit.Remove(dir, segs[:2]); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CatchUp(t.Context(), dir, 1); err != nil { // there is nothing new
		t.Fatal(err)
	}
	x := readShared(t, dsn)
	for _, oldest := range []bool{false, true} {
		f := audit.Filter{Identity: "ana", OldestFirst: oldest, Events: true}
		want := ids(t, func(y func(audit.View) bool) error { return audit.Search(t.Context(), dir, f, y) })
		got := ids(t, func(y func(audit.View) bool) error { return x.Search(t.Context(), f, y) })
		if len(want) < 20 || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	var chunks, texts int
	err = x.db.QueryRow("select (select count(*) from chunk where first < $1), (select count(*) from loose_text where seq <= $2)", segs[1].Last-20, segs[1].Last).Scan(&chunks, &texts)
	if err != nil || chunks > 0 || texts > 0 {
		t.Errorf("%d chunks and %d texts of what was pruned are left, %v", chunks, texts, err)
	}
}

// TestSharedPartIsRefused to two writers, to another log with the same name, and when the index has another version.
func TestSharedPartIsRefused(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	log, other := generate(t, t.TempDir(), 30).config.Dir, generate(t, t.TempDir(), 40).config.Dir
	if _, err := ReadShared(t.Context(), dsn); !errors.Is(err, ErrNoShared) {
		t.Errorf("an empty database: %v", err)
	}
	one, two := sharedPart(t, dsn, "n1", 8), sharedPart(t, dsn, "n1", 8)
	if at, err := one.Position(t.Context()); at != 0 || err != nil {
		t.Errorf("the position in an empty database: %d, %v", at, err)
	}
	catchUpShared(t, one, log)
	if _, err := two.CatchUp(t.Context(), log, 0); !errors.Is(err, ErrSharedTaken) || SharedReason(err) == "" {
		t.Errorf("a second writer: %v", err)
	}
	catchUpShared(t, sharedPart(t, dsn, "n2", 8), other) // another node is not in the way
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	catchUpShared(t, two, log)
	if at, err := two.Position(t.Context()); at < 50 || err != nil {
		t.Errorf("the position is %d, %v", at, err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	three := sharedPart(t, dsn, "n1", 8)
	if _, err := three.CatchUp(t.Context(), other, 0); !errors.Is(err, ErrSharedOther) {
		t.Errorf("another log: %v", err)
	}
	if err := three.Reset(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	catchUpShared(t, three, other)
	found := map[string]int{}
	err := readShared(t, dsn).Search(t.Context(), audit.Filter{Door: "pgwire"}, func(v audit.View) bool { found[v.Node]++; return true })
	if err != nil || found["n1"] != 36 || found["n2"] != 36 {
		t.Errorf("%v, %v", found, err)
	}
	server.Exec(t, dsn, "update interlock_audit.version set number = 99")
	for _, err := range []error{second(ReadShared(t.Context(), dsn)), second(sharedPart(t, dsn, "n3", 8).CatchUp(t.Context(), log, 0))} {
		if !errors.Is(err, ErrSharedVersion) {
			t.Errorf("another version: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestSharedDatabaseIsLost while a node writes, and comes back with or without what it had. Nothing waits for it and nothing is
// missing afterwards.
func TestSharedDatabaseIsLost(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.Index(dsn, "?")]
	l, _, dir := logOf(t, 4)
	p := sharedPart(t, dsn, "n1", 4)
	more := func() {
		t.Helper()
		for range 5 {
			end(t, l, begin(t, l, "S1"), audit.OK)
		}
	}
	follow := func(want int) {
		t.Helper()
		catchUpShared(t, p, dir)
		x := readShared(t, dsn)
		defer x.Close()
		n := ids(t, func(y func(audit.View) bool) error { return x.Search(t.Context(), audit.Filter{Identity: "ana"}, y) })
		if len(n) != want {
			t.Errorf("%d requests, want %d", len(n), want)
		}
	}
	more()
	follow(5)
	server.Exec(t, server.DSN("postgres"), "alter database "+name+" allow_connections false")
	server.Exec(t, server.DSN("postgres"), "select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = '"+name+"'")
	more()
	before, _ := p.Taken()
	for range 2 { // the connection is lost, then there is none
		if _, err := p.CatchUp(t.Context(), dir, 0); err == nil || SharedReason(err) != "" {
			t.Errorf("a lost database: %v", err)
		}
	}
	if at, _ := p.Taken(); at != before {
		t.Errorf("%d entries are said to be there, want %d", at, before)
	}
	server.Exec(t, server.DSN("postgres"), "alter database "+name+" allow_connections true")
	follow(10)
	server.Exec(t, dsn, "drop schema interlock_audit cascade")
	more()
	if _, err := p.CatchUp(t.Context(), dir, 0); err == nil {
		t.Error("a schema that is gone was written to")
	}
	follow(15)
}

// TestSharedServerMustProveItself: whoever answers for the name of a server on another machine would get the requests of all.
func TestSharedServerMustProveItself(t *testing.T) {
	for dsn, may := range map[string]bool{
		"postgres://u:secret-word@127.0.0.1/db":                               true,
		"postgres://u:secret-word@localhost/db?sslmode=disable":               true,
		"host=/run/postgresql dbname=db":                                      true,
		"postgres://u:secret-word@db.example/db?sslmode=verify-full":          true,
		"postgres://u:secret-word@db.example/db?sslmode=verify-ca":            true,
		"postgres://u:secret-word@db.example/db":                              false,
		"postgres://u:secret-word@db.example/db?sslmode=require":              false,
		"postgres://u:secret-word@db.example/db?sslmode=disable":              false,
		"postgres://u:secret-word@127.0.0.1,db.example/db?sslmode=prefer":     false,
		"postgres://u:secret-word@127.0.0.1:nothing/db?sslmode=verify-full":   false,
		"secret-word is no connection string":                                 false,
		"postgres://u:secret-word@10.0.0.7/db?sslmode=prefer":                 false,
		"postgres://u:secret-word@[::1]/db?sslmode=disable":                   true,
		"host=db.example user=u password=secret-word sslmode=verify-full":     true,
		"host=db.example user=u password=secret-word sslmode=allow dbname=db": false,
	} {
		p, err := OpenSharedPart(dsn, "n1", "n1")
		if (err == nil) != may {
			t.Errorf("%s: %v", dsn, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret-word") {
			t.Errorf("the error tells the password: %v", err)
		}
		if err == nil {
			_ = p.Close()
		}
	}
}

// TestTextsThatPostgreSQLDoesNotKeep do not hold up what comes behind them: clients choose the names of their applications.
func TestTextsThatPostgreSQLDoesNotKeep(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	l, _, dir := logOf(t, 4)
	long := make([]byte, 50_000) // and does not get smaller by compression
	_, _ = rand.Read(long)
	for i, application := range []string{"nul \x00 inside", hex.EncodeToString(long), "broken \xff", "plain"} {
		err := l.Event(t.Context(), &audit.Record{ID: audit.NewID(), Time: time.Now(), Identity: application, Application: application,
			Session: "S" + strconv.Itoa(i), ClientAddr: application}, &audit.Event{Name: audit.SessionOpened})
		if err != nil {
			t.Fatal(err)
		}
	}
	p := sharedPart(t, dsn, "n1", 4)
	catchUpShared(t, p, dir)
	x := readShared(t, dsn)
	f := audit.Filter{Event: audit.SessionOpened}
	got := ids(t, func(y func(audit.View) bool) error { return x.Search(t.Context(), f, y) })
	want := ids(t, func(y func(audit.View) bool) error { return audit.Search(t.Context(), dir, f, y) })
	if len(want) != 4 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
