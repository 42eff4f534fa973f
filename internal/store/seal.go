package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// sealer encrypts what the store must not show by itself: AES-256-GCM with a key that is made from the server's secret.
// Each sealed text belongs to a place, and cannot be opened at another.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte, purpose string) (*sealer, error) {
	if len(secret) < 32 {
		return nil, errors.New("the secret is too short to encrypt with")
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("seal\x00" + purpose))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead}, err
}

// seal returns nonce and ciphertext; nil for nothing.
func (s *sealer) seal(text []byte, place string) []byte {
	if len(text) == 0 {
		return nil
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return s.aead.Seal(nonce, nonce, text, []byte(place))
}

func (s *sealer) open(sealed []byte, place string) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, fmt.Errorf("what is sealed for %q is cut off", place)
	}
	text, err := s.aead.Open(nil, sealed[:n], sealed[n:], []byte(place))
	if err != nil {
		return nil, fmt.Errorf("what is sealed for %q cannot be opened: it was changed, or the secret is another one", place)
	}
	return text, nil
}
