package redact

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// numeric reports if the type is one of numbers.
func (t *Type) numeric() bool {
	switch t.OID {
	case oidInt2, oidInt4, oidInt8, oidFloat4, oidFloat8, oidNumeric:
		return true
	}
	return false
}

// integerBits is the size of an integer type; 0 for other types.
func (t *Type) integerBits() int {
	switch t.OID {
	case oidInt2:
		return 16
	case oidInt4:
		return 32
	case oidInt8:
		return 64
	}
	return 0
}

// number cuts numbers to multiples of the step. Towards zero, so that none leaves the range of its type.
func (c *compiler) number() (masking, error) {
	step, _ := parseDecimal(c.Step)
	switch {
	case c.typ.integerBits() > 0:
		whole, ok := step.int64()
		if !ok {
			return nil, c.misfit()
		}
		return c.integers(func(n int64) int64 { return n / whole * whole }), nil
	case c.typ.numeric():
		return c.decimals(func(n decimal) decimal { return n.cut(step) }), nil
	}
	return nil, c.misfit()
}

// ranges puts the lower bound of its range in the place of a number.
func (c *compiler) ranges() (masking, error) {
	if !c.typ.numeric() {
		return nil, c.misfit()
	}
	bounds := make([]decimal, len(c.Bounds))
	for i, text := range c.Bounds {
		bounds[i], _ = parseDecimal(text)
		if _, err := c.putNumber(nil, bounds[i]); err != nil {
			return nil, err
		}
	}
	if c.typ.integerBits() == 0 {
		return c.decimals(func(n decimal) decimal { return n.bucket(bounds) }), nil
	}
	whole := make([]int64, len(bounds))
	for i := range bounds {
		whole[i], _ = bounds[i].int64()
	}
	return c.integers(func(n int64) int64 {
		last := whole[0]
		for _, b := range whole {
			if b <= n {
				last = b
			}
		}
		return last
	}), nil
}

func (c *compiler) integers(change func(int64) int64) masking {
	return func(dst, value []byte) ([]byte, error) {
		n, ok := c.getInteger(value)
		if !ok {
			return dst, errUnreadable
		}
		return c.putInteger(dst, change(n)), nil
	}
}

func (c *compiler) getInteger(value []byte) (int64, bool) {
	bits := c.typ.integerBits()
	if c.format == TextFormat {
		n, err := strconv.ParseInt(string(value), 10, bits)
		return n, err == nil
	}
	if len(value)*8 != bits {
		return 0, false
	}
	switch bits {
	case 16:
		return int64(int16(binary.BigEndian.Uint16(value))), true
	case 32:
		return int64(int32(binary.BigEndian.Uint32(value))), true
	}
	return int64(binary.BigEndian.Uint64(value)), true
}

func (c *compiler) putInteger(dst []byte, n int64) []byte {
	if c.format == TextFormat {
		return strconv.AppendInt(dst, n, 10)
	}
	switch c.typ.integerBits() {
	case 16:
		return binary.BigEndian.AppendUint16(dst, uint16(n))
	case 32:
		return binary.BigEndian.AppendUint32(dst, uint32(n))
	}
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

func (c *compiler) decimals(change func(decimal) decimal) masking {
	return func(dst, value []byte) ([]byte, error) {
		n, err := c.getNumber(value)
		if err != nil {
			return dst, err
		}
		if n.special != "" {
			return c.putNumber(dst, n)
		}
		return c.putNumber(dst, change(n))
	}
}

// getNumber reads a value of any type of numbers.
func (c *compiler) getNumber(value []byte) (decimal, error) {
	switch {
	case c.format == TextFormat:
		if n, ok := parseDecimal(string(value)); ok {
			return n, nil
		}
	case c.typ.integerBits() > 0:
		if n, ok := c.getInteger(value); ok {
			return decimal{digits: big.NewInt(n)}, nil
		}
	case c.typ.OID == oidFloat4 && len(value) == 4:
		return ofFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(value))), 32), nil
	case c.typ.OID == oidFloat8 && len(value) == 8:
		return ofFloat(math.Float64frombits(binary.BigEndian.Uint64(value)), 64), nil
	case c.typ.OID == oidNumeric:
		return decodeNumeric(value)
	}
	return decimal{}, errUnreadable
}

// putNumber writes a number as a value of the type; it is an error if the type has no such value.
func (c *compiler) putNumber(dst []byte, n decimal) ([]byte, error) {
	switch bits := c.typ.integerBits(); {
	case bits > 0:
		whole, ok := n.int64()
		if !ok || whole < -1<<(bits-1) || whole > 1<<(bits-1)-1 {
			return dst, c.misfit()
		}
		return c.putInteger(dst, whole), nil
	case c.typ.OID == oidNumeric && c.format == BinaryFormat:
		return encodeNumeric(dst, n), nil
	case c.typ.OID == oidNumeric:
		return n.append(dst), nil
	}
	return c.putFloat(dst, n)
}

func (c *compiler) putFloat(dst []byte, n decimal) ([]byte, error) {
	bits := 64
	if c.typ.OID == oidFloat4 {
		bits = 32
	}
	f, err := strconv.ParseFloat(string(n.append(nil)), bits)
	switch {
	case err != nil:
		return dst, c.misfit()
	case c.format == TextFormat && n.special != "":
		return append(dst, n.special...), nil
	case c.format == TextFormat:
		return strconv.AppendFloat(dst, f, 'g', -1, bits), nil
	case bits == 32:
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(f))), nil
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(f)), nil
}

// Names of the numbers that are none, as PostgreSQL prints them.
const (
	notANumber = "NaN"
	infinity   = "Infinity"
	negative   = "-Infinity"
)

func ofFloat(f float64, bits int) decimal {
	switch {
	case math.IsNaN(f):
		return decimal{special: notANumber}
	case math.IsInf(f, 1):
		return decimal{special: infinity}
	case math.IsInf(f, -1):
		return decimal{special: negative}
	}
	n, _ := parseDecimal(strconv.FormatFloat(f, 'g', -1, bits))
	return n
}

// maxExponent bounds the exponent of a number in a text. PostgreSQL's types have none that is larger.
const maxExponent = 400

// parseDecimal reads a number as PostgreSQL prints it and as people write it.
func parseDecimal(text string) (decimal, bool) {
	switch text {
	case notANumber, infinity, negative:
		return decimal{special: text}, true
	}
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return decimal{}, false
		}
		mantissa = text[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if strings.ContainsAny(whole+fraction, "_") || strings.ContainsAny(fraction, "+-") {
		return decimal{}, false
	}
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return decimal{}, false
	}
	n := decimal{digits: digits, scale: len(fraction) - exponent}
	if n.scale < 0 {
		n = n.at(0)
	}
	return n, true
}

func power(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// at is the number with a scale that is not less than its own.
func (n decimal) at(scale int) decimal {
	if scale <= n.scale {
		return n
	}
	return decimal{digits: new(big.Int).Mul(n.digits, power(scale-n.scale)), scale: scale}
}

func (n decimal) compare(m decimal) int {
	scale := max(n.scale, m.scale)
	return n.at(scale).digits.Cmp(m.at(scale).digits)
}

// cut is the nearest multiple of a step towards zero.
func (n decimal) cut(step decimal) decimal {
	scale := max(n.scale, step.scale)
	a, b := n.at(scale), step.at(scale)
	quotient := new(big.Int).Quo(a.digits, b.digits)
	return decimal{digits: quotient.Mul(quotient, b.digits), scale: scale}
}

func (n decimal) bucket(bounds []decimal) decimal {
	last := bounds[0]
	for _, b := range bounds {
		if b.compare(n) <= 0 {
			last = b
		}
	}
	return last
}

// int64 is the number if it is a whole one of that size.
func (n decimal) int64() (int64, bool) {
	if n.special != "" {
		return 0, false
	}
	whole, rest := new(big.Int).QuoRem(n.digits, power(n.scale), new(big.Int))
	return whole.Int64(), rest.Sign() == 0 && whole.IsInt64()
}

// shortest is the number without zeros behind its fraction.
func (n decimal) shortest() decimal {
	ten, rest := big.NewInt(10), new(big.Int)
	for n.special == "" && n.scale > 0 {
		var quotient big.Int
		if quotient.QuoRem(n.digits, ten, rest); rest.Sign() != 0 {
			break
		}
		n = decimal{digits: &quotient, scale: n.scale - 1}
	}
	return n
}

func (n decimal) append(dst []byte) []byte {
	if n.special != "" {
		return append(dst, n.special...)
	}
	digits := new(big.Int).Abs(n.digits).String()
	if n.digits.Sign() < 0 {
		dst = append(dst, '-')
	}
	if len(digits) <= n.scale {
		digits = strings.Repeat("0", n.scale-len(digits)+1) + digits
	}
	dst = append(dst, digits[:len(digits)-n.scale]...)
	if n.scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-n.scale:]...)
	}
	return dst
}
