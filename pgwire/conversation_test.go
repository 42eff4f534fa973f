package pgwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/tools/txtar"
)

// The files testdata/*.txt are conversations with PostgreSQL after the start-up, in the order in which they are held:
//
//	F Query "select 1"      the client sends; lines that follow each other go out in one piece
//	B ReadyForQuery I       the server answers exactly this
//	B ...                   and for a while nothing more
//	B EOF                   and hangs up
//
// setup.sql of a file runs before its first conversation. The answers were written by PostgreSQL:
// go test ./pgwire -run Conversations -update
var update = flag.Bool("update", false, "write PostgreSQL's answers into testdata/*.txt")

const silenceTime = 300 * time.Millisecond

func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	files = append(files, "testdata/raw/anything.txt")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Run("direct", func(t *testing.T) { converse(t, archive, pgtest.Start(t).Database(t, Setup(archive))) })
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Run("door", func(t *testing.T) {
				d := startDoor(t, pgtest.Start(t).Database(t, Setup(archive)))
				converse(t, archive, d.dsn("sslmode=disable"))
			})
		})
	}
}

// Setup is the SQL that an archive's conversations need.
func Setup(archive *txtar.Archive) string {
	for _, f := range archive.Files {
		if f.Name == "setup.sql" {
			return string(f.Data)
		}
	}
	return "select 1"
}

// converse holds every conversation of an archive, each on a connection of its own.
func converse(t *testing.T, archive *txtar.Archive, dsn string) {
	for i, f := range archive.Files {
		if f.Name == "setup.sql" {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			got := Converse(t, dsn, string(f.Data))
			if *update {
				archive.Files[i].Data = []byte(got)
			} else if got != string(f.Data) {
				t.Errorf("got:\n%s\nwant:\n%s", got, f.Data)
			}
		})
	}
}

// Converse sends the F lines of a conversation and returns it with the B lines that were said.
func Converse(t *testing.T, dsn, script string) string {
	t.Helper()
	conn := rawSession(t, dsn).Conn
	talk := &talk{conn: conn, in: newReader(conn)}
	defer talk.conn.Close()
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "F":
			talk.listenIf(len(talk.expected) > 0)
			talk.say(t, line, rest)
		case "B":
			talk.expected = append(talk.expected, rest)
		default:
			talk.listenIf(len(talk.expected) > 0)
			talk.text.WriteString(line + "\n")
		}
	}
	talk.listenIf(len(talk.expected) > 0 || *update)
	return talk.text.String()
}

// talk is one side of a conversation.
type talk struct {
	conn     net.Conn
	in       *reader
	pending  []byte   // to send in one piece
	expected []string // B lines since the last F
	text     bytes.Buffer
}

func (k *talk) say(t *testing.T, line, request string) {
	t.Helper()
	b, err := encodeRequest(request)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	k.pending = append(k.pending, b...)
	k.text.WriteString(line + "\n")
}

// listenIf sends what is pending and reads as many answers as the conversation has, or in an update as there are.
func (k *talk) listenIf(due bool) {
	if !due {
		return
	}
	if _, err := k.conn.Write(k.pending); err != nil {
		fmt.Fprintf(&k.text, "cannot send: %v\n", err)
	}
	expected := k.expected
	k.pending, k.expected = nil, nil
	for n := 0; *update || n < len(expected); n++ {
		said := k.hear(*update && n > 0 || n < len(expected) && expected[n] == "...")
		if said == "..." && *update && n > 0 {
			return
		}
		fmt.Fprintf(&k.text, "B %s\n", said)
		if said == "EOF" || said == "..." {
			return
		}
	}
}

// hear reads one message, and waits for it long unless silence is expected.
func (k *talk) hear(silence bool) string {
	patience := time.Minute
	if *update {
		patience = 5 * time.Second
	}
	if silence {
		patience = silenceTime
	}
	k.conn.SetReadDeadline(time.Now().Add(patience))
	kind, err := k.in.kind()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "..."
	case err != nil:
		return "EOF"
	}
	k.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	return k.read(kind)
}

func (k *talk) read(kind byte) string {
	n, err := k.in.length()
	if err != nil {
		return err.Error()
	}
	frame, err := k.in.take(n)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "half a message"
	}
	return transcribe(kind, frame[frameHeader:])
}

// encodeRequest makes a frontend message of its line.
func encodeRequest(line string) ([]byte, error) {
	words, err := splitWords(line)
	if err != nil {
		return nil, err
	}
	name, args := words[0], words[1:]
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	number := func(i int) uint32 {
		n, convErr := strconv.ParseUint(arg(i), 0, 32)
		err = errors.Join(err, convErr)
		return uint32(n)
	}
	var m pgproto3.FrontendMessage
	switch name {
	case "Query":
		m = &pgproto3.Query{String: arg(0)}
	case "Parse":
		p := &pgproto3.Parse{Name: arg(0), Query: arg(1)}
		for i := 2; i < len(args); i++ {
			p.ParameterOIDs = append(p.ParameterOIDs, number(i))
		}
		m = p
	case "Bind":
		m = bindMessage(args)
	case "Describe":
		m = &pgproto3.Describe{ObjectType: arg(0)[0], Name: arg(1)}
	case "Close":
		m = &pgproto3.Close{ObjectType: arg(0)[0], Name: arg(1)}
	case "Execute":
		m = &pgproto3.Execute{Portal: arg(0), MaxRows: number(1)}
	case "Sync":
		m = &pgproto3.Sync{}
	case "Flush":
		m = &pgproto3.Flush{}
	case "Terminate":
		m = &pgproto3.Terminate{}
	case "FunctionCall":
		m = callMessage(number(0), args[1:])
	case "CopyData":
		m = &pgproto3.CopyData{Data: []byte(arg(0))}
	case "CopyDone":
		m = &pgproto3.CopyDone{}
	case "CopyFail":
		m = &pgproto3.CopyFail{Message: arg(0)}
	case "Raw":
		return []byte(arg(0)), err
	default:
		return nil, fmt.Errorf("no message %q", name)
	}
	if err != nil {
		return nil, err
	}
	return m.Encode(nil)
}

// callMessage reads the arguments of a FunctionCall, in text, and behind a "/" the format of its result, without which that is
// binary. NULL is null.
func callMessage(function uint32, args []string) *pgproto3.FunctionCall {
	values, format, _ := cutSlice(args, "/")
	m := &pgproto3.FunctionCall{Function: function, ResultFormatCode: 1}
	if len(format) > 0 {
		m.ResultFormatCode = uint16(format[0][0] - '0')
	}
	for _, v := range values {
		if v == "NULL" {
			m.Arguments = append(m.Arguments, nil)
		} else {
			m.Arguments = append(m.Arguments, []byte(v))
		}
	}
	return m
}

// bindMessage reads: portal statement value... [/ format...], where NULL is null and the formats are those of the
// result.
func bindMessage(args []string) *pgproto3.Bind {
	b := &pgproto3.Bind{DestinationPortal: args[0], PreparedStatement: args[1]}
	values, formats, _ := cutSlice(args[2:], "/")
	for _, v := range values {
		if v == "NULL" {
			b.Parameters = append(b.Parameters, nil)
		} else {
			b.Parameters = append(b.Parameters, []byte(v))
		}
	}
	for _, f := range formats {
		b.ResultFormatCodes = append(b.ResultFormatCodes, int16(f[0]-'0'))
	}
	return b
}

func cutSlice(list []string, sep string) (before, after []string, found bool) {
	if i := slices.Index(list, sep); i >= 0 {
		return list[:i], list[i+1:], true
	}
	return list, nil, false
}

// splitWords cuts a line into words and Go-quoted strings.
func splitWords(line string) ([]string, error) {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		words, line = append(words, word), line[len(quoted):]
	}
	return words, nil
}

// transcribe writes a backend message as a line. Object identifiers that differ from one database to the next are left
// out.
func transcribe(kind byte, body []byte) string {
	switch kind {
	case '1':
		return "ParseComplete"
	case '2':
		return "BindComplete"
	case '3':
		return "CloseComplete"
	case 'n':
		return "NoData"
	case 's':
		return "PortalSuspended"
	case 'I':
		return "EmptyQueryResponse"
	case 'c':
		return "CopyDone"
	case 'Z':
		return "ReadyForQuery " + string(body)
	case 'C':
		return "CommandComplete " + strconv.Quote(string(bytes.TrimSuffix(body, []byte{0})))
	case 'G', 'H':
		return fmt.Sprintf("%s format %d columns%s", map[byte]string{'G': "CopyInResponse", 'H': "CopyOutResponse"}[kind], body[0], shorts(body[3:]))
	case 'd':
		return "CopyData " + strconv.Quote(string(body))
	case 'S':
		name, value, _ := strings.Cut(string(body), "\x00")
		return fmt.Sprintf("ParameterStatus %s %q", name, strings.TrimSuffix(value, "\x00"))
	case 't':
		return "ParameterDescription" + numbers(body[2:], 4)
	case 'T':
		return "RowDescription" + fieldList(body)
	case 'D':
		return "DataRow" + valueList(body)
	case 'A': // the sender's process is another each time
		return "Notification" + strings.ReplaceAll(fmt.Sprintf(" %q", bytes.TrimSuffix(body[4:], []byte{0})), `\x00`, `" "`)
	case 'V':
		return fmt.Sprintf("FunctionCallResponse %q", body)
	case 'E', 'N':
		return errorLine(kind, body)
	}
	return fmt.Sprintf("%c %q", kind, body)
}

func shorts(b []byte) string {
	var s strings.Builder
	for ; len(b) >= 2; b = b[2:] {
		fmt.Fprintf(&s, " %d", binary.BigEndian.Uint16(b))
	}
	return s.String()
}

func numbers(b []byte, size int) string {
	var s strings.Builder
	for ; len(b) >= size; b = b[size:] {
		fmt.Fprintf(&s, " %d", binary.BigEndian.Uint32(b))
	}
	return s.String()
}

func fieldList(body []byte) string {
	var m pgproto3.RowDescription
	if err := m.Decode(body); err != nil {
		return " " + err.Error()
	}
	var s strings.Builder
	for _, f := range m.Fields {
		fmt.Fprintf(&s, " %s:%d:%d", f.Name, f.DataTypeOID, f.TypeModifier)
		if f.TableOID != 0 {
			fmt.Fprintf(&s, ":column%d", f.TableAttributeNumber)
		}
		if f.Format != 0 {
			s.WriteString(":binary")
		}
	}
	return s.String()
}

func valueList(body []byte) string {
	var m pgproto3.DataRow
	if err := m.Decode(body); err != nil {
		return " " + err.Error()
	}
	var s strings.Builder
	for _, v := range m.Values {
		if v == nil {
			s.WriteString(" NULL")
		} else {
			fmt.Fprintf(&s, " %q", v)
		}
	}
	return s.String()
}

// decision is what only our own refusals say.
var decision = regexp.MustCompile(` ?Decision \S+$`)

func errorLine(kind byte, body []byte) string {
	var m pgproto3.ErrorResponse
	if err := m.Decode(body); err != nil {
		return err.Error()
	}
	m.Hint = decision.ReplaceAllString(m.Hint, "")
	s := fmt.Sprintf("%s %s %q", m.Severity, m.Code, m.Message)
	if m.Severity != m.SeverityUnlocalized {
		s += " V=" + m.SeverityUnlocalized
	}
	for _, f := range []struct{ name, value string }{{"DETAIL", m.Detail}, {"HINT", m.Hint}, {"CONTEXT", m.Where}} {
		if f.value != "" {
			s += fmt.Sprintf(" %s=%q", f.name, f.value)
		}
	}
	if m.Position != 0 {
		s += fmt.Sprintf(" at %d", m.Position)
	}
	return map[byte]string{'E': "Error ", 'N': "Notice "}[kind] + s
}
