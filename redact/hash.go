package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/big"
)

// KeyBytes is the length of a key.
const KeyBytes = sha256.Size

// DeriveKey makes the key of one source from a secret, so that the same value looks different in every source.
func DeriveKey(secret []byte, source string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("interlock mask\x00" + source))
	return mac.Sum(nil)
}

// minHashed is how many characters a hash needs at least, so that different values hardly ever get the same one.
const minHashed = 16

// hash replaces values by their HMAC-SHA-256. Numbers are hashed by their value, so that 1 and 1.0 stay equal, and in
// every type and format alike.
func (c *compiler) hash() (masking, error) {
	switch c.typ.OID {
	case oidUUID:
		return c.hashUUID, nil
	case oidBytea:
		return c.hashBytea, nil
	case oidInt4, oidInt8, oidNumeric:
		return c.hashNumber, nil
	}
	if c.typ.Length > 0 && c.typ.Length < minHashed {
		return nil, c.misfit()
	}
	return c.text(func(dst, value []byte) ([]byte, error) {
		sum := c.sum('t', value)
		return hex.AppendEncode(dst, sum[:16]), nil
	})
}

func (c *compiler) sum(class byte, value []byte) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte{class})
	mac.Write(value)
	mac.Sum(sum[:0])
	return sum
}

func (c *compiler) hashUUID(dst, value []byte) ([]byte, error) {
	raw, ok := [16]byte{}, len(value) == 16
	if c.format == BinaryFormat {
		copy(raw[:], value)
	} else {
		raw, ok = parseUUID(value)
	}
	if !ok {
		return dst, errUnreadable
	}
	sum := c.sum('u', raw[:])
	copy(raw[:], sum[:])
	raw[6], raw[8] = raw[6]&0x0f|0x80, raw[8]&0x3f|0x80 // version 8 of RFC 9562: of the maker's own design
	return c.putUUID(dst, raw), nil
}

func (c *compiler) hashBytea(dst, value []byte) ([]byte, error) {
	raw, ok := value, true
	if c.format == TextFormat {
		raw, ok = parseBytea(value)
	}
	if !ok {
		return dst, errUnreadable
	}
	sum := c.sum('b', raw)
	return c.putBytea(dst, sum[:16]), nil
}

func (c *compiler) hashNumber(dst, value []byte) ([]byte, error) {
	n, err := c.getNumber(value)
	if err != nil {
		return dst, err
	}
	sum := c.sum('n', n.shortest().append(nil))
	hashed := binary.BigEndian.Uint64(sum[:]) >> 1
	switch c.typ.OID {
	case oidInt4:
		hashed >>= 32
	case oidNumeric:
		hashed %= 1_000_000_000_000_000_000
	}
	return c.putNumber(dst, decimal{digits: new(big.Int).SetUint64(hashed)})
}

// digits replaces every digit but the last few by one that the key and the whole value decide.
func (c *compiler) digits(dst, value []byte) ([]byte, error) {
	total := 0
	for _, b := range value {
		if b >= '0' && b <= '9' {
			total++
		}
	}
	kept := c.Last
	if 2*kept > total {
		kept = 0
	}
	stream := digitStream{sum: c.sum('d', value), c: c}
	seen := 0
	for _, b := range value {
		if b >= '0' && b <= '9' {
			if seen++; seen <= total-kept {
				b = stream.next()
			}
		}
		dst = append(dst, b)
	}
	return dst, nil
}

// digitStream yields digits that are evenly spread.
type digitStream struct {
	c   *compiler
	sum [sha256.Size]byte
	at  int
}

func (s *digitStream) next() byte {
	for {
		if s.at == len(s.sum) {
			s.sum, s.at = s.c.sum('d', s.sum[:]), 0
		}
		b := s.sum[s.at]
		s.at++
		if b < 250 {
			return '0' + b%10
		}
	}
}
