package store

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"interlock/audit"
)

func (w *indexWriter) exec(query string, args ...any) error {
	s, err := w.statement(query)
	if err == nil {
		_, err = s.Exec(w.dialect.arguments(args)...)
	}
	return err
}

// statement prepares a statement once in a transaction, which it begins if there is none.
func (w *indexWriter) statement(query string) (*sql.Stmt, error) {
	if s := w.prepared[query]; s != nil {
		return s, nil
	}
	if w.tx == nil {
		tx, err := w.conn.BeginTx(w.ctx, nil)
		if err != nil {
			return nil, err
		}
		w.tx = tx
	}
	s, err := w.tx.PrepareContext(w.ctx, w.dialect.statement(query))
	if err == nil {
		w.prepared[query] = s
	}
	return s, err
}

// putMark writes a place of the log, behind the entry that was taken last.
func (w *indexWriter) putMark(key string, c audit.Cursor) error {
	text, err := json.Marshal(mark{c, w.hash})
	if err != nil {
		return err
	}
	return w.exec("insert into meta values (?, ?, ?) on conflict (part, key) do update set value = excluded.value", w.part, key, string(text))
}

// idOf returns the id of a dictionary row that insert makes if it is not there.
func (w *indexWriter) idOf(find, insert string, args ...any) (id int64, err error) {
	return w.findOr(func() error { return w.queryID(&id, insert, args...) }, &id, find, args...)
}

// findOr finds the row of a dictionary, or makes it. Where several processes make rows, they do so one after the other until
// the end of the transaction, so that they neither make the same row nor wait for each other.
func (w *indexWriter) findOr(make func() error, id *int64, find string, args ...any) (int64, error) {
	err := w.queryID(id, find, args...)
	if errors.Is(err, sql.ErrNoRows) && w.dialect.lockDictionaries != "" && !w.locked {
		if err = w.exec(w.dialect.lockDictionaries); err == nil {
			w.locked = true
			err = w.queryID(id, find, args...)
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = make()
	}
	return *id, err
}

func (w *indexWriter) queryID(id *int64, query string, args ...any) error {
	s, err := w.statement(query)
	if err != nil {
		return err
	}
	return s.QueryRow(w.dialect.arguments(args)...).Scan(id)
}

// callerOf returns what the members mean that say who asked.
func (w *indexWriter) callerOf(members []byte) (caller, error) {
	if c, ok := w.callers.known[string(members)]; ok {
		return c, nil
	}
	r, err := audit.DecodeWho(members)
	if err != nil {
		r = &audit.Record{} // for Verify to report
	}
	c := caller{sessionID: r.Session, client: r.ClientAddr}
	if r.Session != "" {
		c.session = hash64(r.Session)
	}
	if r.ClientAddr != "" {
		c.host = hash64(audit.ClientHost(r.ClientAddr))
	}
	if c.who, err = w.whoID(r); err == nil {
		w.callers.put(members, c)
	}
	return c, err
}

func (w *indexWriter) whoID(r *audit.Record) (id int64, err error) {
	columns := []string{r.Identity, r.KeyID, r.Door, r.Source, r.Application}
	key := []byte(strings.Join(columns, "\x00"))
	if id, ok := w.whos.known[string(key)]; ok {
		return id, nil
	}
	id, err = w.idOf("select id from who where identity = ? and key = ? and door = ? and source = ? and application = ?",
		"insert into who (identity, key, door, source, application) values (?, ?, ?, ?, ?) returning id",
		r.Identity, r.KeyID, r.Door, r.Source, r.Application)
	if err == nil {
		w.whos.put(key, id)
	}
	return id, err
}

func (w *indexWriter) endingID(k endingKey) (int64, error) {
	if id := w.endings[k]; id != 0 {
		return id, nil
	}
	id, err := w.idOf("select id from ending where status = ? and sqlstate = ? and refusal = ? and event = ?",
		"insert into ending (status, sqlstate, refusal, event) values (?, ?, ?, ?) returning id", k.status, k.sqlstate, k.refusal, k.event)
	if err != nil {
		return 0, err
	}
	if len(w.endings) >= maxRemembered {
		clear(w.endings)
	}
	w.endings[k] = id
	return id, nil
}

func (w *indexWriter) shapeID(members []byte) (int64, error) {
	if id, ok := w.shapes.known[string(members)]; ok {
		return id, nil
	}
	sum := sha256.Sum256(members)
	digest := sum[:16]
	var id int64
	_, err := w.findOr(func() error { return w.newShape(&id, digest, members) }, &id, "select id from shape where digest = ?", digest)
	if err == nil {
		w.shapes.put(members, id)
	}
	return id, err
}

func (w *indexWriter) newShape(id *int64, digest, members []byte) error {
	j, err := audit.DecodeJudgement(members)
	if err != nil {
		j = &audit.Judgement{}
	}
	err = w.queryID(id, "insert into shape (digest, statement, folded, fingerprint, verdict, kinds) values (?, ?, ?, ?, ?, ?) returning id",
		digest, j.Statement, strings.ToLower(j.Statement), j.Fingerprint, j.Verdict, " "+strings.Join(j.Kinds, " ")+" ")
	if err != nil {
		return err
	}
	tables, columns := j.Names()
	for what, names := range map[string][]string{"table": tables, "column": columns, "label": j.Labels} {
		if err := w.touches(*id, what, names); err != nil {
			return err
		}
	}
	return w.texts.judgement(w, *id, members)
}

// touches writes what a shape touches, some in one statement.
func (w *indexWriter) touches(shape int64, what string, names []string) error {
	for some := range slices.Chunk(names, 32) {
		args := make([]any, 0, 3*len(some))
		for _, n := range some {
			args = append(args, n, what, shape)
		}
		values := strings.Repeat("(?, ?, ?), ", len(some)-1) + "(?, ?, ?)"
		if err := w.exec("insert into touch values "+values+" on conflict do nothing", args...); err != nil {
			return err
		}
	}
	return nil
}
