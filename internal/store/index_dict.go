package store

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"interlock/audit"
)

func (w *indexWriter) exec(query string, args ...any) error {
	s, err := w.statement(query)
	if err == nil {
		_, err = s.Exec(args...)
	}
	return err
}

// statement prepares a statement once in a transaction, which it begins if there is none.
func (w *indexWriter) statement(query string) (*sql.Stmt, error) {
	if s := w.prepared[query]; s != nil {
		return s, nil
	}
	if w.tx == nil {
		tx, err := w.db.BeginTx(w.ctx, nil)
		if err != nil {
			return nil, err
		}
		w.tx = tx
	}
	s, err := w.tx.PrepareContext(w.ctx, query)
	if err == nil {
		w.prepared[query] = s
	}
	return s, err
}

func (w *indexWriter) putCursor(key string, c audit.Cursor) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return w.exec("insert into meta values (?, ?) on conflict do update set value = excluded.value", key, string(text))
}

// idOf returns the id of a dictionary row that insert makes if it is not there.
func (w *indexWriter) idOf(find, insert string, args ...any) (id int64, err error) {
	s, err := w.statement(find)
	if err != nil {
		return 0, err
	}
	if err = s.QueryRow(args...).Scan(&id); !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	return w.insert(insert, args...)
}

func (w *indexWriter) insert(query string, args ...any) (id int64, err error) {
	s, err := w.statement(query)
	if err != nil {
		return 0, err
	}
	res, err := s.Exec(args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
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
		"insert into who (identity, key, door, source, application) values (?, ?, ?, ?, ?)",
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
		"insert into ending (status, sqlstate, refusal, event) values (?, ?, ?, ?)", k.status, k.sqlstate, k.refusal, k.event)
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
	s, err := w.statement("select id from shape where digest = ?")
	if err != nil {
		return 0, err
	}
	var id int64
	if err = s.QueryRow(digest).Scan(&id); errors.Is(err, sql.ErrNoRows) {
		id, err = w.newShape(digest, members)
	}
	if err == nil {
		w.shapes.put(members, id)
	}
	return id, err
}

func (w *indexWriter) newShape(digest, members []byte) (int64, error) {
	j, err := audit.DecodeJudgement(members)
	if err != nil {
		j = &audit.Judgement{}
	}
	id, err := w.insert("insert into shape (digest, statement, folded, fingerprint, verdict, kinds) values (?, ?, ?, ?, ?, ?)",
		digest, j.Statement, strings.ToLower(j.Statement), j.Fingerprint, j.Verdict, " "+strings.Join(j.Kinds, " ")+" ")
	if err != nil {
		return 0, err
	}
	tables, columns := j.Names()
	for what, names := range map[string][]string{"table": tables, "column": columns, "label": j.Labels} {
		for _, n := range names {
			if err := w.exec("insert or ignore into touch values (?, ?, ?)", n, what, id); err != nil {
				return 0, err
			}
		}
	}
	return id, nil
}
