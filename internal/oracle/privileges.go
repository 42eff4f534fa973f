package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"interlock/catalog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// denied is insufficient_privilege.
const denied = "42501"

// Trial runs statements as a role that holds exactly what it is told. Everything happens in one transaction, which Close
// rolls back; until then the server's other transactions wait if they change the same privileges.
type Trial struct {
	server *Server
	index  *catalog.Index
	role   string
}

// Claim is what is said of a statement: the privileges on relations and the functions that it needs.
type Claim struct {
	SQL       string
	Before    string // run first, as the superuser
	Demands   []Demand
	Functions []catalog.OID
	// Free are demands and functions that need not be necessary: they are granted always.
	Free          []Demand
	FreeFunctions []catalog.OID
}

// Verdict is what the server says of a claim. The zero value says that it holds.
type Verdict struct {
	// Refused is the server's message when the whole claim does not suffice.
	Refused string
	// Needless are those parts of the claim without any one of which the statement runs all the same.
	Needless []string
	// Failure is another error with which the statement ends. Then it is not tried with less.
	Failure string
}

// Try begins a trial. The server's connection can do nothing else until Close.
func (s *Server) Try(ctx context.Context, index *catalog.Index) (*Trial, error) {
	t := &Trial{server: s, index: index, role: "oracle_trial"}
	var sql strings.Builder
	sql.WriteString("begin; set local debug_print_parse = off; set local debug_print_rewritten = off; set local client_min_messages = error;")
	fmt.Fprintf(&sql, "create role %s;\n", t.role)
	for _, schema := range index.Snapshot.Schemas {
		if catalog.IsSystemSchema(schema.Name) {
			continue
		}
		name := quote(schema.Name)
		fmt.Fprintf(&sql, "grant usage on schema %s to %s; revoke execute on all routines in schema %s from public;\n", name, t.role, name)
		// Sequences are no part of a claim: a default draws from one.
		fmt.Fprintf(&sql, "grant usage on all sequences in schema %s to %s; revoke all on all tables in schema %s from public;\n", name, t.role, name)
	}
	if err := s.Run(ctx, sql.String()); err != nil {
		return nil, errors.Join(fmt.Errorf("making the role: %w", err), t.Close(ctx))
	}
	return t, nil
}

// Close undoes everything.
func (t *Trial) Close(ctx context.Context) error { return t.server.Run(ctx, "rollback") }

func quote(names ...string) string { return pgx.Identifier(names).Sanitize() }

// Judge tries a claim: whole, and without each of its parts. The error is about the trial itself.
func (t *Trial) Judge(ctx context.Context, c *Claim) (Verdict, error) {
	parts := t.parts(c)
	all := append(t.free(c), grants(parts)...)
	state, message, err := t.attempt(ctx, c, all)
	if err != nil {
		return Verdict{}, err
	}
	if state == denied {
		return Verdict{Refused: message}, nil
	}
	if state != "" {
		return Verdict{Failure: state + " " + message}, nil // it can fail before its privileges are checked
	}
	var v Verdict
	for i := range parts {
		without := append(t.free(c), grants(parts[:i])...)
		state, _, err := t.attempt(ctx, c, append(without, grants(parts[i+1:])...))
		if err != nil {
			return v, err
		}
		if state != denied {
			v.Needless = append(v.Needless, parts[i].name)
		}
	}
	return v, nil
}

// privilege is a part of a claim with the GRANT for it.
type privilege struct{ name, grant string }

func grants(parts []privilege) []string {
	all := make([]string, len(parts))
	for i := range parts {
		all[i] = parts[i].grant
	}
	return all
}

func (t *Trial) parts(c *Claim) []privilege {
	var all []privilege
	for _, d := range Normal(c.Demands) {
		all = append(all, t.demandPart(d))
	}
	for _, f := range distinct(c.Functions) {
		if p := t.functionPart(f); p.grant != "" {
			all = append(all, p)
		}
	}
	return all
}

func (t *Trial) free(c *Claim) []string {
	return grants(t.parts(&Claim{Demands: c.Free, Functions: c.FreeFunctions}))
}

func (t *Trial) demandPart(d Demand) privilege {
	rel := t.index.Relation(d.Relation)
	name := Text(t.index, d)
	table := quote(rel.Schema, rel.Name)
	if d.Action == Delete || d.Action == Truncate || len(rel.Columns) == 0 {
		return privilege{name, fmt.Sprintf("grant %s on table %s to %s", d.Action, table, t.role)}
	}
	column := rel.Columns[0].Name
	if d.Num != 0 {
		column = ColumnName(rel, d.Num)
	}
	return privilege{name, fmt.Sprintf("grant %s (%s) on table %s to %s", d.Action, quote(column), table, t.role)}
}

func (t *Trial) functionPart(oid catalog.OID) privilege {
	f := t.index.Function(oid)
	if f == nil || catalog.IsSystemSchema(f.Schema) {
		return privilege{} // PUBLIC may call those
	}
	name := FunctionText(t.index, oid)
	return privilege{name, fmt.Sprintf("grant execute on routine %s(%s) to %s", quote(f.Schema, f.Name), t.arguments(f), t.role)}
}

// arguments are the input arguments as GRANT wants them.
func (t *Trial) arguments(f *catalog.Function) string {
	types := make([]string, len(f.Args))
	for i, a := range f.Args {
		typ := t.index.Type(a)
		types[i] = quote(typ.Schema, typ.Name)
	}
	return strings.Join(types, ",")
}

// attempt runs the statement after grants, and undoes both. It returns the SQLSTATE and the message of its failure.
func (t *Trial) attempt(ctx context.Context, c *Claim, grants []string) (state, message string, err error) {
	steps := append([]string{"savepoint question", "deallocate all", c.Before}, grants...)
	if err := t.server.Run(ctx, strings.Join(append(steps, "set local role "+t.role), ";")); err != nil {
		return "", "", fmt.Errorf("granting %v: %w", grants, err)
	}
	var failure *pgconn.PgError
	if err := t.execute(ctx, c.SQL); err != nil && !errors.As(err, &failure) {
		return "", "", err
	}
	if err := t.server.Run(ctx, "rollback to savepoint question; release savepoint question"); err != nil {
		return "", "", err
	}
	if failure == nil {
		return "", "", nil
	}
	return failure.Code, failure.Message, nil
}

var (
	copyIn  = regexp.MustCompile(`(?is)^copy\b.*\bfrom stdin\b`)
	copyOut = regexp.MustCompile(`(?is)^copy\b.*\bto stdout\b`)
)

// execute runs a statement. COPY copies nothing in, and what it copies out is dropped.
func (t *Trial) execute(ctx context.Context, sql string) (err error) {
	conn := t.server.conn.PgConn()
	switch {
	case copyIn.MatchString(sql):
		_, err = conn.CopyFrom(ctx, strings.NewReader(""), sql)
	case copyOut.MatchString(sql):
		_, err = conn.CopyTo(ctx, io.Discard, sql)
	default:
		err = conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read().Err
	}
	return err
}

// Text names a demand: select shop.customers.ssn.
func Text(index *catalog.Index, d Demand) string {
	rel := index.Relation(d.Relation)
	if rel == nil {
		return fmt.Sprintf("%s relation %d column %d", d.Action, d.Relation, d.Num)
	}
	text := fmt.Sprintf("%s %s.%s", d.Action, rel.Schema, rel.Name)
	if d.Num != 0 {
		text += "." + ColumnName(rel, d.Num)
	}
	return text
}

// FunctionText names a function: shop.tax(numeric).
func FunctionText(index *catalog.Index, oid catalog.OID) string {
	f := index.Function(oid)
	if f == nil {
		return fmt.Sprintf("function %d", oid)
	}
	return fmt.Sprintf("%s.%s(%s)", f.Schema, f.Name, f.Signature)
}

// systemColumns by -attnum.
var systemColumns = []string{"", "ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"}

// ColumnName names a column of a relation, a system column too; "" when it has none with the number.
func ColumnName(rel *catalog.Relation, num int16) string {
	if n := int(-num); n > 0 && n < len(systemColumns) {
		return systemColumns[n]
	}
	for i := range rel.Columns {
		if rel.Columns[i].Num == num {
			return rel.Columns[i].Name
		}
	}
	return ""
}
