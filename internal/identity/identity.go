// Package identity verifies credentials and yields an identity.
//
// A credential is an API key: 256 random bits behind the prefix "ilk_", shown once. The control store has its
// HMAC-SHA-256 under the server's secret, by which a bearer's key is found, and a SCRAM-SHA-256 verifier for wire
// clients; with neither can anyone log in. Whether the identity may do anything is the ruleset's business.
package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"interlock/sqlgov"

	"github.com/oklog/ulid/v2"
)

// Keystore keeps API keys.
type Keystore interface {
	// DataVersion returns a number that differs from the one before if any key may have changed in between.
	DataVersion(ctx context.Context) (int64, error)
	FindKeys(ctx context.Context, f sqlgov.KeyFilter) ([]sqlgov.KeyRecord, error)
	InsertKey(ctx context.Context, k sqlgov.KeyRecord) error
	// RevokeKey returns the key as it is afterwards, or nil if there is none with that id.
	RevokeKey(ctx context.Context, id string, at time.Time) (*sqlgov.KeyRecord, error)
}

const (
	keyPrefix = "ilk_"
	keyBytes  = 32
	hintSize  = 4
)

// keyLength is the length of a key as text.
var keyLength = len(keyPrefix) + base64.RawURLEncoding.EncodedLen(keyBytes)

// Keys verifies and manages API keys. It implements sqlgov.Keys and both doors' Authenticator, and is safe for
// concurrent use. What it has read from the store it uses until the store changes, so that a key which any process
// revokes is refused from the next call on.
type Keys struct {
	store  Keystore
	secret []byte
	now    func() time.Time

	mu      sync.Mutex
	version int64
	byID    map[string]*sqlgov.KeyRecord
	byMAC   map[string]string // to the key's id
}

// New returns Keys over a store, with the secret that LoadSecret returned.
func New(store Keystore, secret []byte) *Keys {
	return &Keys{store: store, secret: secret, now: time.Now}
}

// KeyInfo describes an API key without giving it away.
type KeyInfo struct {
	ID       string     `json:"id"`
	Identity string     `json:"identity"`
	Name     string     `json:"name,omitempty"`
	Hint     string     `json:"hint"` // the last characters of the key
	Status   string     `json:"status"`
	Created  time.Time  `json:"created_at"`
	Expires  *time.Time `json:"expires_at,omitempty"`
	Revoked  *time.Time `json:"revoked_at,omitempty"`
}

// The states of a key.
const (
	StatusActive  = "active"
	StatusExpired = "expired"
	StatusRevoked = "revoked"
)

// CreateOptions are what may be said about a new key.
type CreateOptions struct {
	Name    string
	Expires time.Time // zero: never
}

// Create makes a key for an identity. It is the only time that the key itself is to be had.
func (k *Keys) Create(ctx context.Context, identity string, opt CreateOptions) (key string, info KeyInfo, err error) {
	if identity == "" || strings.ContainsRune(identity, 0) || len(identity) > 200 || len(opt.Name) > 200 {
		return "", info, errors.New("an identity has 1 to 200 bytes, and a key's name at most 200")
	}
	now := k.now().UTC()
	if !opt.Expires.IsZero() && !opt.Expires.After(now) {
		return "", info, errors.New("the key would have expired already")
	}
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // never fails
	key = keyPrefix + base64.RawURLEncoding.EncodeToString(raw)
	record := sqlgov.KeyRecord{ID: ulid.Make().String(), Identity: identity, Name: opt.Name, Hint: key[len(key)-hintSize:],
		MAC: k.mac(key), Created: now, Expires: opt.Expires.UTC()}
	if record.StoredKey, record.ServerKey, err = verifier(k.secret, identity, key); err != nil {
		return "", info, err
	}
	if err := k.store.InsertKey(ctx, record); err != nil {
		return "", info, err
	}
	return key, describe(&record, now), nil
}

// List returns an identity's keys, or with "" all keys, oldest first.
func (k *Keys) List(ctx context.Context, identity string) ([]KeyInfo, error) {
	records, err := k.store.FindKeys(ctx, sqlgov.KeyFilter{Identity: identity})
	if err != nil {
		return nil, err
	}
	infos := make([]KeyInfo, len(records))
	for i := range records {
		infos[i] = describe(&records[i], k.now())
	}
	return infos, nil
}

// Revoke makes a key invalid for good, from the next statement of any open session on.
func (k *Keys) Revoke(ctx context.Context, id string) (KeyInfo, error) {
	record, err := k.store.RevokeKey(ctx, id, k.now().UTC())
	if err != nil {
		return KeyInfo{}, err
	}
	if record == nil {
		return KeyInfo{}, fmt.Errorf("there is no key with id %q", id)
	}
	return describe(record, k.now()), nil
}

// Bearer verifies a key that a client showed, and returns whose it is. Errors are *sqlgov.Refusal.
func (k *Keys) Bearer(ctx context.Context, token string) (identity, keyID string, err error) {
	if len(token) != keyLength || !strings.HasPrefix(token, keyPrefix) {
		return "", "", invalid("the API key is not valid")
	}
	mac := k.mac(token)
	record, err := k.find(ctx, sqlgov.KeyFilter{MAC: mac})
	if err != nil {
		return "", "", err
	}
	if record == nil || subtle.ConstantTimeCompare(record.MAC, mac) != 1 {
		return "", "", invalid("the API key is not valid")
	}
	if err := k.usable(record); err != nil {
		return "", "", err
	}
	return record.Identity, record.ID, nil
}

// Active implements sqlgov.Keys. Errors are *sqlgov.Refusal.
func (k *Keys) Active(ctx context.Context, keyID string) error {
	if keyID == "" {
		return invalid("no API key was shown")
	}
	record, err := k.find(ctx, sqlgov.KeyFilter{ID: keyID})
	if err != nil {
		return err
	}
	if record == nil {
		return invalid("the API key is not valid")
	}
	return k.usable(record)
}

// Scram returns what is needed to verify that a user holds one of an identity's keys. An unknown name takes the same
// steps as a known one. Errors are *sqlgov.Refusal.
func (k *Keys) Scram(ctx context.Context, user string) (sqlgov.ScramSet, error) {
	set := sqlgov.ScramSet{Salt: salt(k.secret, user), Iterations: scramIterations}
	if user == "" {
		return set, nil // and not everybody's keys
	}
	records, err := k.store.FindKeys(ctx, sqlgov.KeyFilter{Identity: user})
	if err != nil {
		return sqlgov.ScramSet{}, unavailable(err)
	}
	for i := range records {
		if r := &records[i]; k.usable(r) == nil {
			set.Credentials = append(set.Credentials, sqlgov.Credential{KeyID: r.ID, StoredKey: r.StoredKey, ServerKey: r.ServerKey})
		}
	}
	return set, nil
}

func (k *Keys) mac(key string) []byte { return hmacSHA256(k.secret, "bearer\x00", key) }

// find returns the key that an ID or a MAC stands for, or nil. Keys that exist are remembered until the store changes.
func (k *Keys) find(ctx context.Context, f sqlgov.KeyFilter) (*sqlgov.KeyRecord, error) {
	version, err := k.store.DataVersion(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	if record := k.recall(version, f); record != nil {
		return record, nil
	}
	found, err := k.store.FindKeys(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	if len(found) != 1 {
		return nil, nil
	}
	k.remember(version, found[0])
	return &found[0], nil
}

func (k *Keys) recall(version int64, f sqlgov.KeyFilter) *sqlgov.KeyRecord {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version != k.version {
		return nil
	}
	id := f.ID
	if f.MAC != nil {
		id = k.byMAC[string(f.MAC)]
	}
	return k.byID[id]
}

// remember keeps a record that was read after the store had that version: it may be newer, but it cannot be older.
func (k *Keys) remember(version int64, record sqlgov.KeyRecord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version != k.version || k.byID == nil {
		k.version, k.byID, k.byMAC = version, map[string]*sqlgov.KeyRecord{}, map[string]string{}
	}
	k.byID[record.ID] = &record
	k.byMAC[string(record.MAC)] = record.ID
}

// usable tells if a key is neither revoked nor expired.
func (k *Keys) usable(record *sqlgov.KeyRecord) error {
	switch status(record, k.now()) {
	case StatusActive:
		return nil
	case StatusExpired:
		return invalid("the API key has expired")
	}
	return invalid("the API key has been revoked")
}

func status(record *sqlgov.KeyRecord, now time.Time) string {
	switch {
	case !record.Revoked.IsZero():
		return StatusRevoked
	case !record.Expires.IsZero() && !now.Before(record.Expires):
		return StatusExpired
	}
	return StatusActive
}

func describe(record *sqlgov.KeyRecord, now time.Time) KeyInfo {
	info := KeyInfo{ID: record.ID, Identity: record.Identity, Name: record.Name, Hint: record.Hint,
		Status: status(record, now), Created: record.Created}
	if !record.Expires.IsZero() {
		info.Expires = &record.Expires
	}
	if !record.Revoked.IsZero() {
		info.Revoked = &record.Revoked
	}
	return info
}

func invalid(message string) error {
	return &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000", Message: message,
		Hint: "Ask your administrator for a key: interlock key create IDENTITY."}
}

func unavailable(err error) error {
	return &sqlgov.Refusal{Kind: sqlgov.Internal, SQLState: "58000", Message: "API keys cannot be checked at the moment", Err: err}
}
