package identity

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"
)

// scramIterations is the smallest number that RFC 7677 allows, and PostgreSQL's own default. Iterations make guessing
// slow; our keys are 256 random bits, which nobody guesses at any speed, so more would only slow down clients.
const scramIterations = 4096

// hmacSHA256 is HMAC-SHA-256 of the parts put together.
func hmacSHA256(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// salt is an identity's SCRAM salt. All keys of an identity share it, because a server must send one before it knows
// which key the client holds; and a name that does not exist has one too, always the same, so that it cannot be told
// from one that does.
func salt(secret []byte, identity string) []byte {
	return hmacSHA256(secret, "scram\x00", identity)[:16]
}

// verifier returns StoredKey and ServerKey of a key (RFC 5802, section 3). Keys are ASCII, so SASLprep changes nothing.
func verifier(secret []byte, identity, key string) (stored, server []byte, err error) {
	salted, err := pbkdf2.Key(sha256.New, key, salt(secret, identity), scramIterations, sha256.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("deriving a verifier: %w", err)
	}
	storedKey := sha256.Sum256(hmacSHA256(salted, "Client Key"))
	return storedKey[:], hmacSHA256(salted, "Server Key"), nil
}
