package sqlgov_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// stepTimeout bounds one step. Nothing in the cases needs as long.
const stepTimeout = 30 * time.Second

// reply is what came back for one step.
type reply struct {
	state   string // SQLSTATE of the first error; "" if there was none; "closed" if there was no connection any more
	message string
	rows    [][]string
	tags    []string
	other   bool // it was another session's step
	cut     bool // the result is said to be cut
}

const null = "\\N"

// transcript is all that a client heard during a case.
type transcript struct {
	replies []reply
	notes   []string // notices, notifications and parameters, one a line
	heard   []byte   // every byte that arrived
	elapsed time.Duration
	check   [][]string // what the query of the proof returned, if it was run
}

// own are the replies of the governed session.
func (tr *transcript) own() []reply {
	var all []reply
	for _, r := range tr.replies {
		if !r.other {
			all = append(all, r)
		}
	}
	return all
}

// lines is what was heard, in the form that the proofs of the cases are written for.
func (tr *transcript) lines() []string {
	all := append([]string{}, tr.notes...)
	for _, r := range tr.own() {
		for _, row := range r.rows {
			all = append(append(all, "ROW "+strings.Join(row, ",")), row...)
		}
		for _, tag := range r.tags {
			all = append(all, "TAG "+tag)
		}
		if r.message != "" {
			all = append(all, r.message)
		}
	}
	return append(all, string(tr.heard))
}

// door runs the steps of a case in one session, going on after errors as psql does.
type door interface {
	run(ctx context.Context, s step) reply
	close() *transcript
}

// wire is a session of the PostgreSQL protocol, with a server or with a gateway.
type wire struct {
	dsn      string
	extended bool
	binary   bool // results come in binary format
	oid      func(function string) uint32

	conn *pgconn.PgConn
	mu   sync.Mutex // the fields below are written while a message is read, too
	tr   transcript
}

// tee copies what arrives on a connection.
type tee struct {
	net.Conn
	w *wire
}

func (c tee) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.tr.heard = append(c.w.tr.heard, b[:n]...)
	return n, err
}

func (w *wire) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tr.notes = append(w.tr.notes, fmt.Sprintf(format, args...))
}

func (w *wire) connect(ctx context.Context, parameters map[string]string) error {
	config, err := pgconn.ParseConfig(w.dsn)
	if err != nil {
		return err
	}
	for k, v := range parameters {
		config.RuntimeParams[k] = v
	}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return tee{c, w}, err
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		w.note("NOTICE %s | %s | %s | %s", n.Message, n.Detail, n.Hint, n.Where)
	}
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { w.note("NOTIFY %s %s", n.Channel, n.Payload) }
	if w.conn != nil {
		_ = w.conn.Close(ctx)
	}
	w.conn, err = pgconn.ConnectConfig(ctx, config)
	return err
}

func (w *wire) run(ctx context.Context, s step) reply {
	if w.conn == nil || s.Startup != nil {
		if err := w.connect(ctx, s.Startup); err != nil {
			w.conn = nil
			return failed(err)
		}
	}
	if w.conn.IsClosed() {
		return reply{state: "closed"}
	}
	switch {
	case s.Fastpath != "":
		return w.call(ctx, s)
	case s.Pipeline != nil:
		return w.pipeline(ctx, s)
	case w.extended:
		return w.runExtended(ctx, s)
	}
	text := s.inlined()
	switch {
	case s.Prep != "":
		text = "PREPARE " + s.Prep + " AS " + s.Q
	case s.Exec != "":
		text = "EXECUTE " + s.Exec
	case s.Close != "":
		text = "DEALLOCATE " + s.Close
	}
	results, err := w.conn.Exec(ctx, text).ReadAll()
	return replied(err, results...)
}

func (w *wire) runExtended(ctx context.Context, s step) reply {
	var values [][]byte
	for _, p := range s.P {
		values = append(values, []byte(p))
	}
	switch {
	case s.Prep != "":
		_, err := w.conn.Prepare(ctx, s.Prep, s.Q, nil)
		return failed(err)
	case s.Close != "":
		return failed(w.conn.Deallocate(ctx, s.Close))
	case s.Exec != "":
		r := w.conn.ExecPrepared(ctx, s.Exec, values, nil, nil).Read()
		return replied(r.Err, r)
	}
	var formats []int16
	if w.binary {
		formats = []int16{1}
	}
	r := w.conn.ExecParams(ctx, s.Q, values, nil, nil, formats).Read()
	return replied(r.Err, r)
}

func (w *wire) pipeline(ctx context.Context, s step) reply {
	p := w.conn.StartPipeline(ctx)
	for _, q := range s.Pipeline {
		p.SendQueryParams(q, nil, nil, nil, nil)
	}
	_ = p.Sync() // what it says, GetResults says too
	all := reply{}
	for {
		results, err := p.GetResults()
		if r, ok := results.(*pgconn.ResultReader); ok {
			res := r.Read()
			one := replied(res.Err, res)
			all.rows, all.tags = append(all.rows, one.rows...), append(all.tags, one.tags...)
			err = res.Err
		}
		if err != nil && all.state == "" {
			r := failed(err)
			all.state, all.message = r.state, r.message
		}
		if _, ended := results.(*pgconn.PipelineSync); ended || results == nil {
			_ = p.Close()
			return all
		}
	}
}

// call sends a FunctionCall message with arguments in text format and reads up to ReadyForQuery.
func (w *wire) call(ctx context.Context, s step) reply {
	raw, err := w.conn.Hijack()
	if err != nil {
		return failed(err)
	}
	_, _ = raw.Conn.Write(functionCall(w.oid(s.Fastpath), s.Args)) // a failure shows in reading
	r := reply{}
	for head := make([]byte, 5); ; {
		if _, err := io.ReadFull(raw.Conn, head); err != nil {
			return reply{state: "closed"}
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(raw.Conn, body); err != nil {
			return reply{state: "closed"}
		}
		switch head[0] {
		case 'E':
			r.message = string(body)
			if i := bytes.Index(body, []byte("\x00C")); i >= 0 {
				r.state = string(body[i+2 : i+7])
			}
		case 'V':
			r.rows = append(r.rows, []string{string(body[4:])})
		case 'Z':
			raw.Conn.(tee).w.mu.Lock()
			defer raw.Conn.(tee).w.mu.Unlock()
			w.conn, err = pgconn.Construct(raw)
			if err != nil {
				return reply{state: "closed"}
			}
			return r
		}
	}
}

func functionCall(oid uint32, args []string) []byte {
	b := binary.BigEndian.AppendUint32(nil, oid)
	b = binary.BigEndian.AppendUint16(b, 0) // all arguments are text
	b = binary.BigEndian.AppendUint16(b, uint16(len(args)))
	for _, a := range args {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(a))), a...)
	}
	b = binary.BigEndian.AppendUint16(b, 0)
	return append(binary.BigEndian.AppendUint32([]byte{'F'}, uint32(len(b)+4)), b...)
}

func replied(err error, results ...*pgconn.Result) reply {
	r := failed(err)
	for _, res := range results {
		if res == nil {
			continue
		}
		for _, row := range res.Rows {
			r.rows = append(r.rows, texts(row))
		}
		if tag := res.CommandTag.String(); tag != "" {
			r.tags = append(r.tags, tag)
		}
	}
	return r
}

func texts(row [][]byte) []string {
	all := make([]string, len(row))
	for i, v := range row {
		if all[i] = string(v); v == nil {
			all[i] = null
		}
	}
	return all
}

func failed(err error) reply {
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return reply{}
	case errors.As(err, &pe):
		return reply{state: pe.Code, message: strings.Join([]string{pe.Message, pe.Detail, pe.Hint, pe.Where, pe.InternalQuery,
			pe.SchemaName, pe.TableName, pe.ColumnName, pe.ConstraintName, pe.DataTypeName}, " | ")}
	default:
		return reply{state: "closed", message: err.Error()}
	}
}

func (w *wire) close() *transcript {
	if w.conn != nil {
		w.note("PARAM application_name=%s", w.conn.ParameterStatus("application_name"))
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		_ = w.conn.Close(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	tr := w.tr // who reads in the background may still hear something
	tr.notes = slices.Clip(tr.notes)
	return &tr
}

// tool is a client of interlock_query: every step is a call, and there is no session.
type tool struct {
	url, key string
	prepared map[string]string
	tr       transcript
}

func (c *tool) run(ctx context.Context, s step) reply {
	text := s.inlined()
	switch {
	case s.Prep != "":
		if c.prepared == nil {
			c.prepared = map[string]string{}
		}
		c.prepared[s.Prep] = s.Q
		return reply{}
	case s.Exec != "":
		s.Q = c.prepared[s.Exec]
		text = s.inlined()
	case s.Close != "":
		return reply{}
	case s.Pipeline != nil:
		all := reply{}
		for _, q := range s.Pipeline {
			one := c.call(ctx, q)
			all.rows = append(all.rows, one.rows...)
			if all.state == "" {
				all.state, all.message = one.state, one.message
			}
		}
		return all
	}
	return c.call(ctx, text)
}

func (c *tool) call(ctx context.Context, sql string) reply {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"interlock_query","arguments":{"source_id":"gov","sql":` + quoted(sql) + `}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return failed(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization": "Bearer " + c.key, "MCP-Protocol-Version": "2025-06-18"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return failed(err)
	}
	c.tr.heard = append(append(c.tr.heard, answer...), '\n')
	return decodeCall(answer)
}

// quoted is a JSON string with the bytes of s, valid UTF-8 or not.
func quoted(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// decodeCall reads the answer of interlock_query.
func decodeCall(answer []byte) reply {
	var m struct {
		Error *struct {
			Data struct{ SQLState string }
		}
		Result struct {
			IsError           bool
			Content           []struct{ Text string }
			StructuredContent struct {
				SQLState string
				Rows     []json.RawMessage
				Columns  []struct{ Name string }
				Command  string

				Truncated bool
			}
		}
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return reply{state: "closed", message: err.Error()}
	}
	said := m.Result.StructuredContent
	r := reply{cut: said.Truncated}
	switch {
	case m.Error != nil:
		return reply{state: cmp.Or(m.Error.Data.SQLState, "unexplained"), message: string(answer)}
	case m.Result.IsError:
		return reply{state: cmp.Or(said.SQLState, "unexplained"), message: string(answer)}
	}
	if said.Command != "" {
		r.tags = []string{said.Command}
	}
	for _, row := range said.Rows {
		r.rows = append(r.rows, members(row))
	}
	return r
}

// members returns the values of a JSON object in order, as PostgreSQL prints them.
func members(object []byte) []string {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token()
	all := []string{}
	for dec.More() {
		_, _ = dec.Token()
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return append(all, err.Error())
		}
		all = append(all, printed(v))
	}
	return all
}

func printed(v json.RawMessage) string {
	var s string
	switch {
	case string(v) == "null":
		return null
	case string(v) == "true" || string(v) == "false":
		return string(v[:1])
	case v[0] == '"' && json.Unmarshal(v, &s) == nil:
		return s
	case v[0] == '{' || v[0] == '[':
		return string(v)
	}
	if _, err := strconv.ParseFloat(string(v), 64); err != nil {
		return err.Error()
	}
	return string(v)
}

func (c *tool) close() *transcript { return &c.tr }
