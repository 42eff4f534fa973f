package redact

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// moment is a date or a time.
type moment struct {
	days   int64 // from 2000-01-01
	inDay  int64 // microseconds
	beyond int   // 1 is infinity, -1 is -infinity
}

const (
	second = 1_000_000
	hour   = 3600 * second
	day    = 24 * hour
	// earliest is the first day that dates and timestamps have: 4714-11-24 BC.
	earliest = -2451545
	// The last years of dates and of timestamps.
	lastYear      = 5874897
	lastTimedYear = 294276
)

// at is the moment some microseconds after a midnight, or before it.
func at(days, micros int64) moment {
	over := floor(micros, day)
	return moment{days: days + over, inDay: micros - over*day}
}

// date cuts dates and times. Those with a time zone are cut in UTC, whatever the session's zone is, so that every caller
// sees the same.
func (c *compiler) date() (masking, error) {
	switch {
	case c.typ.OID == oidDate && c.Unit != "day" && c.Unit != "hour":
	case c.typ.OID == oidTimestamp, c.typ.OID == oidTimestampTZ:
	default:
		return nil, c.misfit()
	}
	return func(dst, value []byte) ([]byte, error) {
		m, ok := c.getMoment(value)
		if !ok {
			return dst, errUnreadable
		}
		return c.putMoment(dst, m.cut(c.Unit)), nil
	}, nil
}

func (m moment) cut(unit string) moment {
	switch {
	case m.beyond != 0:
		return m
	case unit == "hour":
		m.inDay -= m.inDay % hour
		return m
	}
	days := m.days
	year, month, _ := civil(days)
	switch unit {
	case "year":
		days = daysOf(year, 1, 1)
	case "quarter":
		days = daysOf(year, (month-1)/3*3+1, 1)
	case "month":
		days = daysOf(year, month, 1)
	case "week":
		days -= ((days+5)%7 + 7) % 7 // 2000-01-01 was a Saturday
	}
	return moment{days: max(days, earliest)}
}

func floor(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// Days of the Gregorian calendar from 2000-01-01, with a year 0. From H. Hinnant, "chrono-Compatible Low-Level Date
// Algorithms".
const hinnant = 730425 // days from 0000-03-01 to 2000-01-01

func daysOf(year, month, dayOfMonth int64) int64 {
	if month <= 2 {
		year--
	}
	era := floor(year, 400)
	yearOfEra := year - era*400
	dayOfYear := (153*((month+9)%12)+2)/5 + dayOfMonth - 1
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - hinnant
}

func civil(days int64) (year, month, dayOfMonth int64) {
	days += hinnant
	era := floor(days, 146097)
	dayOfEra := days - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153
	dayOfMonth = dayOfYear - (153*shifted+2)/5 + 1
	month = (shifted+2)%12 + 1
	year = yearOfEra + era*400
	if month <= 2 {
		year++
	}
	return year, month, dayOfMonth
}

func (c *compiler) getMoment(value []byte) (moment, bool) {
	switch {
	case c.format == TextFormat:
		return c.parseMoment(value)
	case c.typ.OID != oidDate:
		if len(value) != 8 {
			return moment{}, false
		}
		micros := int64(binary.BigEndian.Uint64(value))
		m := at(0, micros)
		m.beyond = beyond(micros, math.MinInt64, math.MaxInt64)
		return m, true
	case len(value) != 4:
		return moment{}, false
	}
	days := int64(int32(binary.BigEndian.Uint32(value)))
	return moment{days: days, beyond: beyond(days, math.MinInt32, math.MaxInt32)}, true
}

// beyond tells the infinities: the least and the greatest number of their type.
func beyond(n, least, most int64) int {
	switch n {
	case least:
		return -1
	case most:
		return 1
	}
	return 0
}

func (c *compiler) putMoment(dst []byte, m moment) []byte {
	switch {
	case c.format == TextFormat:
		return c.printMoment(dst, m)
	case c.typ.OID != oidDate:
		return binary.BigEndian.AppendUint64(dst, uint64(unlessBeyond(m, m.days*day+m.inDay, math.MinInt64, math.MaxInt64)))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(unlessBeyond(m, m.days, math.MinInt32, math.MaxInt32)))
}

func unlessBeyond(m moment, n, least, most int64) int64 {
	switch m.beyond {
	case -1:
		return least
	case 1:
		return most
	}
	return n
}

// parseMoment reads what PostgreSQL prints under DateStyle ISO: 2026-01-31 12:00:00.5+02 BC. Other styles leave open
// which number is the month.
func (c *compiler) parseMoment(text []byte) (moment, bool) {
	s := string(text)
	switch s {
	case "infinity":
		return moment{beyond: 1}, true
	case "-infinity":
		return moment{beyond: -1}, true
	}
	s, before := strings.CutSuffix(s, " BC")
	dateText, timeText, hasTime := strings.Cut(s, " ")
	parts := strings.Split(dateText, "-")
	if len(parts) != 3 || len(parts[0]) < 4 || len(parts[1]) != 2 || len(parts[2]) != 2 {
		return moment{}, false
	}
	year, month, dayOfMonth := number(parts[0]), number(parts[1]), number(parts[2])
	if year < 1 || year > lastYear || hasTime && year > lastTimedYear || month < 1 || month > 12 || dayOfMonth < 1 || dayOfMonth > 31 {
		return moment{}, false
	}
	if before {
		year = 1 - year
	}
	days := daysOf(year, month, dayOfMonth)
	if !hasTime {
		return moment{days: days}, c.typ.OID == oidDate
	}
	micros, ok := c.parseTime(timeText)
	return at(days, micros), ok && c.typ.OID != oidDate
}

// number reads decimal digits; anything else is -1.
func number(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return -1
	}
	return int64(n)
}

// parseTime reads a time of day, with the zone's offset if the type has one, in microseconds of UTC.
func (c *compiler) parseTime(s string) (int64, bool) {
	offset := int64(0)
	if c.typ.OID == oidTimestampTZ {
		i := strings.LastIndexAny(s, "+-")
		if i < 0 {
			return 0, false
		}
		zone, ok := clock(s[i+1:])
		if !ok {
			return 0, false
		}
		if offset = zone; s[i] == '-' {
			offset = -zone
		}
		s = s[:i]
	}
	inDay, ok := clock(s)
	return inDay - offset, ok
}

// clock reads HH[:MM[:SS[.ffffff]]].
func clock(s string) (int64, bool) {
	whole, fraction, hasFraction := strings.Cut(s, ".")
	total, unit := int64(0), int64(hour)
	parts := strings.Split(whole, ":")
	if len(parts) > 3 || hasFraction && (len(parts) != 3 || len(fraction) > 6 || fraction == "") {
		return 0, false
	}
	for _, p := range parts {
		n := number(p)
		if n < 0 || len(p) != 2 {
			return 0, false
		}
		total += n * unit
		unit /= 60
	}
	if hasFraction {
		n := number((fraction + "000000")[:6])
		return total + n, n >= 0
	}
	return total, true
}

func (c *compiler) printMoment(dst []byte, m moment) []byte {
	switch m.beyond {
	case 1:
		return append(dst, "infinity"...)
	case -1:
		return append(dst, "-infinity"...)
	}
	year, month, dayOfMonth := civil(m.days)
	before := year < 1
	if before {
		year = 1 - year
	}
	dst = append(append(append(padded(dst, year, 4), '-'), padded(nil, month, 2)...), '-')
	dst = padded(dst, dayOfMonth, 2)
	if c.typ.OID != oidDate {
		dst = printTime(append(dst, ' '), m.inDay)
	}
	if c.typ.OID == oidTimestampTZ {
		dst = append(dst, "+00"...)
	}
	if before {
		dst = append(dst, " BC"...)
	}
	return dst
}

func printTime(dst []byte, inDay int64) []byte {
	dst = append(padded(dst, inDay/hour, 2), ':')
	dst = append(padded(dst, inDay/(hour/60)%60, 2), ':')
	dst = padded(dst, inDay/second%60, 2)
	if fraction := inDay % second; fraction != 0 {
		dst = append(dst, strings.TrimRight("."+string(padded(nil, fraction, 6)), "0")...)
	}
	return dst
}

func padded(dst []byte, n int64, width int) []byte {
	s := strconv.FormatInt(n, 10)
	for range width - len(s) {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}
