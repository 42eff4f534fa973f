package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// newPool returns a Pool whose secrets are files and literal texts, and that is closed when t ends.
func newPool(t *testing.T, cfg Config) *Pool {
	t.Helper()
	cfg.Secret = func(ref string) (string, error) {
		if name, ok := strings.CutPrefix(ref, "file:"); ok {
			b, err := os.ReadFile(name)
			return string(b), err
		}
		return ref, nil
	}
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// sourceOf describes the database of a DSN as a source.
func sourceOf(t *testing.T, dsn string) *policy.SourceSpec {
	t.Helper()
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return &policy.SourceSpec{ID: "shop", Kind: "postgres", Upstream: policy.UpstreamSpec{
		Host: cfg.Host, Port: int(cfg.Port), Database: cfg.Database, User: cfg.User, TLS: "disable"}}
}

func open(t *testing.T, p *Pool, src *policy.SourceSpec, opt sqlgov.OpenOptions) sqlgov.Wire {
	t.Helper()
	w, err := p.Open(t.Context(), src, opt)
	if err != nil {
		t.Fatalf("opening: %v: %v", err, errors.Unwrap(err))
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func encode(t *testing.T, messages ...pgproto3.FrontendMessage) []byte {
	t.Helper()
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func send(t *testing.T, w sqlgov.Wire, messages ...pgproto3.FrontendMessage) {
	t.Helper()
	if err := w.Send(encode(t, messages...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// replies receives up to and including the nth ReadyForQuery and returns all frames and the last status.
func replies(t *testing.T, w sqlgov.Wire, n int) (frames []byte, status byte) {
	t.Helper()
	for n > 0 {
		reply, err := w.Receive()
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, reply.Frame...)
		if reply.Kind == sqlgov.ReadyForQuery {
			n--
			status = reply.TxStatus
		}
	}
	return frames, status
}

func kinds(frames []byte) string {
	var b strings.Builder
	for len(frames) > 0 {
		b.WriteByte(frames[0])
		frames = frames[1+int(uint32(frames[1])<<24|uint32(frames[2])<<16|uint32(frames[3])<<8|uint32(frames[4])):]
	}
	return b.String()
}

// TestRelaySameBytes holds what comes through a Wire against what a plain connection gets.
func TestRelaySameBytes(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, `create table t (id int primary key, note text, n numeric); insert into t select g, 'row ' || g, g / 3.0 from generate_series(1, 2000) g`)
	p := newPool(t, Config{})
	binary := []int16{1}
	conversations := map[string][]pgproto3.FrontendMessage{
		"simple":             {&pgproto3.Query{String: "select * from t"}},
		"several statements": {&pgproto3.Query{String: "select 1 as a; select null::text, 'x'; update t set note = 'y' where id < 10"}},
		"empty":              {&pgproto3.Query{String: " -- nothing"}},
		"error":              {&pgproto3.Query{String: "begin; select 1/0 from t where id = 1; select 2"}},
		"notice":             {&pgproto3.Query{String: "do $$begin raise notice 'hello'; end$$"}},
		"parameter status":   {&pgproto3.Query{String: "set datestyle = 'german'"}},
		"extended": {&pgproto3.Parse{Name: "s", Query: "select id, note, n from t where id <= $1"}, &pgproto3.Describe{ObjectType: 'S', Name: "s"},
			&pgproto3.Bind{DestinationPortal: "p", PreparedStatement: "s", Parameters: [][]byte{[]byte("50")}, ResultFormatCodes: binary},
			&pgproto3.Describe{ObjectType: 'P', Name: "p"}, &pgproto3.Execute{Portal: "p", MaxRows: 7}, &pgproto3.Execute{Portal: "p"},
			&pgproto3.Close{ObjectType: 'S', Name: "s"}, &pgproto3.Sync{}},
		"extended error": {&pgproto3.Parse{Query: "select nothing"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}, &pgproto3.Parse{Query: "select 1"}, &pgproto3.Sync{}},
		"no rows":        {&pgproto3.Parse{Query: "insert into t values (0)"}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{}, &pgproto3.Query{String: "delete from t where id = 0"}},
	}
	for name, messages := range conversations {
		t.Run(name, func(t *testing.T) {
			n := 0
			for _, m := range messages {
				switch m.(type) {
				case *pgproto3.Query, *pgproto3.Sync:
					n++
				}
			}
			w := open(t, p, sourceOf(t, dsn), sqlgov.OpenOptions{})
			send(t, w, messages...)
			got, _ := replies(t, w, n)
			want := plainReplies(t, dsn, encode(t, messages...), n)
			if !bytes.Equal(got, want) {
				t.Errorf("got %d bytes %.200q, want %d bytes %.200q", len(got), got, len(want), want)
			}
		})
	}
}

// plainReplies sends bytes to the server with nothing of ours between, and returns what it answers.
func plainReplies(t *testing.T, dsn string, messages []byte, n int) []byte {
	t.Helper()
	pc, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	h, err := pc.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Conn.Close()
	if _, err := h.Conn.Write(messages); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for n > 0 {
		var header [5]byte
		if _, err := io.ReadFull(h.Conn, header[:]); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, int(header[3])<<8+int(header[4])-4+int(header[2])<<16)
		if _, err := io.ReadFull(h.Conn, body); err != nil {
			t.Fatal(err)
		}
		all = append(append(all, header[:]...), body...)
		if header[0] == 'Z' {
			n--
		}
	}
	return all
}

func TestWireDecodes(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, `create table t (id int primary key, note varchar(10))`)
	w := open(t, newPool(t, Config{}), sourceOf(t, dsn), sqlgov.OpenOptions{})
	send(t, w, &pgproto3.Parse{Query: "insert into t values (1, 'a') returning note, id + 1 as next"}, &pgproto3.Bind{ResultFormatCodes: []int16{0, 1}},
		&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{}, &pgproto3.Query{String: "insert into t values (1)"})
	var fields []sqlgov.Field
	var tags []string
	var failure *sqlgov.UpstreamError
	for ready := 0; ready < 2; {
		reply, err := w.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch reply.Kind {
		case sqlgov.RowDescription:
			fields = append(fields, reply.Fields...)
		case sqlgov.CommandComplete:
			tags = append(tags, reply.Tag)
		case sqlgov.ErrorResponse:
			failure = reply.Error
		case sqlgov.ReadyForQuery:
			ready++
		}
	}
	if len(fields) != 2 || fields[0].Name != "note" || fields[0].Relation == 0 || fields[0].Num != 2 || fields[0].Type != 1043 ||
		fields[0].TypeMod != 14 || fields[0].Binary || fields[1] != (sqlgov.Field{Name: "next", Type: 23, TypeMod: -1, Binary: true}) {
		t.Errorf("fields %+v", fields)
	}
	if len(tags) != 1 || tags[0] != "INSERT 0 1" {
		t.Errorf("tags %q", tags)
	}
	want := sqlgov.UpstreamError{Severity: "ERROR", SQLState: "23505", Message: `duplicate key value violates unique constraint "t_pkey"`,
		Detail: "Key (id)=(1) already exists.", Schema: "public", Table: "t", Constraint: "t_pkey"}
	if failure == nil || *failure != want {
		t.Errorf("error %+v", failure)
	}
}

func TestParametersAndPins(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, dsn), sqlgov.OpenOptions{
		Parameters: map[string]string{"TimeZone": "Asia/Tokyo", "search_path": "evil", "standard_conforming_strings": "off"},
		Pinned:     map[string]string{"search_path": "public", "standard_conforming_strings": "on", "client_encoding": "UTF8"},
		ReadOnly:   true,
	})
	got := map[string]string{}
	var names []string
	for _, p := range w.Parameters() {
		got[p.Name] = p.Value
		names = append(names, p.Name)
	}
	for name, want := range map[string]string{"TimeZone": "Asia/Tokyo", "standard_conforming_strings": "on",
		"client_encoding": "UTF8", "application_name": "interlock", "default_transaction_read_only": "on"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	// PostgreSQL reports them in the order of their names, whatever the case.
	if !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		t.Errorf("order %v is not the server's", names)
	}
	send(t, w, &pgproto3.Query{String: "select current_setting('search_path')"}, &pgproto3.Query{String: "create table t ()"})
	frames, _ := replies(t, w, 2)
	if !bytes.Contains(frames, []byte("public")) || !bytes.Contains(frames, []byte("25006")) {
		t.Errorf("%q", frames)
	}
}

func TestForbiddenParameters(t *testing.T) {
	p := newPool(t, Config{})
	for _, name := range []string{"user", "database", "replication", "options", "Options", "_pq_.x", ""} {
		_, err := p.Open(t.Context(), sourceOf(t, pgtest.Start(t).DSN("postgres")), sqlgov.OpenOptions{Parameters: map[string]string{name: "x"}})
		if reasonOf(err) != sqlgov.OpenRejected {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func reasonOf(err error) sqlgov.OpenReason {
	var e *sqlgov.OpenError
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func TestSendRejected(t *testing.T) {
	srv := pgtest.Start(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, srv.Database(t)), sqlgov.OpenOptions{})
	send(t, w, &pgproto3.Query{String: "begin"})
	replies(t, w, 1)
	if err := w.SendRejected(sqlgov.RejectedQuery); err != nil {
		t.Fatal(err)
	}
	send(t, w)
	frames, status := replies(t, w, 1)
	if kinds(frames) != "EZ" || status != 'E' || !bytes.Contains(frames, []byte("C42601")) {
		t.Errorf("simple: %q", frames)
	}
	send(t, w, &pgproto3.Query{String: "rollback"}, &pgproto3.Query{String: "begin"})
	replies(t, w, 2)
	if err := w.SendRejected(sqlgov.RejectedOther); err != nil {
		t.Fatal(err)
	}
	send(t, w, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{})
	frames, status = replies(t, w, 1)
	if kinds(frames) != "EZ" || status != 'E' || !bytes.Contains(frames, []byte("C42601")) {
		t.Errorf("extended: %q", frames)
	}
	if !strings.Contains(srv.Log(), refusedText) {
		t.Error("the server's log does not say what was refused")
	}
}

// TestLargeRow checks that a row of 48 MiB passes and that its memory is let go afterwards.
func TestLargeRow(t *testing.T) {
	srv := pgtest.Start(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, srv.Database(t)), sqlgov.OpenOptions{})
	send(t, w, &pgproto3.Query{String: "select repeat('0123456789abcdef', 3145728)"})
	frames, _ := replies(t, w, 1)
	if kinds(frames) != "TDCZ" || len(frames) < 48<<20 || bytes.Count(frames, []byte("0123456789abcdef")) != 3145728 {
		t.Errorf("%d bytes of %s", len(frames), kinds(frames))
	}
	send(t, w, &pgproto3.Query{String: "select 1"})
	replies(t, w, 1)
	if n := len(w.(*wire).conn.in.buf); n > readBuffer {
		t.Errorf("%d bytes are still held", n)
	}
}

func TestCancel(t *testing.T) {
	srv := pgtest.Start(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, srv.Database(t)), sqlgov.OpenOptions{})
	if err := w.Cancel(t.Context()); err != nil {
		t.Errorf("cancelling an idle session: %v", err)
	}
	send(t, w, &pgproto3.Query{String: "select pg_sleep(60)"})
	time.Sleep(50 * time.Millisecond)
	begun := time.Now()
	if err := w.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	send(t, w, &pgproto3.Query{String: "select 'unharmed'"})
	frames, _ := replies(t, w, 2)
	if !bytes.Contains(frames, []byte("C57014")) || !bytes.Contains(frames, []byte("unharmed")) || time.Since(begun) > time.Second {
		t.Errorf("after %s: %q", time.Since(begun), frames)
	}
}

// TestCloseStopsStatement closes a session in the middle of a statement: nothing may run on.
func TestCloseStopsStatement(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, dsn), sqlgov.OpenOptions{})
	send(t, w, &pgproto3.Parse{Query: "select pg_sleep(60)"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Flush{})
	received := make(chan error, 1)
	go func() {
		for {
			if _, err := w.Receive(); err != nil {
				received <- err
				return
			}
		}
	}()
	eventually(t, func() bool { return sessions(t, dsn, "state = 'active'") == 1 })
	begun := time.Now()
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })
	if err := <-received; !errors.Is(err, sqlgov.ErrConnectionLost) {
		t.Errorf("Receive: %v", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("took %s", took)
	}
}

// TestServerKilled terminates the server process in the middle of a result: its FATAL arrives, then the end.
func TestServerKilled(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, dsn), sqlgov.OpenOptions{})
	send(t, w, &pgproto3.Query{String: "select repeat('x', 1000), case when g = 5000 then pg_terminate_backend(pg_backend_pid()) end from generate_series(1, 10000) g"})
	var last *sqlgov.UpstreamError
	for {
		reply, err := w.Receive()
		if err != nil {
			if !errors.Is(err, io.EOF) || !errors.Is(err, sqlgov.ErrConnectionLost) {
				t.Errorf("end: %v", err)
			}
			break
		}
		if reply.Error != nil {
			e := *reply.Error
			last = &e
		}
	}
	if last == nil || last.Severity != "FATAL" || last.SQLState != "57P01" {
		t.Errorf("last error %+v", last)
	}
}

// TestManyMessagesAtOnce sends megabytes of requests before it reads anything.
func TestManyMessagesAtOnce(t *testing.T) {
	srv := pgtest.Start(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, srv.Database(t)), sqlgov.OpenOptions{})
	const n = 3000
	sent := make(chan error, 1)
	go func() {
		q, err := (&pgproto3.Query{String: "select '" + strings.Repeat("x", 1000) + "'"}).Encode(nil)
		for i := 0; i < n && err == nil; i++ {
			err = w.Send(q)
		}
		sent <- errors.Join(err, w.Flush())
	}()
	frames, _ := replies(t, w, n)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if kinds(frames) != strings.Repeat("TDCZ", n) {
		t.Errorf("%d bytes", len(frames))
	}
}

// sessions counts the sessions in the database of dsn that are not this one and meet a condition.
func sessions(t *testing.T, dsn, condition string) int {
	t.Helper()
	pc, err := pgconn.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close(context.Background())
	r := pc.ExecParams(context.Background(), "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and "+condition, nil, nil, nil, nil).Read()
	var n int
	if _, err := fmt.Sscan(string(r.Rows[0][0]), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("it did not happen\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestCloseAtOnce closes a session right after its statement was sent. The server ignores a cancel request that comes
// before it has read the statement, so this must not depend on the first.
func TestCloseAtOnce(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	for range 20 {
		w := open(t, p, src, sqlgov.OpenOptions{})
		send(t, w, &pgproto3.Query{String: "select pg_sleep(60)"}, &pgproto3.Query{String: "select pg_sleep(60)"})
		_ = w.Close()
		if n := sessions(t, dsn, "true"); n != 0 {
			t.Fatalf("%d sessions are left: %d active", n, sessions(t, dsn, "state = 'active'"))
		}
	}
}

// TestCloseWhileWriting closes a session whose server takes no more, because nobody reads its answers.
func TestCloseWhileWriting(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	w := open(t, newPool(t, Config{}), sourceOf(t, dsn), sqlgov.OpenOptions{})
	stuck := make(chan error, 1)
	go func() {
		q, err := (&pgproto3.Query{String: "select repeat('x', 1000000)"}).Encode(nil)
		for err == nil {
			if err = w.Send(q); err == nil {
				err = w.Flush()
			}
		}
		stuck <- err
	}()
	eventually(t, func() bool { return sessions(t, dsn, "wait_event = 'ClientWrite'") == 1 })
	begun := time.Now()
	_ = w.Close()
	<-stuck
	if took := time.Since(begun); took > farewell+time.Second {
		t.Errorf("took %s", took)
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })
}
