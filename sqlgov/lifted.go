package sqlgov

import (
	"encoding/binary"

	"interlock/sqlgov/analyze"
)

// lifted returns a text in which what would lift the statement timeout returns to the one that the session was opened
// with instead. Drivers and pg_dump send SET statement_timeout = 0 without a thought; to refuse it would break them, and
// to run it would take the bound away. A text without it is returned as it is.
func lifted(sql string, f *analyze.Facts) string {
	for i := len(f.Statements) - 1; i >= 0; i-- { // from the end, so that the offsets before it hold
		st := &f.Statements[i]
		if text := sql[st.Start:st.End]; liftedOne(text, st) != text {
			sql = sql[:st.Start] + liftedOne(text, st) + sql[st.End:]
		}
	}
	return sql
}

// liftedOne is lifted for the text of one statement.
func liftedOne(text string, st *analyze.Statement) string {
	switch {
	case st.Kind != analyze.Set || len(st.Settings) != 1 || !lifts(&st.Settings[0]):
		return text
	case st.Settings[0].Local:
		return "SET LOCAL statement_timeout TO DEFAULT"
	}
	return "SET statement_timeout TO DEFAULT"
}

func lifts(s *analyze.Setting) bool {
	if s.Name != "statement_timeout" || s.Default {
		return false
	}
	value, err := parseTimeout(s.Value)
	return err == nil && value.Milliseconds() == 0
}

// withText is a Query or Parse message with another text in the place of the one at an offset.
func withText(frame []byte, offset int, old, text string) []byte {
	if old == text {
		return frame
	}
	b := make([]byte, 0, len(frame)-len(old)+len(text))
	b = append(append(append(b, frame[:offset]...), text...), frame[offset+len(old):]...)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	return b
}
