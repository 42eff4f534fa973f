package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/internal/pgtest"
	"interlock/sqlgov"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// memory is a Keystore that counts how often it is read and can be broken.
type memory struct {
	mu      sync.Mutex
	version int64
	reads   int
	keys    []sqlgov.KeyRecord
	broken  error
}

func (m *memory) DataVersion(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version, m.broken
}

func (m *memory) FindKeys(_ context.Context, f sqlgov.KeyFilter) ([]sqlgov.KeyRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	var found []sqlgov.KeyRecord
	for _, k := range m.keys {
		if (f.ID == "" || f.ID == k.ID) && (f.Identity == "" || f.Identity == k.Identity) && (f.MAC == nil || bytes.Equal(f.MAC, k.MAC)) {
			found = append(found, k)
		}
	}
	return found, m.broken
}

func (m *memory) InsertKey(_ context.Context, k sqlgov.KeyRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	m.keys = append(m.keys, k)
	return m.broken
}

func (m *memory) RevokeKey(_ context.Context, id string, at time.Time) (*sqlgov.KeyRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.keys {
		if k := &m.keys[i]; k.ID == id {
			m.version++
			if k.Revoked.IsZero() {
				k.Revoked = at
			}
			return k, m.broken
		}
	}
	return nil, m.broken
}

var secret = bytes.Repeat([]byte{7}, 32)

func newKeys() (*Keys, *memory) {
	m := &memory{version: 1}
	return New(m, secret), m
}

func create(t *testing.T, k *Keys, identity string, opt CreateOptions) (string, KeyInfo) {
	t.Helper()
	key, info, err := k.Create(t.Context(), identity, opt)
	if err != nil {
		t.Fatal(err)
	}
	return key, info
}

// refused checks that err is the refusal of a credential and returns its text.
func refused(t *testing.T, err error) string {
	t.Helper()
	var r *sqlgov.Refusal
	if !errors.As(err, &r) || r.Kind != sqlgov.Unauthenticated || r.SQLState != "28000" {
		t.Errorf("not refused: %v", err)
		return ""
	}
	return r.Message
}

func TestBearer(t *testing.T) {
	k, m := newKeys()
	key, info := create(t, k, "ana", CreateOptions{Name: "laptop"})
	if len(key) != keyLength || !strings.HasPrefix(key, "ilk_") || !strings.HasSuffix(key, info.Hint) || len(info.Hint) != 4 {
		t.Errorf("key %q, %+v", key, info)
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(key, "ilk_"))
	if err != nil || len(raw) != 32 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	for range 2 {
		if identity, id, err := k.Bearer(t.Context(), key); identity != "ana" || id != info.ID || err != nil {
			t.Errorf("%s, %s, %v", identity, id, err)
		}
	}
	other, _ := create(t, k, "bob", CreateOptions{})
	for _, token := range []string{"", "ilk_", key[:len(key)-1], key + "x", strings.ToUpper(key), "ilk_" + strings.Repeat("A", 43), other[:20] + key[20:], " " + key, key + "\x00"} {
		_, _, err := k.Bearer(t.Context(), token)
		if got := refused(t, err); got != "the API key is not valid" {
			t.Errorf("%q: %s", token, got)
		}
	}
	if _, _, err := New(m, bytes.Repeat([]byte{8}, 32)).Bearer(t.Context(), key); err == nil {
		t.Error("another server's secret does as well")
	}
	if text := fmt.Sprintf("%s %s %v", m.keys[0].ID, m.keys[0].Hint, m.keys); strings.Contains(text, key) {
		t.Error("the key itself is kept")
	}
}

func TestRevokedAndExpired(t *testing.T) {
	k, _ := newKeys()
	now := time.Unix(1700000000, 0)
	k.now = func() time.Time { return now }
	key, info := create(t, k, "ana", CreateOptions{Expires: now.Add(time.Hour)})
	lasting, lastingInfo := create(t, k, "ana", CreateOptions{})
	works := func(key string, info KeyInfo) error {
		identity, id, err := k.Bearer(t.Context(), key)
		if err == nil && (identity != "ana" || id != info.ID) {
			t.Errorf("%s, %s", identity, id)
		}
		if active := k.Active(t.Context(), info.ID); (active == nil) != (err == nil) {
			t.Errorf("Bearer: %v, Active: %v", err, active)
		}
		return err
	}
	if err := errors.Join(works(key, info), works(lasting, lastingInfo)); err != nil {
		t.Error(err)
	}
	now = now.Add(time.Hour - 1)
	if err := works(key, info); err != nil {
		t.Error(err)
	}
	now = now.Add(1)
	if got := refused(t, works(key, info)); got != "the API key has expired" {
		t.Error(got)
	}
	if _, err := k.Revoke(t.Context(), lastingInfo.ID); err != nil {
		t.Fatal(err)
	}
	if got := refused(t, works(lasting, lastingInfo)); got != "the API key has been revoked" {
		t.Error(got)
	}
	if set, err := k.Scram(t.Context(), "ana"); err != nil || len(set.Credentials) != 0 {
		t.Errorf("%+v, %v", set, err)
	}
	infos, err := k.List(t.Context(), "ana")
	if err != nil || len(infos) != 2 || infos[0].Status != StatusExpired || infos[1].Status != StatusRevoked || !infos[1].Revoked.Equal(now) {
		t.Errorf("%+v, %v", infos, err)
	}
	if _, err := k.Revoke(t.Context(), "nothing"); err == nil {
		t.Error("revoked a key that does not exist")
	}
	if refused(t, k.Active(t.Context(), "")) == "" || refused(t, k.Active(t.Context(), "nothing")) == "" {
		t.Error("a key that does not exist is active")
	}
}

// TestActiveCached checks that the store is read once for any number of statements, until it changes.
func TestActiveCached(t *testing.T) {
	k, m := newKeys()
	_, info := create(t, k, "ana", CreateOptions{})
	for range 10 {
		if err := k.Active(t.Context(), info.ID); err != nil {
			t.Fatal(err)
		}
	}
	if m.reads != 1 {
		t.Errorf("%d reads", m.reads)
	}
	// Another process revokes the key: only the version tells.
	m.keys[0].Revoked = time.Unix(1, 0)
	m.version++
	refused(t, k.Active(t.Context(), info.ID))
}

func TestStoreFails(t *testing.T) {
	k, m := newKeys()
	key, info := create(t, k, "ana", CreateOptions{})
	if err := k.Active(t.Context(), info.ID); err != nil {
		t.Fatal(err)
	}
	m.broken = errors.New("disk on fire")
	_, _, bearer := k.Bearer(t.Context(), key)
	_, scram := k.Scram(t.Context(), "ana")
	for _, err := range []error{bearer, scram, k.Active(t.Context(), info.ID)} {
		var r *sqlgov.Refusal
		if !errors.As(err, &r) || r.Kind != sqlgov.Internal || !errors.Is(err, m.broken) || strings.Contains(r.Message, "fire") {
			t.Errorf("%v", err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	k, _ := newKeys()
	for _, opt := range []CreateOptions{{Expires: time.Now().Add(-time.Second)}, {Name: strings.Repeat("x", 201)}} {
		if _, _, err := k.Create(t.Context(), "ana", opt); err == nil {
			t.Errorf("%+v", opt)
		}
	}
	for _, identity := range []string{"", "a\x00b", strings.Repeat("x", 201)} {
		if _, _, err := k.Create(t.Context(), identity, CreateOptions{}); err == nil {
			t.Errorf("%q", identity)
		}
	}
}

func TestScramUnknownUser(t *testing.T) {
	k, _ := newKeys()
	create(t, k, "ana", CreateOptions{})
	create(t, k, "ana", CreateOptions{})
	ana, err1 := k.Scram(t.Context(), "ana")
	eve, err2 := k.Scram(t.Context(), "eve")
	again, err3 := k.Scram(t.Context(), "eve")
	other, err4 := New(&memory{}, bytes.Repeat([]byte{8}, 32)).Scram(t.Context(), "eve")
	nobody, err5 := k.Scram(t.Context(), "")
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	if len(ana.Credentials) != 2 || len(eve.Credentials)+len(nobody.Credentials) != 0 {
		t.Errorf("%+v, %+v, %+v", ana, eve, nobody)
	}
	if len(ana.Salt) != 16 || len(eve.Salt) != len(ana.Salt) || bytes.Equal(ana.Salt, eve.Salt) || ana.Iterations != eve.Iterations {
		t.Error("a name that does not exist looks different")
	}
	if !bytes.Equal(eve.Salt, again.Salt) || bytes.Equal(eve.Salt, other.Salt) {
		t.Error("the salt of a name must be stable on one server, and not predictable")
	}
}

// TestScramAgainstPostgreSQL gives our verifier to PostgreSQL as a role's password and logs in with the key.
func TestScramAgainstPostgreSQL(t *testing.T) {
	k, _ := newKeys()
	key, info := create(t, k, "identity_ana", CreateOptions{})
	set, err := k.Scram(t.Context(), "identity_ana")
	if err != nil || len(set.Credentials) != 1 || set.Credentials[0].KeyID != info.ID {
		t.Fatalf("%+v, %v", set, err)
	}
	b64 := base64.StdEncoding.EncodeToString
	c := set.Credentials[0]
	srv := pgtest.Start(t)
	dsn := srv.Database(t, fmt.Sprintf("create role identity_ana login in role %s password 'SCRAM-SHA-256$%d:%s$%s:%s'",
		pgtest.ScramGroup, set.Iterations, b64(set.Salt), b64(c.StoredKey), b64(c.ServerKey)))
	for password, want := range map[string]bool{key: true, key[:len(key)-1] + "!": false} {
		conn, err := pgx.Connect(t.Context(), srv.As(dsn, "identity_ana", password))
		if (err == nil) != want {
			t.Errorf("%q: %v", password, err)
		}
		if conn != nil {
			_ = conn.Close(t.Context())
		}
	}
}

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var all sync.WaitGroup
	var secrets []string
	for range 8 {
		all.Go(func() {
			s, err := LoadSecret(dir)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			secrets = append(secrets, string(s))
			mu.Unlock()
		})
	}
	all.Wait()
	if len(slices.Compact(secrets)) != 1 || len(secrets[0]) != 32 {
		t.Errorf("%d secrets of %d bytes", len(slices.Compact(secrets)), len(secrets[0]))
	}
	path := filepath.Join(dir, SecretFile)
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Errorf("files %v", left)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if other, err := LoadSecret(t.TempDir()); err != nil || string(other) == secrets[0] {
		t.Errorf("the same secret everywhere: %v", err)
	}
	for _, spoil := range []func() error{
		func() error { return os.Chmod(path, 0o640) },
		func() error { return errors.Join(os.Chmod(path, 0o600), os.Truncate(path, 31)) },
		func() error { return os.Truncate(path, 33) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadSecret(dir); err == nil {
			info, _ := os.Stat(path)
			t.Errorf("accepted: %v of %d bytes", info.Mode(), info.Size())
		}
	}
	if _, err := LoadSecret(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("made in a directory that does not exist")
	}
}
