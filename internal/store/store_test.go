package store

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/pgtest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// TestMain lets a test run a part of itself in a second process.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_TEST_DIR"); dir != "" {
		if err := child(dir, os.Getenv("STORE_TEST_DO")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

func child(dir, do string) error {
	ctx := context.Background()
	s, err := Open(ctx, dir)
	if err != nil {
		return err
	}
	verb, arg, _ := strings.Cut(do, " ")
	switch verb {
	case "revoke":
		_, err = s.RevokeKey(ctx, arg, time.Now())
	case "insert":
		for i := range 50 {
			if err = s.InsertKey(ctx, key(arg+strconv.Itoa(i), "ana")); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	return s.Close()
}

func inOtherProcess(t *testing.T, dir, do string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_DIR="+dir, "STORE_TEST_DO="+do)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", do, err, out)
	}
}

func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func key(id, identity string) sqlgov.KeyRecord {
	return sqlgov.KeyRecord{ID: id, Identity: identity, Name: "laptop", Hint: "wxyz", MAC: []byte("mac of " + id), StoredKey: []byte{1, 0}, ServerKey: []byte{2, 0},
		Created: time.Unix(1700000000, 123456789).UTC(), Expires: time.Unix(1800000000, 0).UTC()}
}

func ruleset(t *testing.T, identity string) *policy.Ruleset {
	t.Helper()
	rs, err := policy.Compile(&policy.Document{File: "governance.yaml",
		Sources:    []policy.SourceSpec{{ID: "shop", Kind: "postgres", Upstream: policy.UpstreamSpec{Host: "localhost", Port: 5432, Database: "shop", User: "gov"}, ScanInterval: time.Minute}},
		Identities: []policy.Identity{{Name: identity, Kind: "human"}}})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestRulesets(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := openStore(t, dir)
	if rs, _, err := s.CurrentRuleset(ctx); rs != nil || err != nil {
		t.Fatalf("empty: %v, %v", rs, err)
	}
	numbers := map[int64]string{}
	for _, step := range []struct {
		identity string
		number   int64
	}{{"ana", 1}, {"ana", 1}, {"bob", 2}, {"ana", 3}} {
		rs := ruleset(t, step.identity)
		if err := s.SaveRuleset(ctx, rs, Applied{By: "dba", Texts: map[string]string{"governance.yaml": "identities: [" + step.identity + "]"}}); err != nil {
			t.Fatal(err)
		}
		if rs.Number != step.number {
			t.Errorf("%s got number %d, want %d", step.identity, rs.Number, step.number)
		}
		numbers[rs.Number] = rs.Digest
	}
	other := openStore(t, dir)
	rs, how, err := other.CurrentRuleset(ctx)
	if err != nil || rs.Number != 3 || rs.Digest != numbers[3] || how.By != "dba" || time.Since(how.At) > time.Minute ||
		how.Texts["governance.yaml"] != "identities: [ana]" || !rs.Knows("ana") || rs.Knows("bob") {
		t.Errorf("%+v, %+v, %v", rs, how, err)
	}
	if rs, _, err = other.Ruleset(ctx, 2); err != nil || rs.Digest != numbers[2] || !rs.Knows("bob") {
		t.Errorf("%+v, %v", rs, err)
	}
	if rs, _, err = other.Ruleset(ctx, 4); rs != nil || err != nil {
		t.Errorf("no such number: %+v, %v", rs, err)
	}
	if n, err := other.CurrentNumber(ctx); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if all, err := other.Rulesets(ctx, 2); err != nil || len(all) != 2 || all[0].Number != 3 || all[1].Digest != numbers[2] {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestRulesetsDoNotChange tries what only someone with the file in hand can do.
func TestRulesetsDoNotChange(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, t.TempDir())
	if err := s.SaveRuleset(ctx, ruleset(t, "ana"), Applied{}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"update rulesets set applied_by = 'x'", "delete from rulesets"} {
		if _, err := s.db.ExecContext(ctx, sql); err == nil {
			t.Errorf("%s: done", sql)
		}
	}
	if _, err := s.db.ExecContext(ctx, "drop trigger rulesets_keep_content; update rulesets set document = replace(document, 'ana', 'eve')"); err != nil {
		t.Fatal(err)
	}
	if rs, _, err := s.CurrentRuleset(ctx); err == nil {
		t.Errorf("a changed document is in force: %+v", rs)
	}
}

func TestKeys(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, t.TempDir())
	for _, k := range []sqlgov.KeyRecord{key("k1", "ana"), key("k2", "bob"), key("k3", "ana")} {
		if err := s.InsertKey(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.InsertKey(ctx, key("k1", "eve")); err == nil {
		t.Error("the same key twice")
	}
	never := key("k4", "never")
	never.Expires = time.Time{}
	if err := s.InsertKey(ctx, never); err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]sqlgov.KeyFilter{
		"k1 k2 k3 k4": {}, "k1 k3": {Identity: "ana"}, "k2": {ID: "k2"}, "k3": {MAC: []byte("mac of k3")}, "": {ID: "k2", Identity: "ana"},
	} {
		found, err := s.FindKeys(ctx, f)
		var ids []string
		for _, k := range found {
			ids = append(ids, k.ID)
		}
		if got := strings.Join(ids, " "); got != want || err != nil {
			t.Errorf("%+v: %q, %v", f, got, err)
		}
	}
	if found, _ := s.FindKeys(ctx, sqlgov.KeyFilter{MAC: []byte{}}); len(found) != 0 {
		t.Errorf("an empty MAC finds %v", found)
	}
	found, _ := s.FindKeys(ctx, sqlgov.KeyFilter{ID: "k1"})
	if got := fmt.Sprintf("%+v", found[0]); got != fmt.Sprintf("%+v", key("k1", "ana")) {
		t.Errorf("got back %s", got)
	}
	if found, _ := s.FindKeys(ctx, sqlgov.KeyFilter{ID: "k4"}); !found[0].Expires.IsZero() {
		t.Errorf("%+v", found)
	}
	at := time.Unix(1750000000, 0).UTC()
	for _, when := range []time.Time{at, at.Add(time.Hour)} {
		if k, err := s.RevokeKey(ctx, "k1", when); err != nil || !k.Revoked.Equal(at) {
			t.Errorf("%+v, %v", k, err)
		}
	}
	if k, err := s.RevokeKey(ctx, "nothing", at); k != nil || err != nil {
		t.Errorf("%+v, %v", k, err)
	}
	for _, sql := range []string{"update keys set revoked_at = null", "update keys set identity = 'eve' where id = 'k2'", "update keys set mac = x'00' where id = 'k2'"} {
		if _, err := s.db.ExecContext(ctx, sql); err == nil {
			t.Errorf("%s: done", sql)
		}
	}
}

func snapshot(t *testing.T, source, schema string, at time.Time) *catalog.Snapshot {
	t.Helper()
	snap := &catalog.Snapshot{Source: source, ScannedAt: at, Schemas: []catalog.Schema{{OID: 1, Name: schema}}}
	var err error
	if snap.Version, err = snap.ContentVersion(); err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestCatalogs(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, t.TempDir())
	if snap, err := s.LatestCatalog(ctx, "shop"); snap != nil || err != nil {
		t.Fatalf("empty: %v, %v", snap, err)
	}
	begin := time.Unix(1700000000, 0).UTC()
	var first, last *catalog.Snapshot
	for i := range 25 {
		last = snapshot(t, "shop", fmt.Sprint("schema", i), begin.Add(time.Duration(i)))
		if i == 0 {
			first = last
		}
		if err := s.SaveCatalog(ctx, last); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SaveCatalog(ctx, snapshot(t, "other", "x", begin)); err != nil {
		t.Fatal(err)
	}
	again := *last
	again.ScannedAt = begin.Add(time.Hour)
	if err := s.SaveCatalog(ctx, &again); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.LatestCatalog(ctx, "shop"); err != nil || snap.Version != last.Version || !snap.ScannedAt.Equal(again.ScannedAt) {
		t.Errorf("latest: %+v, %v", snap, err)
	}
	if snap, err := s.NewerCatalog(ctx, "shop", again.ScannedAt.Add(-1)); err != nil || snap == nil {
		t.Errorf("newer: %+v, %v", snap, err)
	}
	if snap, err := s.NewerCatalog(ctx, "shop", time.Time{}); err != nil || snap == nil {
		t.Errorf("newer than nothing: %+v, %v", snap, err)
	}
	if snap, err := s.NewerCatalog(ctx, "shop", again.ScannedAt); err != nil || snap != nil {
		t.Errorf("none newer: %+v, %v", snap, err)
	}
	if snap, err := s.Catalog(ctx, first.Version); err != nil || snap != nil {
		t.Errorf("the oldest is still there: %+v, %v", snap, err)
	}
	if snap, err := s.Catalog(ctx, last.Version); err != nil || snap == nil {
		t.Errorf("by version: %+v, %v", snap, err)
	}
	var n int
	if err := s.db.QueryRow("select count(*) from catalogs where source = 'shop'").Scan(&n); err != nil || n != keptCatalogs {
		t.Errorf("%d are kept, %v", n, err)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if err := s.InsertKey(t.Context(), key("k", "ana")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, FileName), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("a file that others can read was opened")
	}
}

func TestNewerSchemaRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if _, err := s.db.Exec("pragma user_version = 1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("%v", err)
	}
}

func TestOddPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e&_txlock=x")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	openStore(t, dir)
	if info, err := os.Stat(filepath.Join(dir, FileName)); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestSettings(t *testing.T) {
	s := openStore(t, t.TempDir())
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000", "foreign_keys": "1"} {
		var got string
		if err := s.db.QueryRow("pragma " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v", pragma, got, err)
		}
	}
}

// TestDataVersion checks that a change is seen at the very next call, whoever made it, and that nothing else is.
func TestDataVersion(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := openStore(t, dir)
	version := func() int64 {
		t.Helper()
		v, err := s.DataVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := version()
	expect := func(what string, change bool) {
		t.Helper()
		now := version()
		if (now != before) != change {
			t.Errorf("%s: %d after %d", what, now, before)
		}
		before = now
	}
	expect("nothing", false)
	if err := s.InsertKey(ctx, key("k1", "ana")); err != nil {
		t.Fatal(err)
	}
	expect("insert by the same store", true)
	if _, err := s.FindKeys(ctx, sqlgov.KeyFilter{}); err != nil {
		t.Fatal(err)
	}
	expect("reading", false)
	inOtherProcess(t, dir, "open")
	expect("opening in another process", false)
	inOtherProcess(t, dir, "revoke k1")
	expect("revoking in another process", true)
	inOtherProcess(t, dir, "revoke k1")
	expect("revoking again", false)
}

// TestManyWriters has two processes and several goroutines make the store and write to it at once.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() { inOtherProcess(t, dir, fmt.Sprintf("insert p%d-", i)) })
	}
	for i := range 4 {
		all.Go(func() {
			s, err := Open(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for j := range 20 {
				if err := s.InsertKey(t.Context(), key(fmt.Sprintf("g%d-%d", i, j), "bob")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s := openStore(t, dir)
	if found, err := s.FindKeys(t.Context(), sqlgov.KeyFilter{}); err != nil || len(found) != 180 {
		t.Errorf("%d keys, %v", len(found), err)
	}
}

func TestBrokenFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("opened")
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "nowhere")); err == nil {
		t.Error("opened in a directory that does not exist")
	}
}

func TestClosed(t *testing.T) {
	s := openStore(t, t.TempDir())
	_ = s.Close()
	if _, err := s.DataVersion(t.Context()); err == nil {
		t.Error("DataVersion works after Close")
	}
	if _, err := s.FindKeys(t.Context(), sqlgov.KeyFilter{}); err == nil || err == sql.ErrNoRows {
		t.Errorf("FindKeys: %v", err)
	}
}

func BenchmarkDataVersion(b *testing.B) {
	s := openStore(b, b.TempDir())
	for b.Loop() {
		if _, err := s.DataVersion(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFindKey(b *testing.B) {
	s := openStore(b, b.TempDir())
	if err := s.InsertKey(b.Context(), key("k", "ana")); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if found, err := s.FindKeys(b.Context(), sqlgov.KeyFilter{ID: "k"}); err != nil || len(found) != 1 {
			b.Fatal(err)
		}
	}
}
