package redact

import "bytes"

// cutLine finds the end of a line, the line feed included. In the text form a line feed in a value is written as \n; in CSV
// it is between quotes.
func (s *CopyStream) cutLine(data []byte) int {
	if !s.form.CSV {
		end := bytes.IndexByte(data[s.at:], '\n')
		return s.cutAt(data, s.at+end, end >= 0)
	}
	for i := s.at; i < len(data); i++ {
		switch c := data[i]; {
		case s.quoted && c == s.form.Escape && c != s.form.Quote:
			if i++; i == len(data) {
				s.at = i - 1
				return 0
			}
		case c == s.form.Quote:
			s.quoted = !s.quoted
		case c == '\n' && !s.quoted:
			return s.cutAt(data, i, true)
		}
	}
	return s.cutAt(data, 0, false)
}

func (s *CopyStream) cutAt(data []byte, end int, found bool) int {
	if !found {
		s.at = len(data)
		return 0
	}
	s.at = 0
	return end + 1
}

// line masks a line without its end.
func (s *CopyStream) line(dst, line []byte) ([]byte, error) {
	for i, m := range s.columns {
		if i > 0 {
			if len(line) == 0 || line[0] != s.form.Delimiter {
				return dst, errRow
			}
			dst, line = append(dst, s.form.Delimiter), line[1:]
		}
		size, ok := s.field(line, m != nil)
		if !ok {
			return dst, errRow
		}
		if m == nil || string(line[:size]) == s.form.Null {
			dst = append(dst, line[:size]...)
		} else {
			var err error
			if dst, err = s.maskField(dst, i, m); err != nil {
				return dst, err
			}
		}
		line = line[size:]
	}
	if len(line) > 0 {
		return dst, errRow
	}
	return append(dst, '\n'), nil
}

// maskField appends the masked form of the value that field has read.
func (s *CopyStream) maskField(dst []byte, column int, m *Masker) ([]byte, error) {
	masked, isNull, err := m.append(s.masked[:0], s.value, s.found)
	if err != nil {
		return dst, err
	}
	s.masked = masked
	switch {
	case isNull:
		return append(dst, s.form.Null...), nil
	case s.form.CSV:
		return s.appendCSV(dst, masked, column < len(s.form.Quoted) && s.form.Quoted[column]), nil
	}
	return s.appendText(dst, masked), nil
}

// field finds the end of the first value in a line. If it is wanted, s.value is set to it as the type has it.
func (s *CopyStream) field(line []byte, wanted bool) (size int, ok bool) {
	s.value = s.value[:0]
	if !s.form.CSV {
		return s.textField(line, wanted)
	}
	if len(line) == 0 || line[0] != s.form.Quote {
		size = bytes.IndexByte(line, s.form.Delimiter)
		if size < 0 {
			size = len(line)
		}
		s.value = append(s.value, line[:size]...)
		return size, true
	}
	for i := 1; i < len(line); i++ {
		c := line[i]
		switch {
		case c == s.form.Escape && i+1 < len(line) && (line[i+1] == s.form.Quote || line[i+1] == s.form.Escape):
			i++
			c = line[i]
		case c == s.form.Quote:
			return i + 1, true
		}
		s.value = append(s.value, c)
	}
	return 0, false
}

func (s *CopyStream) textField(line []byte, wanted bool) (size int, ok bool) {
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == s.form.Delimiter:
			return i, true
		case c == '\\':
			if i++; i == len(line) {
				return 0, false
			}
			c = unescaped(line[i])
		}
		if wanted {
			s.value = append(s.value, c)
		}
	}
	return len(line), true
}

// escapes are the letters that stand for control characters behind a backslash in the text form.
var escapes = [...]struct{ letter, control byte }{{'b', '\b'}, {'f', '\f'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'v', '\v'}}

func unescaped(letter byte) byte {
	for _, e := range escapes {
		if e.letter == letter {
			return e.control
		}
	}
	return letter
}

// appendText writes a value as CopyAttributeOutText of PostgreSQL's copyto.c does.
func (s *CopyStream) appendText(dst, value []byte) []byte {
	for _, c := range value {
		letter := c
		for _, e := range escapes {
			if e.control == c {
				letter = e.letter
			}
		}
		if letter != c || c == '\\' || c == s.form.Delimiter {
			dst = append(dst, '\\')
		}
		dst = append(dst, letter)
	}
	return dst
}

// appendCSV writes a value as CopyAttributeOutCSV of PostgreSQL's copyto.c does.
func (s *CopyStream) appendCSV(dst, value []byte, quoted bool) []byte {
	f := &s.form
	if !quoted {
		quoted = string(value) == f.Null || len(s.columns) == 1 && string(value) == `\.` || bytes.IndexByte(value, f.Delimiter) >= 0 ||
			bytes.IndexByte(value, f.Quote) >= 0 || bytes.ContainsAny(value, "\r\n")
	}
	if !quoted {
		return append(dst, value...)
	}
	dst = append(dst, f.Quote)
	for _, c := range value {
		if c == f.Quote || c == f.Escape {
			dst = append(dst, f.Escape)
		}
		dst = append(dst, c)
	}
	return append(dst, f.Quote)
}
