package redact

import (
	"encoding/hex"
)

// OIDs of built-in types, fixed in every release of PostgreSQL (src/include/catalog/pg_type.dat).
const (
	oidBool        = 16
	oidBytea       = 17
	oidName        = 19
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidJSON        = 114
	oidFloat4      = 700
	oidFloat8      = 701
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTimestamp   = 1114
	oidTimestampTZ = 1184
	oidNumeric     = 1700
	oidUUID        = 2950
	oidJSONB       = 3802
)

// parseUUID reads the form that PostgreSQL prints.
func parseUUID(text []byte) (raw [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return raw, false
	}
	plain := make([]byte, 0, 32)
	for _, part := range [...][]byte{text[:8], text[9:13], text[14:18], text[19:23], text[24:]} {
		plain = append(plain, part...)
	}
	_, err := hex.Decode(raw[:], plain)
	return raw, err == nil
}

func (c *compiler) putUUID(dst []byte, raw [16]byte) []byte {
	if c.format == BinaryFormat {
		return append(dst, raw[:]...)
	}
	for i, b := range raw {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, []byte{b})
	}
	return dst
}

// parseBytea reads both forms that PostgreSQL prints: hex, and escape.
func parseBytea(text []byte) ([]byte, bool) {
	if len(text) >= 2 && text[0] == '\\' && text[1] == 'x' {
		raw, err := hex.DecodeString(string(text[2:]))
		return raw, err == nil
	}
	var raw []byte
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			raw = append(raw, text[i])
		case i+1 < len(text) && text[i+1] == '\\':
			raw = append(raw, '\\')
			i++
		case i+3 < len(text) && isOctal(text[i+1:i+4]):
			raw = append(raw, (text[i+1]-'0')<<6|(text[i+2]-'0')<<3|(text[i+3]-'0'))
			i += 3
		default:
			return nil, false
		}
	}
	return raw, true
}

func isOctal(b []byte) bool {
	for i, c := range b {
		if c < '0' || c > '7' || i == 0 && c > '3' {
			return false
		}
	}
	return true
}

func (c *compiler) putBytea(dst, raw []byte) []byte {
	if c.format == BinaryFormat {
		return append(dst, raw...)
	}
	return hex.AppendEncode(append(dst, `\x`...), raw)
}
