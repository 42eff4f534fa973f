package sqlgov

import "time"

// KeyRecord is an API key as the control store keeps it. Neither the key nor anything that it could be computed from
// is in it.
type KeyRecord struct {
	ID       string // ULID
	Identity string
	Name     string // what it is for, free text
	Hint     string // last characters of the key, to tell keys apart in a list
	// MAC is HMAC-SHA-256 of the key under the server's secret. It is unique, and finds the key of a bearer.
	MAC []byte
	// StoredKey and ServerKey are its SCRAM-SHA-256 verifier (RFC 5802).
	StoredKey []byte
	ServerKey []byte

	Created time.Time
	Expires time.Time // zero: never
	Revoked time.Time // zero: not revoked
}

// KeyFilter selects keys. Fields that are set must all match; the zero value selects every key.
type KeyFilter struct {
	ID       string
	Identity string
	MAC      []byte
}
