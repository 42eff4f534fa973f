package redact

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// compileArray masks each element of an array; elements that are NULL stay so.
func compileArray(s *Spec, t Type, f Format, key []byte) (*Masker, error) {
	element, err := Compile(s, *t.Element, f, key)
	if err != nil {
		return nil, err
	}
	apply := textArray(element.apply)
	if f == BinaryFormat {
		apply = binaryArray(element.apply)
	}
	return &Masker{apply: apply}, nil
}

// Sizes in the binary form of arrays (src/backend/utils/adt/arrayfuncs.c, array_send): a header of the number of
// dimensions, a flag for NULLs and the element type; for each dimension its length and lower bound; the elements, each
// with its length, -1 for NULL.
const (
	arrayHeader    = 12
	arrayDimension = 8
	maxDimensions  = 6
)

func binaryArray(mask masking) masking {
	return func(dst, value []byte) ([]byte, error) {
		if len(value) < arrayHeader {
			return dst, errUnreadable
		}
		dimensions := binary.BigEndian.Uint32(value)
		if dimensions > maxDimensions {
			return dst, errUnreadable
		}
		head := arrayHeader + arrayDimension*int(dimensions)
		if len(value) < head {
			return dst, errUnreadable
		}
		return appendMasked(append(dst, value[:head]...), value[head:], mask)
	}
}

// appendMasked masks values that follow each other with their lengths.
func appendMasked(dst, rest []byte, mask masking) ([]byte, error) {
	for len(rest) > 0 {
		if len(rest) < 4 {
			return dst, errUnreadable
		}
		size := int32(binary.BigEndian.Uint32(rest))
		if size == -1 {
			dst, rest = append(dst, rest[:4]...), rest[4:]
			continue
		}
		if size < 0 || len(rest)-4 < int(size) {
			return dst, errUnreadable
		}
		at := len(dst)
		var err error
		if dst, err = mask(append(dst, 0, 0, 0, 0), rest[4:4+size]); err != nil {
			return dst, err
		}
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
		rest = rest[4+size:]
	}
	return dst, nil
}

// textArray is for the text form: bounds if they are not 1, then braces, commas, and elements in double quotes where they
// need them.
func textArray(mask masking) masking {
	return func(dst, value []byte) ([]byte, error) {
		open := bytes.IndexByte(value, '{')
		if open < 0 || open > 0 && value[open-1] != '=' {
			return dst, errUnreadable
		}
		dst, value = append(dst, value[:open]...), value[open:]
		depth := 0
		for i := 0; i < len(value); {
			switch c := value[i]; c {
			case '{', '}', ',':
				if c == '{' {
					depth++
				} else if c == '}' {
					depth--
				}
				dst = append(dst, c)
				i++
			default:
				element, size, ok := arrayElement(value[i:])
				if !ok {
					return dst, errUnreadable
				}
				var err error
				if dst, err = maskElement(dst, element, mask); err != nil {
					return dst, err
				}
				i += size
			}
		}
		if depth != 0 {
			return dst, errUnreadable
		}
		return dst, nil
	}
}

// arrayElement reads one element; nil is NULL. size is what it takes up.
func arrayElement(text []byte) (element []byte, size int, ok bool) {
	if text[0] != '"' {
		end := bytes.IndexAny(text, ",}")
		if end < 0 {
			return nil, 0, false
		}
		if strings.EqualFold(string(text[:end]), "NULL") {
			return nil, end, true
		}
		return text[:end], end, !bytes.ContainsAny(text[:end], `"\{`)
	}
	element = []byte{}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return element, i + 1, true
		case '\\':
			if i++; i == len(text) {
				return nil, 0, false
			}
		}
		element = append(element, text[i])
	}
	return nil, 0, false
}

func maskElement(dst, element []byte, mask masking) ([]byte, error) {
	if element == nil {
		return append(dst, "NULL"...), nil
	}
	masked, err := mask(nil, element)
	if err != nil {
		return dst, err
	}
	if !needsQuotes(masked) {
		return append(dst, masked...), nil
	}
	dst = append(dst, '"')
	for _, c := range masked {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"'), nil
}

// needsQuotes reports if PostgreSQL puts an element in double quotes (array_out in the same file).
func needsQuotes(element []byte) bool {
	return len(element) == 0 || bytes.ContainsAny(element, "\"\\{}, \t\n\r\v\f") || strings.EqualFold(string(element), "NULL")
}
