package redact

import (
	"encoding/binary"
	"errors"
)

// CopyForm is how COPY TO writes its rows (PostgreSQL manual, COPY, "File Formats").
type CopyForm struct {
	Binary bool
	CSV    bool
	Header bool // a line of names comes first
	// Delimiter is between the values of a line, and Null stands for NULL. In CSV, values are put between Quote where they
	// need it, with Escape before a Quote or Escape inside; those of columns in Quoted, which has an entry a column or none,
	// always.
	Delimiter     byte
	Null          string
	Quote, Escape byte
	Quoted        []bool
}

// TellsNull reports if what stands for NULL cannot stand for a value as well. If it can, a value is not told from NULL,
// so whoever chooses the form can test for it.
func (f *CopyForm) TellsNull() bool {
	if f.Binary || f.CSV { // CSV quotes a value that looks like NULL
		return true
	}
	for i := 0; i < len(f.Null); i++ {
		if f.Null[i] != '\\' {
			continue
		}
		if i++; i == len(f.Null) || f.Null[i] != f.Delimiter && unescaped(f.Null[i]) == f.Null[i] && f.Null[i] != '\\' {
			return true // no value is written so
		}
	}
	return false
}

// Copy masks what COPY TO writes. It is immutable and safe for concurrent use.
type Copy struct {
	form    CopyForm
	columns []*Masker
}

// Copy masks the rows of a result shape in the form of COPY. The maskers must be of the format that goes with the form:
// BinaryFormat for the binary one, else TextFormat.
func (r *Row) Copy(form CopyForm) (*Copy, error) {
	switch {
	case form.Binary:
	case form.Delimiter == 0 || form.Delimiter == '\n' || form.CSV && (form.Quote == 0 || form.Escape == 0):
		return nil, errors.New("the form of COPY is not known")
	case !form.TellsNull():
		return nil, errors.New("NULL looks like a value")
	}
	return &Copy{form, r.columns}, nil
}

// CopyStream masks the data of one COPY as it arrives. It is not safe for concurrent use.
type CopyStream struct {
	*Copy
	found        *Found
	rest         []byte // the beginning of a row whose end has not come yet
	at           int    // how far it has been looked at
	quoted       bool   // that place is between quotes
	begun, ended bool

	value, masked []byte // of one column, to use again
}

// Stream begins with the first byte of the data. Content that is found is added to found.
func (c *Copy) Stream(found *Found) *CopyStream { return &CopyStream{Copy: c, found: found} }

// maxPart bounds a row that comes in pieces. PostgreSQL sends each row in one.
const maxPart = 64 << 20

// keepPart is the most that a stream holds on to between rows.
const keepPart = 64 << 10

// Append appends to dst what is whole of the data so far, masked, and says how many rows that is. If it fails, nothing is
// appended, and nothing more can be masked.
func (s *CopyStream) Append(dst, data []byte) (out []byte, rows int64, err error) {
	start := len(dst)
	if len(s.rest) > 0 {
		if len(s.rest)+len(data) > maxPart {
			return dst, 0, errRow
		}
		s.rest = append(s.rest, data...)
		data = s.rest
	}
	for {
		size, isRow, ok := s.cut(data)
		switch {
		case !ok:
			return dst[:start], 0, errRow
		case size == 0:
			s.keep(data)
			return dst, rows, nil
		case isRow:
			rows++
			if dst, err = s.row(dst, data[:size]); err != nil {
				return dst[:start], 0, err
			}
		default:
			dst = append(dst, data[:size]...)
		}
		data = data[size:]
	}
}

// keep keeps the beginning of a row.
func (s *CopyStream) keep(part []byte) {
	if s.rest = append(s.rest[:0], part...); len(part) == 0 && cap(s.rest) > keepPart {
		s.rest = nil
	}
}

// End returns nil if the data was whole.
func (s *CopyStream) End() error {
	if len(s.rest) > 0 || s.form.Binary && !s.ended {
		return errRow
	}
	return nil
}

// cut finds the end of what comes next: a row, or what is around the rows. Size 0 is none yet.
func (s *CopyStream) cut(data []byte) (size int, isRow, ok bool) {
	if s.form.Binary {
		return s.cutBinary(data)
	}
	size = s.cutLine(data)
	isRow = s.begun || !s.form.Header
	s.begun = s.begun || size > 0
	return size, isRow, true
}

func (s *CopyStream) row(dst, row []byte) ([]byte, error) {
	if s.form.Binary {
		return s.binaryRow(dst, row)
	}
	return s.line(dst, row[:len(row)-1])
}

// The binary form begins with a signature, four bytes of flags, and the length of an extension; a row begins with its
// number of columns, which is -1 at the end.
const (
	copySignature = "PGCOPY\n\xff\r\n\x00"
	copyHeader    = len(copySignature) + 8
	copyEnd       = 0xFFFF
)

func (s *CopyStream) cutBinary(data []byte) (size int, isRow, ok bool) {
	switch {
	case !s.begun:
		return s.cutHeader(data)
	case s.ended:
		return 0, false, len(data) == 0
	case len(data) < 2:
		return 0, false, true
	}
	n := binary.BigEndian.Uint16(data)
	if n == copyEnd {
		s.ended = true
		return 2, false, true
	}
	size = 2
	for range n {
		if len(data)-size < 4 {
			return 0, false, int(n) == len(s.columns)
		}
		length := int64(int32(binary.BigEndian.Uint32(data[size:])))
		if length < -1 {
			return 0, false, false
		}
		if size += 4; length > int64(len(data)-size) {
			return 0, false, int(n) == len(s.columns)
		}
		size += int(max(0, length))
	}
	return size, true, int(n) == len(s.columns)
}

func (s *CopyStream) cutHeader(data []byte) (size int, isRow, ok bool) {
	if len(data) < copyHeader {
		return 0, false, true
	}
	flags, extension := binary.BigEndian.Uint32(data[len(copySignature):]), binary.BigEndian.Uint32(data[copyHeader-4:])
	if string(data[:len(copySignature)]) != copySignature || flags != 0 || extension != 0 {
		return 0, false, false
	}
	s.begun = true
	return copyHeader, false, true
}

func (s *CopyStream) binaryRow(dst, row []byte) ([]byte, error) {
	dst, row = append(dst, row[:2]...), row[2:]
	var err error
	for _, m := range s.columns {
		if dst, row, err = m.appendNext(dst, row, s.found); err != nil {
			return dst, err
		}
	}
	return dst, nil
}
