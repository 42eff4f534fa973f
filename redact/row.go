package redact

import (
	"encoding/binary"
	"errors"
)

// Row masks the rows of one result shape. It is immutable and safe for concurrent use.
type Row struct {
	columns []*Masker // nil for a column that is passed on
}

// NewRow makes a Row from the maskers of all columns, in order; nil leaves a column as it is.
func NewRow(columns []*Masker) *Row { return &Row{columns} }

var errRow = errors.New("the row is not of the form that was described")

// AppendDataRow appends a DataRow message with masked values to dst. frame is the whole message as the server sent it
// (PostgreSQL manual, "Message Formats"): 'D', length, number of columns, and each value with its length. Content that is found is added to found.
func (r *Row) AppendDataRow(dst, frame []byte, found *Found) ([]byte, error) {
	const header = 7
	if len(frame) < header || frame[0] != 'D' || int(binary.BigEndian.Uint16(frame[5:])) != len(r.columns) {
		return dst, errRow
	}
	start, rest := len(dst), frame[header:]
	dst = append(dst, frame[:header]...)
	var err error
	for _, m := range r.columns {
		if dst, rest, err = m.appendNext(dst, rest, found); err != nil {
			return dst, err
		}
	}
	if len(rest) > 0 {
		return dst, errRow
	}
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst, nil
}

// appendNext masks the first of values that follow each other with their lengths; nil leaves it as it is.
func (m *Masker) appendNext(dst, values []byte, found *Found) (out, rest []byte, err error) {
	size, whole, ok := cutValue(values)
	if !ok {
		return dst, nil, errRow
	}
	if m == nil || size < 0 {
		return append(dst, values[:whole]...), values[whole:], nil
	}
	out, err = m.appendSized(dst, values[4:whole], found)
	return out, values[whole:], err
}

// cutValue finds where the first value ends. size is -1 for NULL.
func cutValue(rest []byte) (size int32, whole int, ok bool) {
	if len(rest) < 4 {
		return 0, 0, false
	}
	size = int32(binary.BigEndian.Uint32(rest))
	if size == -1 {
		return size, 4, true
	}
	return size, 4 + int(size), size >= 0 && len(rest)-4 >= int(size)
}

func (m *Masker) appendSized(dst, value []byte, found *Found) ([]byte, error) {
	at := len(dst)
	dst, isNull, err := m.append(append(dst, 0, 0, 0, 0), value, found)
	if err != nil {
		return dst, err
	}
	size := uint32(len(dst) - at - 4)
	if isNull {
		size = 0xFFFFFFFF
	}
	binary.BigEndian.PutUint32(dst[at:], size)
	return dst, nil
}

// Values masks the values of a row in place; nil is NULL. A row with another number of values is an error.
func (r *Row) Values(values [][]byte, found *Found) error {
	if len(values) != len(r.columns) {
		return errRow
	}
	for i, m := range r.columns {
		if m == nil || values[i] == nil {
			continue
		}
		masked, isNull, err := m.append([]byte{}, values[i], found)
		if err != nil {
			return err
		}
		if values[i] = masked; isNull {
			values[i] = nil
		}
	}
	return nil
}
