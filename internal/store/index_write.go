package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"interlock/audit"
)

// indexWriter puts entries into the index. It remembers the dictionaries, and the requests that have not ended.
type indexWriter struct {
	db     *sql.DB
	who    map[whoKey]int64
	shape  map[[16]byte]int64
	ending map[endingKey]int64
	combo  map[comboKey]*comboCount
	open   map[string]*indexRow // by decision id
	early  map[int64]*indexRow  // those that another process has left open, by the hash of their ids
	marked uint64

	tx     *sql.Tx // of the part that is being taken
	stmts  map[string]*sql.Stmt
	hourly map[hourKey]*hourCount
	rows   []*indexRow // ended in this part, in the order of their ends
	brief  audit.Brief // of the entry
}

type whoKey struct{ identity, key, door, source, application string }

type endingKey struct{ status, sqlstate, refusal, event string }

type comboKey struct{ who, shape, ending int64 }

type comboCount struct {
	id          int64
	n           int64
	first, last uint64
	dirty       bool
}

type hourKey struct{ hour, combo int64 }

type hourCount struct{ n, rows, nanos int64 }

// indexRow is a request on its way into the index.
type indexRow struct {
	seq         uint64
	time        time.Time
	id          int64
	who, shape  int64
	session     int64
	trace, host int64
	place       audit.Place
	ended       *audit.Place
	ending      endingKey
	rows, nanos int64
	combo       int64 // it is in the index under; 0 if it is not there
}

// maxRemembered bounds each dictionary in memory.
const maxRemembered = 200_000

// markEvery is how many entries lie between two marks.
const markEvery = 512

func newIndexWriter(ctx context.Context, db *sql.DB) (*indexWriter, error) {
	w := &indexWriter{db: db, who: map[whoKey]int64{}, shape: map[[16]byte]int64{}, ending: map[endingKey]int64{},
		combo: map[comboKey]*comboCount{}, open: map[string]*indexRow{}, early: map[int64]*indexRow{}, stmts: map[string]*sql.Stmt{}}
	rows, err := db.QueryContext(ctx, `select r.seq, r.time, r.id, c.who, c.shape, r.session, r.trace, r.host, r.segment, r.at, r.combo
		from ending e join combo c on c.ending = e.id join request r on r.combo = c.id where e.status = 'running'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := &indexRow{ending: endingKey{status: string(audit.Running)}}
		var at int64
		if err := rows.Scan(&r.seq, &at, &r.id, &r.who, &r.shape, &r.session, &r.trace, &r.host, &r.place.Segment, &r.place.Offset, &r.combo); err != nil {
			return nil, err
		}
		r.time = time.Unix(0, at)
		w.early[r.id] = r
	}
	return w, rows.Err()
}

// take puts one part of the log into the index, in one transaction with the new position.
func (w *indexWriter) take(ctx context.Context, dir string, from audit.Cursor, last uint64) (next audit.Cursor, end bool, err error) {
	if w.tx, err = w.db.BeginTx(ctx, nil); err != nil {
		return from, false, err
	}
	defer func() {
		clear(w.stmts)
		if err != nil {
			err = errors.Join(err, w.tx.Rollback())
		}
	}()
	w.hourly, w.rows = map[hourKey]*hourCount{}, w.rows[:0]
	var bad error
	next, end, err = audit.ReadAfter(dir, from, last, indexBytes, func(e *audit.Entry) bool {
		bad = w.entry(e)
		return bad == nil
	})
	if err = errors.Join(err, bad, w.flush(next)); err != nil {
		return from, false, err
	}
	return next, end, w.tx.Commit()
}

func (w *indexWriter) entry(e *audit.Entry) error {
	b := &w.brief
	if err := b.Read(e); err != nil {
		return nil // an entry that cannot be read is for Verify to report
	}
	if e.Seq >= w.marked+markEvery {
		w.marked = e.Seq
		if err := w.exec("insert or ignore into mark values (?, ?)", e.Seq, e.Time.UnixNano()); err != nil {
			return err
		}
	}
	place := audit.Place{Segment: audit.SegmentNumber(e.Segment), Offset: e.Offset}
	id := idHash(e.ID)
	ended := endingKey{status: string(b.Status), sqlstate: b.SQLState, refusal: b.Refusal}
	if e.Type == audit.TypeOutcome {
		if r := w.ended(e.ID, id); r != nil {
			r.ended, r.ending, r.rows, r.nanos = &place, ended, b.Rows, b.Nanos
			w.rows = append(w.rows, r)
		}
		return nil
	}
	r := &indexRow{seq: e.Seq, time: e.Time, id: id, place: place}
	var err error
	if r.who, err = w.whoID(b); err != nil {
		return err
	}
	if r.shape, err = w.shapeID(b.Judgement); err != nil {
		return err
	}
	if b.Session != "" {
		r.session = hash64(b.Session)
	}
	if b.Client != "" {
		r.host = hash64(audit.ClientHost(b.Client))
	}
	if len(b.Trace) == 55 {
		r.trace = hash64(b.Trace[3:35])
	}
	switch e.Type {
	case audit.TypeIntent:
		r.ending = endingKey{status: string(audit.Running)}
		w.open[e.ID] = r
		return nil
	case audit.TypeEvent:
		ended = endingKey{event: b.Event}
		if err := w.event(e, b, r); err != nil {
			return err
		}
	}
	r.ending, r.rows, r.nanos = ended, b.Rows, b.Nanos
	w.rows = append(w.rows, r)
	return nil
}

// ended takes a request that has ended out of those that run.
func (w *indexWriter) ended(id string, hash int64) *indexRow {
	r := w.open[id]
	if r == nil {
		r = w.early[hash]
	}
	delete(w.open, id)
	delete(w.early, hash)
	return r
}

// event keeps what events say about others.
func (w *indexWriter) event(e *audit.Entry, b *audit.Brief, r *indexRow) error {
	switch b.Event {
	case "log.opened": // what was running is not any more
		running := append(slices.Collect(maps.Values(w.open)), slices.Collect(maps.Values(w.early))...)
		clear(w.open)
		clear(w.early)
		for _, open := range running {
			open.ending.status = string(audit.Unfinished)
			w.rows = append(w.rows, open)
		}
	case audit.SessionOpened:
		return w.exec("insert or replace into session (id, hash, who, client, opened) values (?, ?, ?, ?, ?)",
			b.Session, r.session, r.who, b.Client, e.Time.UnixNano())
	case audit.SessionClosed:
		v, err := e.View()
		if err != nil {
			return nil
		}
		return w.exec("update session set closed = ?, statements = cast(? as integer) where id = ?", e.Time.UnixNano(),
			v.Event.Attributes["statements"], b.Session)
	}
	return nil
}

// flush writes the rows of a part, and the requests that are still running.
func (w *indexWriter) flush(next audit.Cursor) error {
	for _, r := range w.rows {
		if err := w.put(r); err != nil {
			return err
		}
	}
	for _, r := range w.open {
		if r.combo == 0 {
			if err := w.put(r); err != nil {
				return err
			}
		}
	}
	for _, c := range w.combo {
		if c.dirty {
			c.dirty = false
			if err := w.exec("update combo set n = ?, first = ?, last = ? where id = ?", c.n, c.first, c.last, c.id); err != nil {
				return err
			}
		}
	}
	for k, c := range w.hourly {
		err := w.exec(`insert into hourly values (?, ?, ?, ?, ?) on conflict do update set n = n + excluded.n,
			rows = rows + excluded.rows, nanos = nanos + excluded.nanos`, k.hour, k.combo, c.n, c.rows, c.nanos)
		if err != nil {
			return err
		}
	}
	if len(w.who) > maxRemembered || len(w.shape) > maxRemembered || len(w.combo) > maxRemembered {
		clear(w.who)
		clear(w.shape)
		clear(w.combo)
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return w.exec("insert into meta values ('cursor', ?) on conflict do update set value = excluded.value", string(text))
}

// put inserts a row, or updates the one that was inserted while it was running.
func (w *indexWriter) put(r *indexRow) error {
	ending, err := w.endingID(r.ending)
	if err != nil {
		return err
	}
	c, err := w.comboOf(comboKey{r.who, r.shape, ending}, r.seq)
	if err != nil {
		return err
	}
	c.n, c.dirty = c.n+1, true
	c.first, c.last = min(c.first, r.seq), max(c.last, r.seq)
	if r.ending.status != string(audit.Running) {
		h := hourKey{r.time.Unix() / 3600, c.id}
		if w.hourly[h] == nil {
			w.hourly[h] = &hourCount{}
		}
		w.hourly[h].n++
		w.hourly[h].rows += r.rows
		w.hourly[h].nanos += r.nanos
	}
	var segment, at any
	if r.ended != nil {
		segment, at = int64(r.ended.Segment), r.ended.Offset
	}
	if r.combo != 0 {
		if err := w.leave(r); err != nil {
			return err
		}
		return w.exec("update request set combo = ?, ended_segment = ?, ended_at = ?, rows = ?, nanos = ? where seq = ?",
			c.id, segment, at, r.rows, r.nanos, r.seq)
	}
	if r.ending.status == string(audit.Running) {
		r.combo = c.id
	}
	return w.exec("insert or replace into request values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", r.seq, r.time.UnixNano(), r.id, c.id,
		r.session, r.trace, r.host, r.place.Segment, r.place.Offset, segment, at, r.rows, r.nanos)
}

// leave takes a request out of the count of the running.
func (w *indexWriter) leave(r *indexRow) error {
	running, err := w.endingID(endingKey{status: string(audit.Running)})
	if err != nil {
		return err
	}
	was, err := w.comboOf(comboKey{r.who, r.shape, running}, r.seq)
	if err != nil {
		return err
	}
	was.n, was.dirty = was.n-1, true
	return nil
}

func (w *indexWriter) exec(query string, args ...any) error {
	s, err := w.prepared(query)
	if err != nil {
		return err
	}
	_, err = s.Exec(args...)
	return err
}

func (w *indexWriter) prepared(query string) (*sql.Stmt, error) {
	if s := w.stmts[query]; s != nil {
		return s, nil
	}
	s, err := w.tx.Prepare(query)
	if err == nil {
		w.stmts[query] = s
	}
	return s, err
}

// idOf returns the id of a dictionary row that insert makes if it is not there.
func (w *indexWriter) idOf(find, insert string, args ...any) (id int64, err error) {
	s, err := w.prepared(find)
	if err != nil {
		return 0, err
	}
	if err = s.QueryRow(args...).Scan(&id); !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	if s, err = w.prepared(insert); err != nil {
		return 0, err
	}
	res, err := s.Exec(args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (w *indexWriter) whoID(b *audit.Brief) (int64, error) {
	k := whoKey{b.Identity, b.KeyID, b.Door, b.Source, b.Application}
	if id := w.who[k]; id != 0 {
		return id, nil
	}
	id, err := w.idOf("select id from who where identity = ? and key = ? and door = ? and source = ? and application = ?",
		"insert into who (identity, key, door, source, application) values (?, ?, ?, ?, ?)",
		k.identity, k.key, k.door, k.source, k.application)
	w.who[k] = id
	return id, err
}

func (w *indexWriter) endingID(k endingKey) (int64, error) {
	if id := w.ending[k]; id != 0 {
		return id, nil
	}
	id, err := w.idOf("select id from ending where status = ? and sqlstate = ? and refusal = ? and event = ?",
		"insert into ending (status, sqlstate, refusal, event) values (?, ?, ?, ?)", k.status, k.sqlstate, k.refusal, k.event)
	w.ending[k] = id
	return id, err
}

func (w *indexWriter) comboOf(k comboKey, seq uint64) (*comboCount, error) {
	if c := w.combo[k]; c != nil {
		return c, nil
	}
	c := &comboCount{first: seq, last: seq}
	s, err := w.prepared("select id, n, first, last from combo where who = ? and shape = ? and ending = ?")
	if err != nil {
		return nil, err
	}
	err = s.QueryRow(k.who, k.shape, k.ending).Scan(&c.id, &c.n, &c.first, &c.last)
	if errors.Is(err, sql.ErrNoRows) {
		c.id, err = w.idOf("select id from combo where who = ? and shape = ? and ending = ? and first = ? and last = ?",
			"insert into combo (who, shape, ending, first, last, n) values (?, ?, ?, ?, ?, 0)", k.who, k.shape, k.ending, seq, seq)
	}
	w.combo[k] = c
	return c, err
}

func (w *indexWriter) shapeID(members []byte) (int64, error) {
	sum := sha256.Sum256(members)
	digest := [16]byte(sum[:16])
	if id := w.shape[digest]; id != 0 {
		return id, nil
	}
	var id int64
	s, err := w.prepared("select id from shape where digest = ?")
	if err != nil {
		return 0, err
	}
	if err = s.QueryRow(digest[:]).Scan(&id); errors.Is(err, sql.ErrNoRows) {
		id, err = w.newShape(digest, members)
	}
	w.shape[digest] = id
	return id, err
}

func (w *indexWriter) newShape(digest [16]byte, members []byte) (int64, error) {
	j, err := audit.DecodeJudgement(members)
	if err != nil {
		j = &audit.Judgement{}
	}
	s, err := w.prepared("insert into shape (digest, statement, folded, fingerprint, verdict, kinds) values (?, ?, ?, ?, ?, ?)")
	if err != nil {
		return 0, err
	}
	res, err := s.Exec(digest[:], j.Statement, strings.ToLower(j.Statement), j.Fingerprint, j.Verdict, " "+strings.Join(j.Kinds, " ")+" ")
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	tables, columns := j.Names()
	for what, names := range map[string][]string{"table": tables, "column": columns} {
		for _, n := range names {
			if err := w.exec("insert or ignore into touch values (?, ?, ?)", n, what, id); err != nil {
				return 0, err
			}
		}
	}
	return id, nil
}
