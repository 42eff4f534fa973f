package pgwire

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"interlock/sqlgov"
)

// deriveCredential derives what the server keeps of a password (RFC 5802, section 3).
func deriveCredential(id, password string, salt []byte, iterations int) sqlgov.Credential {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		panic(err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	return sqlgov.Credential{KeyID: id, StoredKey: stored[:], ServerKey: sign(salted, "Server Key")}
}

// The exchange printed in RFC 7677, section 3.
const (
	rfcSalt        = "W22ZaJ0SNY7soEsUEjb6gQ=="
	rfcClientFirst = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
	rfcServerNonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	rfcServerFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcClientFinal = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcServerFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func rfcExchange(t testing.TB, passwords ...string) *scram {
	salt, err := base64.StdEncoding.DecodeString(rfcSalt)
	if err != nil {
		t.Fatal(err)
	}
	set := sqlgov.ScramSet{Salt: salt, Iterations: 4096}
	for _, p := range passwords {
		set.Credentials = append(set.Credentials, deriveCredential("key of "+p, p, salt, 4096))
	}
	return &scram{set: set, nonce: func() string { return rfcServerNonce }}
}

func TestScramRFC7677(t *testing.T) {
	for _, passwords := range [][]string{{"pencil"}, {"pen", "pencil", "paper"}, manyPasswords(20, "pencil")} {
		s := rfcExchange(t, passwords...)
		if bad := s.choose(mechanism); bad != nil {
			t.Fatal(bad)
		}
		first, bad := s.challenge(rfcClientFirst)
		if bad != nil || first != rfcServerFirst {
			t.Fatalf("challenge = %q, %v", first, bad)
		}
		who, final, ok, bad := s.finish(rfcClientFinal)
		if bad != nil || !ok || who.KeyID != "key of pencil" || final != rfcServerFinal {
			t.Fatalf("finish with %d keys = %v, %q, %v, %v", len(passwords), who, final, ok, bad)
		}
	}
}

func manyPasswords(n int, last string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.Repeat("x", i+1)
	}
	return append(list, last)
}

func TestScramWrongProof(t *testing.T) {
	for name, passwords := range map[string][]string{"other key": {"pen"}, "no such user": nil} {
		s := rfcExchange(t, passwords...)
		s.challenge(rfcClientFirst)
		if who, _, ok, bad := s.finish(rfcClientFinal); ok || who != nil || bad != nil {
			t.Errorf("%s: finish = %v, %v, %v", name, who, ok, bad)
		}
	}
}

func TestScramRefusesMalformed(t *testing.T) {
	for _, first := range []string{
		"", "n", "n,", "n,,", "x,,n=u,r=abc", "n,a=other,n=u,r=abc", "n,,r=abc", "n,,n=u", "n,,n=u,r=", "n,,n=u,r=a\x01b",
		"n,,n=u,r=\xff", "n,,m=ext,n=u,r=abc", "p=tls-server-end-point,,n=u,r=abc", "p=tls-unique,,n=u,r=abc", "N,,n=u,r=abc",
	} {
		if got, bad := rfcExchange(t, "pencil").challenge(first); bad == nil {
			t.Errorf("challenge(%q) = %q", first, got)
		}
	}
	for _, final := range []string{
		"", "c=biws", strings.Replace(rfcClientFinal, "biws", "eSws", 1), strings.Replace(rfcClientFinal, "r=r", "r=R", 1),
		strings.Replace(rfcClientFinal, "p=dHzb", "p=!!!!", 1), strings.Replace(rfcClientFinal, "p=dHzb", "p=", 1),
		strings.TrimPrefix(rfcClientFinal, "c=biws,"), strings.Replace(rfcClientFinal, ",p=", ",q=", 1),
	} {
		s := rfcExchange(t, "pencil")
		s.challenge(rfcClientFirst)
		if _, _, ok, bad := s.finish(final); ok || bad == nil {
			t.Errorf("finish(%q) = %v, %v", final, ok, bad)
		}
	}
}

// A client that offers channel binding but was told that there is none must not get in over TLS: whoever told it is in
// the middle.
func TestScramChannelBinding(t *testing.T) {
	for _, c := range []struct {
		mechanism, flag string
		state           string // "" is accepted
	}{
		{mechanismPlus, "p=tls-server-end-point", ""},
		{mechanismPlus, "p=tls-unique", "08P01"},
		{mechanismPlus, "n", "08P01"},
		{mechanismPlus, "y", "08P01"},
		{mechanism, "n", ""},
		{mechanism, "y", "28000"},
		{mechanism, "p=tls-server-end-point", "08P01"},
	} {
		s := rfcExchange(t, "pencil")
		s.binding = []byte("hash of the certificate")
		if bad := s.choose(c.mechanism); bad != nil {
			t.Fatal(bad)
		}
		_, bad := s.challenge(c.flag + ",,n=user,r=abc")
		if got := stateOf(bad); got != c.state {
			t.Errorf("%s with %s: %q, want %q", c.mechanism, c.flag, got, c.state)
		}
	}
	if bad := rfcExchange(t, "pencil").choose(mechanismPlus); stateOf(bad) != "08P01" {
		t.Errorf("PLUS without TLS: %v", bad)
	}
}

func TestScramBindingOfAnotherChannel(t *testing.T) {
	s := rfcExchange(t, "pencil")
	s.binding = []byte("hash of the certificate")
	s.choose(mechanismPlus)
	s.challenge("p=tls-server-end-point,,n=user,r=abc")
	other := base64.StdEncoding.EncodeToString([]byte("p=tls-server-end-point,,hash of another"))
	if _, _, ok, bad := s.finish("c=" + other + ",r=" + s.joined + ",p=" + strings.Repeat("A", 43) + "="); ok || stateOf(bad) != "28000" {
		t.Errorf("finish = %v, %v", ok, bad)
	}
}

func stateOf(r *sqlgov.Refusal) string {
	if r == nil {
		return ""
	}
	return sqlState(r)
}
