package redact

import (
	"encoding/binary"
	"math/big"
	"slices"
)

// The binary form of numeric (src/backend/utils/adt/numeric.c, numeric_send): the number of digits, the weight of the
// first, the sign, the display scale, and the digits, each of which is one of base 10000. All are 16 bits wide.
const (
	numericBase     = 10000
	numericPlaces   = 4 // decimal digits of one digit
	numericHeader   = 8
	numericPositive = 0x0000
	numericNegative = 0x4000
	numericNaN      = 0xC000
	numericInf      = 0xD000
	numericNegInf   = 0xF000
)

var numericSpecials = map[string]uint16{notANumber: numericNaN, infinity: numericInf, negative: numericNegInf}

func decodeNumeric(value []byte) (decimal, error) {
	if len(value) < numericHeader {
		return decimal{}, errUnreadable
	}
	count, weight := int(binary.BigEndian.Uint16(value)), int(int16(binary.BigEndian.Uint16(value[2:])))
	sign, scale := binary.BigEndian.Uint16(value[4:]), int(binary.BigEndian.Uint16(value[6:]))
	for name, code := range numericSpecials {
		if sign == code {
			return decimal{special: name}, nil
		}
	}
	if len(value) != numericHeader+2*count || sign != numericPositive && sign != numericNegative {
		return decimal{}, errUnreadable
	}
	digits, base := new(big.Int), big.NewInt(numericBase)
	for i := range count {
		d := binary.BigEndian.Uint16(value[numericHeader+2*i:])
		if d >= numericBase {
			return decimal{}, errUnreadable
		}
		digits.Mul(digits, base).Add(digits, big.NewInt(int64(d)))
	}
	if sign == numericNegative {
		digits.Neg(digits)
	}
	return scaled(digits, numericPlaces*(count-1-weight), scale), nil
}

// scaled is digits/10^have, shown with as many digits behind the point as the display scale says.
func scaled(digits *big.Int, have, display int) decimal {
	if have < display {
		return decimal{digits: digits.Mul(digits, power(display-have)), scale: display}
	}
	return decimal{digits: digits.Quo(digits, power(have-display)), scale: display}
}

func encodeNumeric(dst []byte, n decimal) []byte {
	if n.special != "" {
		return appendWords(dst, 0, 0, numericSpecials[n.special], 0)
	}
	sign := uint16(numericPositive)
	if n.digits.Sign() < 0 {
		sign = numericNegative
	}
	whole := n.at((n.scale + numericPlaces - 1) / numericPlaces * numericPlaces)
	rest, base, digit := new(big.Int).Abs(whole.digits), big.NewInt(numericBase), new(big.Int)
	var digits []uint16
	for rest.Sign() > 0 {
		rest.QuoRem(rest, base, digit)
		digits = append(digits, uint16(digit.Uint64()))
	}
	weight := len(digits) - 1 - whole.scale/numericPlaces
	for len(digits) > 0 && digits[0] == 0 { // they come last
		digits = digits[1:]
	}
	slices.Reverse(digits)
	if len(digits) == 0 {
		weight, sign = 0, numericPositive
	}
	dst = appendWords(dst, uint16(len(digits)), uint16(int16(weight)), sign, uint16(n.scale))
	return appendWords(dst, digits...)
}

func appendWords(dst []byte, words ...uint16) []byte {
	for _, w := range words {
		dst = binary.BigEndian.AppendUint16(dst, w)
	}
	return dst
}
