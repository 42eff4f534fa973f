package sqlgov_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// attackDatabase is a copy of the database of the cases.
type attackDatabase struct {
	server *pgtest.Server
	name   string
	admin  string // DSN as superuser
	client string // DSN as gov_svc, the login of the gateway, for sessions beside it
}

// beside is the application_name of sessions that do not go through a gateway.
const beside = "beside"

var copies atomic.Int64

// copyAttacks copies the database of the cases, which itself stays as it is: nobody is connected to it.
func copyAttacks(t *testing.T) *attackDatabase {
	t.Helper()
	d := &attackDatabase{server: pgtest.Start(t), name: fmt.Sprintf("attacks_%d", copies.Add(1))}
	u, err := url.Parse(pgtest.Attacks(t))
	if err != nil {
		t.Fatal(err)
	}
	original := strings.TrimPrefix(u.Path, "/")
	u.Path = "/" + d.name
	d.admin = u.String()
	d.client = d.server.As(d.admin, "gov_svc", "") + "&application_name=" + beside
	d.server.Exec(t, d.server.DSN("postgres"), "create database "+d.name+" template "+original)
	d.server.Exec(t, d.server.DSN("postgres"), "grant create, temporary on database "+d.name+" to gov_svc")
	d.server.Exec(t, d.admin, "grant create on schema public to gov_svc") // as before PostgreSQL 15
	return d
}

func (d *attackDatabase) drop(t *testing.T) {
	t.Helper()
	// What a case leaves behind outside the database would be in the way of later ones.
	d.server.Exec(t, d.admin, `do $$declare x record; begin
		for x in select subname from pg_subscription s join pg_database d on d.oid = s.subdbid where d.datname = current_database() loop
			execute format('alter subscription %1$I disable', x.subname);
			execute format('alter subscription %1$I set (slot_name = none)', x.subname);
			execute format('drop subscription %1$I', x.subname);
		end loop; end$$`)
	d.server.Exec(t, d.server.DSN("postgres"), "drop database "+d.name+" with (force)")
}

// query returns the rows of a superuser's query, as text.
func (d *attackDatabase) query(t *testing.T, sql string) [][]string {
	t.Helper()
	w := &wire{dsn: d.admin}
	defer w.close()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	r := w.run(ctx, step{Q: sql})
	if r.state != "" {
		t.Fatalf("%s: %s %s", sql, r.state, r.message)
	}
	return r.rows
}

func (d *attackDatabase) oid(t *testing.T) func(string) uint32 {
	return func(function string) (oid uint32) {
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, d.admin)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer func() { err = errors.Join(err, conn.Close(ctx)) }()
		if err := conn.QueryRow(ctx, "select $1::text::regproc::oid", function).Scan(&oid); err != nil {
			t.Error(err)
		}
		return oid
	}
}

// play runs a case at a door. What another session does, it does without the gateway.
func play(t *testing.T, c *attack, d *attackDatabase, at door) *transcript {
	t.Helper()
	other := &wire{dsn: d.client, oid: d.oid(t)}
	started := time.Now()
	var replies []reply
	for _, s := range c.filled(d.name, d.server.Port()) {
		ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
		var r reply
		if s.C != "" {
			r = other.run(ctx, s)
			r.other = true
		} else {
			r = at.run(ctx, s)
		}
		cancel()
		replies = append(replies, r)
	}
	tr := at.close()
	tr.elapsed = time.Since(started)
	tr.replies = replies
	for _, n := range other.close().notes {
		if strings.HasPrefix(n, "NOTIFY") {
			tr.notes = append(tr.notes, n) // what one session tells another
		}
	}
	return tr
}

// secrets are the planted values that the analyst must never see: what is in columns that are not granted, or masked, and
// not in others, and what is hidden in catalogs.
type secrets struct {
	values []string
	names  []string // identifiers of what is not granted
}

// token is a piece of a value that is long enough not to turn up by chance.
var token = regexp.MustCompile(`[A-Za-z0-9_.@-]{6,}`)

func plantedSecrets(t *testing.T, d *attackDatabase) *secrets {
	t.Helper()
	granted, masked := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(attackFile(t, "governance.yaml"))) {
		if item := strings.TrimSpace(line); strings.HasPrefix(item, "- app.") {
			name, isMasked := strings.CutSuffix(strings.TrimPrefix(item, "- "), " # masked")
			granted[name], masked[name] = true, isMasked
		}
	}
	found, public := map[string]bool{"fdw-mapping-password": true}, map[string]bool{}
	names, publicNames := map[string]bool{}, map[string]bool{}
	for _, col := range d.query(t, `select n.nspname, c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid
		join pg_namespace n on n.oid = c.relnamespace
		where n.nspname in ('app', 'hr', 'attacker') and c.relkind in ('r', 'p', 'v', 'm') and a.attnum > 0 and not a.attisdropped`) {
		schema, table, column := col[0], col[1], col[2]
		values, ids := found, names
		if granted[schema+"."+table+"."+column] {
			ids = publicNames
			if values = public; masked[schema+"."+table+"."+column] {
				values = found
			}
			ids[schema], ids[table] = true, true
		}
		ids[column] = true
		if values := ids; !granted[schema+"."+table+"."+column] {
			values[table], values[schema] = true, true
		}
		id := pgx.Identifier{column}.Sanitize()
		for _, v := range d.query(t, "select distinct "+id+"::text from "+pgx.Identifier{schema, table}.Sanitize()+" where "+id+" is not null") {
			values[v[0]] = true
			for _, piece := range token.FindAllString(v[0], -1) {
				values[piece] = true
			}
		}
	}
	s := &secrets{}
	for v := range found {
		if len(v) >= 6 && !public[v] {
			s.values = append(s.values, v)
		}
	}
	for n := range names {
		if len(n) >= 3 && !publicNames[strings.ToLower(n)] {
			s.names = append(s.names, n)
		}
	}
	return s
}

// ulid is an identifier of a decision, which can hold any digits.
var ulid = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)

// in returns the values in what was heard that the client did not write itself.
func (s *secrets) in(tr *transcript, typed string) []string {
	heard := ulid.ReplaceAllString(strings.Join(append(tr.notes, string(tr.heard)), "\n"), "")
	var all []string
	for _, v := range s.values {
		if strings.Contains(heard, v) && !strings.Contains(typed, v) {
			all = append(all, v)
		}
	}
	return all
}

// namesIn returns the names of hidden tables and columns in what was heard that the client did not write itself.
func (s *secrets) namesIn(tr *transcript, typed string) []string {
	heard := strings.Join(append(tr.notes, string(tr.heard)), "\n")
	lower := strings.ToLower(heard)
	var all []string
	for _, n := range s.names {
		if !strings.Contains(lower, strings.ToLower(n)) {
			continue
		}
		if len(n) > 40 && strings.Contains(typed, n) {
			continue // the client wrote more than fits in an identifier
		}
		word := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(n) + `\b`)
		if word.MatchString(heard) && !word.MatchString(typed) {
			all = append(all, n)
		}
	}
	return all
}
