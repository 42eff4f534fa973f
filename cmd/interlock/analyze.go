package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"interlock/catalog"
	"interlock/internal/upstream"
	"interlock/sqlgov/analyze"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
)

func analyzeCommand() *cobra.Command {
	var dsn string
	cmd := &cobra.Command{
		Use:   "analyze",
		Short: "Print what SQL statements touch, without running them",
		Long: `Reads one JSON object a line from standard input, {"id": ..., "sql": "...", "search_path": "app, public"}, and answers each
with one line before it reads the next: the columns that the statements read and write, the functions that they call, and the
base columns behind every output column, or why they are refused. Nothing of what is read is run. The catalog is read from
the database of --dsn, and again when it has changed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" {
				return usage("--dsn is required")
			}
			a, err := newAnalyst(cmd.Context(), dsn)
			if err != nil {
				return err
			}
			defer a.conn.Close(context.WithoutCancel(cmd.Context()))
			return a.serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "connection string of the database whose catalog to use")
	cmd.Flags().Bool("json", true, "print JSON; there is no other form")
	return cmd
}

// analyst answers lines against the catalog of one database, which it keeps up to date.
type analyst struct {
	conn     *pgx.Conn
	index    *catalog.Index
	seen     catalogState
	prepared map[string]string
}

func newAnalyst(ctx context.Context, dsn string) (*analyst, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	a := &analyst{conn: conn, prepared: map[string]string{}}
	if err := a.refresh(ctx); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return a, nil
}

// catalogState tells if a catalog can have changed. No transaction that could write has begun while xmax stands still;
// the digest covers the rows of the system catalogs.
type catalogState struct {
	xmax   string
	digest string
}

const xmaxQuery = `select pg_snapshot_xmax(pg_current_snapshot())::text`

var digestQuery = digestOf("pg_namespace", "pg_class", "pg_attribute", "pg_attrdef", "pg_type", "pg_enum", "pg_proc", "pg_operator",
	"pg_cast", "pg_constraint", "pg_index", "pg_inherits", "pg_rewrite", "pg_range", "pg_aggregate", "pg_collation", "pg_trigger")

// digestOf sums up when the rows of system catalogs were written.
func digestOf(tables ...string) string {
	parts := make([]string, len(tables))
	for i, t := range tables {
		parts[i] = fmt.Sprintf("(select count(*) || '/' || coalesce(sum(xmin::text::numeric), 0) from pg_catalog.%s)", t)
	}
	return "select concat_ws(' ', " + strings.Join(parts, ", ") + ")"
}

// refresh scans the catalog if it can have changed since it was scanned last.
func (a *analyst) refresh(ctx context.Context) error {
	var now catalogState
	if err := a.conn.QueryRow(ctx, xmaxQuery).Scan(&now.xmax); err != nil {
		return fmt.Errorf("looking for changes of the catalog: %w", err)
	}
	if now.xmax == a.seen.xmax {
		return nil
	}
	if err := a.conn.QueryRow(ctx, digestQuery).Scan(&now.digest); err != nil {
		return fmt.Errorf("looking for changes of the catalog: %w", err)
	}
	if now.digest != a.seen.digest {
		snapshot, err := upstream.Scan(ctx, a.conn, "analyze")
		if err != nil {
			return err
		}
		a.index = catalog.NewIndex(snapshot)
	}
	a.seen = now
	return nil
}

// serve answers line by line.
func (a *analyst) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			answer, failure := a.answer(ctx, line)
			if failure != nil {
				return failure
			}
			if _, failure := out.Write(append(answer, '\n')); failure != nil {
				return fmt.Errorf("writing the answer: %w", failure)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
}

// analyzeRequest is a line that is read. Its search path is a list, or a text as SET search_path has it.
type analyzeRequest struct {
	ID         json.RawMessage `json:"id"`
	SQL        *string         `json:"sql"`
	SearchPath json.RawMessage `json:"search_path"`
}

// analyzeAnswer is a line that is printed.
type analyzeAnswer struct {
	ID         json.RawMessage    `json:"id"`
	Statements []analyzeStatement `json:"statements"`
	Refused    *analyzeRefusal    `json:"refused"`
}

type analyzeRefusal struct {
	SQLState string `json:"sqlstate"`
	Reason   string `json:"reason"`
}

type analyzeStatement struct {
	Kind      analyze.Kind    `json:"kind"`
	Reads     []analyzeColumn `json:"reads"`
	Writes    []analyzeWrite  `json:"writes"`
	Functions []string        `json:"functions"`
	Output    []analyzeOutput `json:"output"`
}

type analyzeColumn struct {
	Schema string `json:"schema"`
	Table  string `json:"table"`
	Column string `json:"column"`
}

type analyzeWrite struct {
	analyzeColumn
	Action analyze.WriteAction `json:"action"`
}

type analyzeOutput struct {
	Name    string          `json:"name"`
	Columns []analyzeColumn `json:"columns"`
}

// answer is the line for a line. The error is the end of it all: the database is gone.
func (a *analyst) answer(ctx context.Context, line []byte) ([]byte, error) {
	answer := analyzeAnswer{ID: json.RawMessage("null"), Statements: []analyzeStatement{}}
	var request analyzeRequest
	err := unmarshalUTF8(line, &request)
	if len(request.ID) > 0 {
		answer.ID = request.ID
	}
	path, pathErr := readPath(request.SearchPath)
	switch {
	case err != nil:
		answer.Refused = &analyzeRefusal{"22P02", "the line is not a JSON object with id, sql and search_path: " + err.Error()}
	case request.SQL == nil:
		answer.Refused = &analyzeRefusal{"22023", "the line has no sql"}
	case pathErr != nil:
		answer.Refused = &analyzeRefusal{"22023", pathErr.Error()}
	default:
		if err := a.refresh(ctx); err != nil {
			return nil, err
		}
		a.analyse(&answer, *request.SQL, path)
	}
	return json.Marshal(answer)
}

// unmarshalUTF8 reads JSON, but no bytes that are not UTF-8: the decoder would put others in their place.
func unmarshalUTF8(line []byte, request *analyzeRequest) error {
	if !utf8.Valid(line) {
		return errors.New("invalid UTF-8")
	}
	return json.Unmarshal(line, request)
}

func (a *analyst) analyse(answer *analyzeAnswer, sql string, path []string) {
	if path == nil {
		path = a.index.Snapshot.SearchPath
	}
	facts, err := analyze.Analyze(sql, analyze.Env{
		Catalog:    a.index,
		SearchPath: path,
		Prepared:   func(name string) (string, bool) { text, ok := a.prepared[name]; return text, ok },
	})
	var refused *analyze.Error
	if errors.As(err, &refused) {
		answer.Refused = &analyzeRefusal{refused.SQLState, refused.Message}
		return
	}
	for i := range facts.Statements {
		s := &facts.Statements[i]
		a.remember(s)
		answer.Statements = append(answer.Statements, printStatement(s))
	}
}

// remember keeps what is prepared, for a later line to execute.
func (a *analyst) remember(s *analyze.Statement) {
	switch {
	case s.Kind == analyze.Prepare:
		a.prepared[s.Name] = s.Prepared
	case s.Kind == analyze.Deallocate && s.Name != "":
		delete(a.prepared, s.Name)
	case s.Kind == analyze.Deallocate, s.Kind == analyze.Discard && s.Name == "all":
		clear(a.prepared)
	}
}

// readPath reads a search path. Nil means that none was given.
func readPath(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	list := []string{}
	if err := json.Unmarshal(raw, &list); err == nil {
		return list, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, errors.New("search_path is neither a text nor a list of texts")
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if quoted, ok := strings.CutPrefix(part, `"`); ok {
			part = strings.ReplaceAll(strings.TrimSuffix(quoted, `"`), `""`, `"`)
		} else {
			part = strings.ToLower(part)
		}
		if part != "" {
			list = append(list, part)
		}
	}
	return list, nil
}

func printStatement(s *analyze.Statement) analyzeStatement {
	p := analyzeStatement{
		Kind: s.Kind, Reads: printColumns(s.Reads), Writes: []analyzeWrite{}, Functions: []string{}, Output: []analyzeOutput{},
	}
	for _, w := range s.Writes {
		p.Writes = append(p.Writes, analyzeWrite{printColumn(w.Column), w.Action})
	}
	for _, f := range s.Functions {
		p.Functions = append(p.Functions, f.Schema+"."+f.Name+"("+f.Signature+")")
	}
	for _, o := range s.Output {
		p.Output = append(p.Output, analyzeOutput{o.Name, printColumns(o.Columns)})
	}
	return p
}

func printColumn(c analyze.Column) analyzeColumn { return analyzeColumn{c.Schema, c.Table, c.Name} }

func printColumns(columns []analyze.Column) []analyzeColumn {
	printed := make([]analyzeColumn, len(columns))
	for i, c := range columns {
		printed[i] = printColumn(c)
	}
	return printed
}
