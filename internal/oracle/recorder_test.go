package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/oracle"
	"interlock/internal/pgtest"
	"interlock/internal/upstream"
	"interlock/sqlgov/analyze"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	pg_query "github.com/pganalyze/pg_query_go/v5"
)

// recorder relays between psql and the server, and has statements judged on the way.
type recorder struct {
	listener net.Listener
	server   string
	scanner  *pgx.Conn
	file     string

	mu      sync.Mutex
	stale   bool // something ran since the scan that may have changed the catalog
	index   *catalog.Index
	lexicon *oracle.Lexicon
	err     error

	kinds       map[string]int // of statements that are not judged
	agreed      int
	invalid     int
	refused     map[string]int
	example     map[string]string
	elsewhere   int // statements on relations or functions that no scan can see: temporary or not committed
	unheard     int // the session has turned notices off
	wrong       []string
	under, over int
}

func newRecorder(t *testing.T, dsn string) *recorder {
	t.Helper()
	r := &recorder{server: net.JoinHostPort(pgtest.Start(t).Host(), strconv.Itoa(pgtest.Start(t).Port())),
		kinds: map[string]int{}, refused: map[string]int{}, example: map[string]string{}}
	var err error
	if r.scanner, err = pgx.Connect(context.Background(), dsn); err != nil {
		t.Fatal(err)
	}
	if r.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := r.scan(); err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := r.listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { r.serve(client) })
		}
	})
	t.Cleanup(func() {
		r.listener.Close()
		open.Wait()
		r.scanner.Close(context.Background())
	})
	return r
}

func (r *recorder) port() string {
	_, port, _ := net.SplitHostPort(r.listener.Addr().String())
	return port
}

func (r *recorder) scan() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	snapshot, err := upstream.Scan(ctx, r.scanner, "regression")
	if err != nil {
		return err
	}
	r.index = catalog.NewIndex(snapshot)
	r.lexicon = oracle.NewLexicon(r.index)
	r.stale = false
	return nil
}

func (r *recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// serve relays one session.
func (r *recorder) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		r.fail(err)
		return
	}
	defer server.Close()
	p := &play{recorder: r, client: pgproto3.NewBackend(client, client), server: pgproto3.NewFrontend(server, server)}
	if err := p.run(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
		r.fail(err)
	}
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}

// play is one session.
type play struct {
	recorder *recorder
	client   *pgproto3.Backend
	server   *pgproto3.Frontend
	status   byte
}

func (p *play) run() error {
	start, err := p.client.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	p.server.Send(start)
	if err := p.server.Flush(); err != nil {
		return err
	}
	if err := p.relay(); err != nil {
		return err
	}
	for {
		msg, err := p.client.Receive()
		if err != nil {
			return err
		}
		if q, ok := msg.(*pgproto3.Query); ok {
			if err := p.judge(q.String); err != nil {
				return err
			}
		}
		p.server.Send(msg)
		if err := p.server.Flush(); err != nil {
			return err
		}
		switch msg.(type) {
		case *pgproto3.Terminate:
			return nil
		case *pgproto3.Query, *pgproto3.Sync, *pgproto3.FunctionCall:
			if err := p.relay(); err != nil {
				return err
			}
		}
	}
}

// relay passes on what the server says until it is ready. It takes what psql copies in.
func (p *play) relay() error {
	for {
		msg, err := p.server.Receive()
		if err != nil {
			return err
		}
		p.client.Send(msg)
		switch m := msg.(type) {
		case *pgproto3.ReadyForQuery:
			p.status = m.TxStatus
			return p.client.Flush()
		case *pgproto3.CopyInResponse:
			if err := errors.Join(p.client.Flush(), p.copyIn()); err != nil {
				return err
			}
		}
	}
}

func (p *play) copyIn() error {
	for {
		msg, err := p.client.Receive()
		if err != nil {
			return err
		}
		p.server.Send(msg)
		switch msg.(type) {
		case *pgproto3.CopyDone, *pgproto3.CopyFail:
			return p.server.Flush()
		}
	}
}

// answer is what the server said to something of ours.
type answer struct {
	failed            *pgproto3.ErrorResponse
	parsed, rewritten string
	rows              [][]string
	fields            []oracle.Field
}

// ask sends messages and collects what comes until the server is ready.
func (p *play) ask(messages ...pgproto3.FrontendMessage) (*answer, error) {
	for _, m := range messages {
		p.server.Send(m)
	}
	if err := p.server.Flush(); err != nil {
		return nil, err
	}
	a := &answer{}
	for {
		msg, err := p.server.Receive()
		if err != nil {
			return nil, err
		}
		switch m := msg.(type) {
		case *pgproto3.NoticeResponse:
			switch m.Message {
			case oracle.ParsedMessage:
				a.parsed = m.Detail
			case oracle.RewrittenMessage:
				a.rewritten = m.Detail
			}
		case *pgproto3.ErrorResponse:
			failure := *m
			a.failed = &failure
		case *pgproto3.DataRow:
			row := make([]string, len(m.Values))
			for i, v := range m.Values {
				row[i] = string(v)
			}
			a.rows = append(a.rows, row)
		case *pgproto3.RowDescription:
			for _, f := range m.Fields {
				a.fields = append(a.fields, oracle.Field{Name: string(f.Name), Relation: catalog.OID(f.TableOID), Num: int16(f.TableAttributeNumber), Type: catalog.OID(f.DataTypeOID)})
			}
		case *pgproto3.ReadyForQuery:
			p.status = m.TxStatus
			return a, nil
		}
	}
}

func (p *play) say(sql string) (*answer, error) { return p.ask(&pgproto3.Query{String: sql}) }

// kind says what a text is, if it is one statement.
func kind(sql string) string {
	tree, err := pg_query.Parse(sql)
	switch {
	case err != nil:
		return "not parsed"
	case len(tree.Stmts) != 1:
		return "not one statement"
	}
	name := fmt.Sprintf("%T", tree.Stmts[0].Stmt.Node)
	return strings.TrimPrefix(name, "*pg_query.Node_")
}

// judge has a statement judged before it runs. The session is left as it was.
func (p *play) judge(sql string) error {
	r := p.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if inner := (&question{sql: sql}).inside(); inner != "" && kind(sql) == "ExplainStmt" {
		sql = inner
	}
	switch k := kind(sql); {
	case p.status == 'E':
		r.kinds["in a failed transaction"]++
		return nil
	case k == "VariableSetStmt" || k == "ExplainStmt" || k == "PrepareStmt":
		r.kinds[k]++
		return nil
	case k != "SelectStmt" && k != "InsertStmt" && k != "UpdateStmt" && k != "DeleteStmt" && k != "MergeStmt":
		r.kinds[k]++
		r.stale = true
		return nil
	}
	inside := p.status == 'T'
	if inside {
		if _, err := p.say("savepoint oracle_question"); err != nil {
			return err
		}
	}
	heard, path, err := p.hear(sql)
	if err != nil {
		return err
	}
	if inside {
		if _, err := p.say("rollback to oracle_question; release oracle_question"); err != nil {
			return err
		}
	}
	return r.compare(sql, heard, path)
}

// hear asks for the search_path, then for the analysis of a statement with notices turned on for as long.
func (p *play) hear(sql string) (*answer, []string, error) {
	path, err := p.say("select unnest(current_schemas(true)), current_setting('client_min_messages')")
	if err != nil || len(path.rows) == 0 {
		return &answer{}, nil, err
	}
	var schemas []string
	for _, row := range path.rows {
		if !strings.HasPrefix(row[0], "pg_temp_") && !(row[0] == "pg_catalog" && len(schemas) == 0) {
			schemas = append(schemas, row[0])
		}
	}
	if _, err := p.say(oracle.Talkative); err != nil {
		return nil, nil, err
	}
	heard, err := p.ask(&pgproto3.Parse{Query: sql}, &pgproto3.Describe{ObjectType: 'S'}, &pgproto3.Sync{})
	if err != nil {
		return nil, nil, err
	}
	if p.status != 'E' {
		_, err = p.say(fmt.Sprintf("reset debug_print_parse; reset debug_print_rewritten; reset debug_pretty_print; set client_min_messages = '%s'", path.rows[0][1]))
	}
	return heard, schemas, err
}

func (r *recorder) compare(sql string, heard *answer, path []string) error {
	switch {
	case heard.failed != nil:
		r.invalid++
		return nil
	case heard.parsed == "":
		r.unheard++
		return nil
	}
	verdict, err := r.once(sql, heard, path)
	if err == nil && verdict != "" && r.stale {
		if err = r.scan(); err == nil {
			verdict, err = r.once(sql, heard, path)
		}
	}
	if err != nil {
		return err
	}
	switch what, rest, _ := strings.Cut(verdict, ": "); what {
	case "":
		r.agreed++
	case "elsewhere":
		r.elsewhere++
	case "refused":
		if r.refused[rest]++; r.refused[rest] == 1 {
			r.example[rest] = r.file + ": " + sql
		}
	default:
		if what == "not reported" {
			r.under++
		} else {
			r.over++
		}
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %s\n\t%s", r.file, sql, verdict))
	}
	return nil
}

var rowSecurity = regexp.MustCompile(`:hasRowSecurity\s+true`)

// once compares by the catalog as last scanned. It returns "" for agreement.
func (r *recorder) once(sql string, heard *answer, path []string) (string, error) {
	needs, err := r.lexicon.Read(heard.parsed, heard.rewritten)
	if err != nil {
		return "", err
	}
	needs.Fields = heard.fields
	for _, d := range needs.Demands {
		if r.index.Relation(d.Relation) == nil {
			return "elsewhere", nil
		}
	}
	for _, oid := range needs.Functions {
		if f := r.index.Function(oid); f == nil || r.index.Type(f.Result) == nil {
			return "elsewhere", nil
		}
	}
	facts, refusal := analyze.Analyze(sql, analyze.Env{Catalog: r.index, SearchPath: path})
	if refusal != nil {
		return "refused: " + reason(refusal), nil
	}
	all, err := r.differences(&facts.Statements[0], needs, heard)
	if err != nil {
		return "", err
	}
	if len(all) > 0 {
		slices.SortFunc(all, func(a, b disagreement) int { return strings.Compare(a.String(), b.String()) })
		return fmt.Sprint(all)[1:], nil
	}
	return "", nil
}

// differences holds a report against what the server demands. What row security policies read depends on who asks, and is
// in no statement: under them, only what the text itself demands may not be missing.
func (r *recorder) differences(st *analyze.Statement, needs *oracle.Needs, heard *answer) ([]disagreement, error) {
	j := &judge{index: r.index}
	all := j.disagreements(st, needs, nil)
	if !rowSecurity.MatchString(heard.rewritten) {
		return all, nil
	}
	written, err := r.lexicon.Read(heard.parsed, "")
	if err != nil {
		return nil, err
	}
	written.Fields = heard.fields
	missing := slices.DeleteFunc(j.disagreements(st, written, nil), func(d disagreement) bool { return !d.under })
	return append(missing, slices.DeleteFunc(all, func(d disagreement) bool { return d.under })...), nil
}

func (r *recorder) report(t *testing.T, took time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := 0
	for _, n := range r.refused {
		refused += n
	}
	t.Logf("%v: %d agree, %d not reported, %d in vain, %d refused, %d temporary or uncommitted, %d unheard, %d that the server refuses",
		took.Round(time.Second), r.agreed, r.under, r.over, refused, r.elsewhere, r.unheard, r.invalid)
	for _, k := range slices.Sorted(maps.Keys(r.kinds)) {
		t.Logf("not judged: %5d %s", r.kinds[k], k)
	}
	c := &tally{examples: map[string]string{}}
	for k, v := range r.example {
		c.examples["refused"+k] = v
	}
	c.list(t, "refused", r.refused)
}

// progress reports the differences found since the last time.
func (r *recorder) progress(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%s: so far %d agree, %d differ", r.file, r.agreed, r.under+r.over)
	for _, w := range r.wrong {
		t.Error(w)
	}
	r.wrong = nil
}
