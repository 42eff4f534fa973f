package audit

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A sealed text is "s1.KEY.HEADER.DATA", each part in unpadded base64url. KEY is the first six bytes of the SHA-256 of
// the owner's X25519 public key. HEADER is an ephemeral X25519 public key and an AES-256 key, which is encrypted by
// AES-256-GCM (nonce of zeros) under HKDF-SHA-256(shared secret, salt: both public keys, info: "interlock audit s1"). DATA
// is a nonce and the text, encrypted by AES-256-GCM under that key; the decision id is authenticated with it, so that a
// sealed text cannot be moved to another record.
const (
	sealVersion = "s1"
	sealInfo    = "interlock audit " + sealVersion
	// sealLifetime is how long one header is in use. Making one costs two multiplications on the curve.
	sealLifetime = 10 * time.Minute
)

var sealText = base64.RawURLEncoding

// OwnerKey is an owner's key pair for sealed texts.
type OwnerKey struct{ key *ecdh.PrivateKey }

// NewOwnerKey makes a key pair.
func NewOwnerKey() (OwnerKey, error) {
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return OwnerKey{}, fmt.Errorf("making an owner's key: %w", err)
	}
	return OwnerKey{k}, nil
}

const secretPrefix, publicPrefix = "interlock-owner-secret-", "interlock-owner-"

// ParseOwnerKey reads what Secret returns.
func ParseOwnerKey(text string) (OwnerKey, error) {
	enc, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	raw, err := sealText.DecodeString(enc)
	if !ok || err != nil {
		return OwnerKey{}, errors.New("this is no owner's secret key")
	}
	k, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return OwnerKey{}, errors.New("this is no owner's secret key")
	}
	return OwnerKey{k}, nil
}

// Secret is the private key as text.
func (k OwnerKey) Secret() string { return secretPrefix + sealText.EncodeToString(k.key.Bytes()) }

// Public is the public key as text, for the governance document.
func (k OwnerKey) Public() string {
	return publicPrefix + sealText.EncodeToString(k.key.PublicKey().Bytes())
}

// Open returns the text that was sealed for a decision.
func (k OwnerKey) Open(id, sealed string) (string, error) {
	parts := strings.Split(sealed, ".")
	if len(parts) != 4 || parts[0] != sealVersion {
		return "", errors.New("this is no sealed text")
	}
	header, err := sealText.DecodeString(parts[2])
	data, err2 := sealText.DecodeString(parts[3])
	if err = errors.Join(err, err2); err != nil || len(header) < 32 || len(data) < 12 {
		return "", errors.New("this is no sealed text")
	}
	if parts[1] != sealedFor(k.key.PublicKey()) {
		return "", errors.New("the text is sealed for another owner's key")
	}
	from, err := ecdh.X25519().NewPublicKey(header[:32])
	if err != nil {
		return "", errors.New("this is no sealed text")
	}
	wrap, err := wrapping(k.key, from, from, k.key.PublicKey())
	if err != nil {
		return "", err
	}
	key, err := wrap.Open(nil, make([]byte, wrap.NonceSize()), header[32:], nil)
	if err != nil {
		return "", errors.New("the sealed text was altered")
	}
	body, err := newGCM(key)
	if err != nil {
		return "", err
	}
	text, err := body.Open(nil, data[:12], data[12:], []byte(id))
	if err != nil {
		return "", errors.New("the sealed text was altered, or belongs to another decision")
	}
	return string(text), nil
}

func sealedFor(public *ecdh.PublicKey) string {
	sum := sha256.Sum256(public.Bytes())
	return sealText.EncodeToString(sum[:6])
}

func wrapping(secret *ecdh.PrivateKey, other, ephemeral, owner *ecdh.PublicKey) (cipher.AEAD, error) {
	shared, err := secret.ECDH(other)
	if err != nil {
		return nil, errors.New("this is no sealed text")
	}
	salt := append(append([]byte{}, ephemeral.Bytes()...), owner.Bytes()...)
	key, err := hkdf.Key(sha256.New, shared, salt, sealInfo, 32)
	if err != nil {
		return nil, err
	}
	return newGCM(key)
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Sealer seals texts for an owner. It is safe for concurrent use.
type Sealer struct {
	owner *ecdh.PublicKey

	mu     sync.Mutex // protects the following
	made   time.Time
	prefix string // everything before DATA
	body   cipher.AEAD
}

// NewSealer returns a sealer for the owner with a public key, as OwnerKey.Public has it.
func NewSealer(public string) (*Sealer, error) {
	enc, ok := strings.CutPrefix(public, publicPrefix)
	raw, err := sealText.DecodeString(enc)
	if !ok || err != nil {
		return nil, errors.New("this is no owner's public key")
	}
	k, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		return nil, errors.New("this is no owner's public key")
	}
	return &Sealer{owner: k}, nil
}

// Seal seals a text for the record with a decision id.
func (s *Sealer) Seal(id, text string) (string, error) {
	prefix, body, err := s.header()
	if err != nil {
		return "", fmt.Errorf("sealing a statement: %w", err)
	}
	nonce := make([]byte, 12, 12+len(text)+body.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("sealing a statement: %w", err)
	}
	return prefix + sealText.EncodeToString(body.Seal(nonce, nonce, []byte(text), []byte(id))), nil
}

func (s *Sealer) header() (string, cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.body != nil && time.Since(s.made) < sealLifetime {
		return s.prefix, s.body, nil
	}
	ephemeral, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	wrap, err := wrapping(ephemeral, s.owner, ephemeral.PublicKey(), s.owner)
	if err != nil {
		return "", nil, err
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", nil, err
	}
	if s.body, err = newGCM(key); err != nil {
		return "", nil, err
	}
	header := wrap.Seal(ephemeral.PublicKey().Bytes(), make([]byte, wrap.NonceSize()), key, nil)
	s.prefix = sealVersion + "." + sealedFor(s.owner) + "." + sealText.EncodeToString(header) + "."
	s.made = time.Now()
	return s.prefix, s.body, nil
}
