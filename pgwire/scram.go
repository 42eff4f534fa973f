package pgwire

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"interlock/sqlgov"
)

const (
	mechanism     = "SCRAM-SHA-256"
	mechanismPlus = "SCRAM-SHA-256-PLUS"
	bindingType   = "tls-server-end-point" // RFC 5929, section 4
)

// scram is the server's side of one SCRAM-SHA-256 exchange (RFC 5802, RFC 7677). A user may hold several keys, all
// under one salt; the proof decides which one it was.
type scram struct {
	set sqlgov.ScramSet
	// binding is the hash of the server's certificate, nil without TLS.
	binding []byte
	// plus tells that the client chose the mechanism with channel binding.
	plus bool
	// nonce returns the server's part of the nonce; a test fixes it.
	nonce func() string

	gs2    string // header that the client sent, to be repeated under its proof
	bare   string // client-first-message-bare
	joined string // both nonces
	first  string // server-first-message
}

// mechanisms lists what the client may choose from.
func (s *scram) mechanisms() []string {
	if s.binding != nil {
		return []string{mechanismPlus, mechanism}
	}
	return []string{mechanism}
}

// choose takes the mechanism that the client named.
func (s *scram) choose(name string) *sqlgov.Refusal {
	s.plus = name == mechanismPlus && s.binding != nil
	if name != mechanism && !s.plus {
		return malformed("client selected an invalid SASL authentication mechanism")
	}
	return nil
}

// challenge answers the client-first-message.
func (s *scram) challenge(message string) (string, *sqlgov.Refusal) {
	flag, rest, ok := strings.Cut(message, ",")
	if !ok {
		return "", malformed("malformed SCRAM message")
	}
	if bad := s.checkFlag(flag); bad != nil {
		return "", bad
	}
	authzid, bare, ok := strings.Cut(rest, ",")
	if !ok {
		return "", malformed("malformed SCRAM message")
	}
	if authzid != "" {
		return "", unsupported("client uses authorization identity, but it is not supported")
	}
	nonce, bad := clientNonce(bare)
	if bad != nil {
		return "", bad
	}
	s.gs2, s.bare = flag+",,", bare
	s.joined = nonce + s.nonce()
	s.first = fmt.Sprintf("r=%s,s=%s,i=%d", s.joined, base64.StdEncoding.EncodeToString(s.set.Salt), s.set.Iterations)
	return s.first, nil
}

// checkFlag judges the gs2-cbind-flag. A client that could bind the channel but believes that we cannot has been lied
// to by someone between us.
func (s *scram) checkFlag(flag string) *sqlgov.Refusal {
	name, binds := strings.CutPrefix(flag, "p=")
	switch {
	case binds && !s.plus, !binds && s.plus:
		return malformed("malformed SCRAM message")
	case binds && name != bindingType:
		return malformed("unsupported SCRAM channel-binding type")
	case flag == "y" && s.binding != nil:
		return &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000",
			Message: "SCRAM channel binding negotiation error",
			Detail:  "The client supports SCRAM channel binding but thinks the server does not. However, this server does support channel binding."}
	case !binds && flag != "n" && flag != "y":
		return malformed("malformed SCRAM message")
	}
	return nil
}

// clientNonce reads client-first-message-bare. The user name in it is ignored, as PostgreSQL does: the one of the
// StartupMessage counts.
func clientNonce(bare string) (string, *sqlgov.Refusal) {
	fields := strings.Split(bare, ",")
	if strings.HasPrefix(fields[0], "m=") {
		return "", unsupported("client requires an unsupported SCRAM extension")
	}
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "n=") {
		return "", malformed("malformed SCRAM message")
	}
	nonce, ok := strings.CutPrefix(fields[1], "r=")
	if !ok || nonce == "" || !printable(nonce) {
		return "", malformed("malformed SCRAM message")
	}
	return nonce, nil
}

// printable holds for characters that a nonce may have (RFC 5802, section 7); the comma cannot get here.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// finish verifies the client-final-message. It returns the credential whose key the client showed and the
// server-final-message; ok is false if the proof fits none.
func (s *scram) finish(message string) (who *sqlgov.Credential, final string, ok bool, bad *sqlgov.Refusal) {
	unproven, proof64, found := strings.Cut(message, ",p=")
	fields := strings.Split(unproven, ",")
	if !found || len(fields) < 2 || !strings.HasPrefix(fields[0], "c=") || !strings.HasPrefix(fields[1], "r=") {
		return nil, "", false, malformed("malformed SCRAM message")
	}
	if bad := s.checkBinding(fields[0][2:]); bad != nil {
		return nil, "", false, bad
	}
	proof, err := base64.StdEncoding.DecodeString(proof64)
	if err != nil || len(proof) != sha256.Size || fields[1][2:] != s.joined {
		return nil, "", false, malformed("invalid SCRAM response")
	}
	auth := s.bare + "," + s.first + "," + unproven
	who = match(s.set.Credentials, proof, auth)
	if who == nil {
		return nil, "", false, nil
	}
	return who, "v=" + base64.StdEncoding.EncodeToString(sign(who.ServerKey, auth)), true, nil
}

// checkBinding compares what the client saw of the channel, under its proof, with what we offered.
func (s *scram) checkBinding(got string) *sqlgov.Refusal {
	want := []byte(s.gs2)
	if s.plus {
		want = append(want, s.binding...)
	}
	if subtle.ConstantTimeCompare([]byte(got), []byte(base64.StdEncoding.EncodeToString(want))) == 1 {
		return nil
	}
	if s.plus {
		return &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000", Message: "SCRAM channel binding check failed"}
	}
	return malformed("unexpected SCRAM channel-binding attribute in client-final-message")
}

// credentialStep is what the number of proofs tried is rounded up to, so that the time does not tell how many keys an
// identity has, or that it does not exist.
const credentialStep = 8

// match returns the credential that the proof was made with, trying all of them whatever the outcome.
func match(all []sqlgov.Credential, proof []byte, auth string) *sqlgov.Credential {
	var who *sqlgov.Credential
	steps := max(1, (len(all)+credentialStep-1)/credentialStep) * credentialStep
	for i := range steps {
		stored := make([]byte, sha256.Size)
		if i < len(all) {
			stored = all[i].StoredKey
		}
		key := sign(stored, auth)
		subtle.XORBytes(key, key, proof)
		hash := sha256.Sum256(key)
		if subtle.ConstantTimeCompare(hash[:], stored) == 1 && i < len(all) {
			who = &all[i]
		}
	}
	return who
}

func sign(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}

// newNonce has 18 random bytes, as PostgreSQL's.
func newNonce() string {
	b := make([]byte, 18)
	rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

func unsupported(message string) *sqlgov.Refusal {
	return &sqlgov.Refusal{Kind: sqlgov.Unsupported, SQLState: "0A000", Message: message}
}
