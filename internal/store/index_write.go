package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strconv"

	"interlock/audit"
)

// indexWriter puts entries into the index. It remembers the dictionaries, the requests that have not ended, and the block
// under way.
type indexWriter struct {
	conn     beginner
	dialect  *dialect
	part     int64          // of the index
	bytes    int64          // of the log in one transaction
	texts    *textWriter    // nil: they are read from the log
	release  func() error   // gives up what it holds; nil if that is nothing
	callers  memory[caller] // by Brief.Who
	whos     memory[int64]  // by the columns of the dictionary
	shapes   memory[int64]  // by Brief.Judgement
	endings  map[endingKey]int64
	running  int64                // the ending of those that run
	open     map[string]*indexRow // what runs, by decision id
	early    map[int64]*indexRow  // what another process has left running, by idHash
	segment  segmentNumber
	brief    audit.Brief // of the entry
	encoder  blockEncoder
	rows     []indexRow // of the block under way, which is full when they fill their memory; they stay where they are
	sealed   audit.Cursor
	next     audit.Cursor // behind what was taken
	hash     string       // of the entry before that
	pruned   uint64       // from the log; what is apart from it has been told
	ctx      context.Context
	tx       *sql.Tx // of the part that is being taken; nil before its first change
	prepared map[string]*sql.Stmt
	locked   bool // the dictionaries are, until the end of tx
}

// caller is what the members mean that say who asked.
type caller struct {
	who, session, host int64
	sessionID, client  string
}

type endingKey struct{ status, sqlstate, refusal, event string }

// memory remembers what texts mean. It forgets everything when it has grown too large.
type memory[T any] struct {
	known map[string]T
	bytes int
}

const (
	maxRemembered      = 200_000
	maxRememberedBytes = 32 << 20
)

func (m *memory[T]) put(text []byte, v T) {
	if m.known == nil || len(m.known) >= maxRemembered || m.bytes+len(text) > maxRememberedBytes {
		m.known, m.bytes = map[string]T{}, 0
	}
	m.known[string(text)] = v
	m.bytes += len(text)
}

// segmentNumber remembers the number of the segment that was asked for last.
type segmentNumber struct {
	name   string
	number uint64
}

func (s *segmentNumber) of(name string) uint64 {
	if name != s.name {
		s.name, s.number = name, audit.SegmentNumber(name)
	}
	return s.number
}

// resume goes on behind the last full block: the one under way is made again.
func (w *indexWriter) resume(ctx context.Context, blockRows int) error {
	w.endings, w.open, w.early = map[endingKey]int64{}, map[string]*indexRow{}, map[int64]*indexRow{}
	w.rows = make([]indexRow, 0, blockRows)
	db := speaker{w.conn, w.dialect}
	sealed, err := markOf(ctx, db, w.part, "sealed")
	if err != nil {
		return err
	}
	w.sealed, w.next, w.hash = sealed.Cursor, sealed.Cursor, sealed.Hash
	rows, err := db.QueryContext(ctx, "select "+looseColumns+" from loose where part = ? and ending in (select id from ending where status = 'running')", w.part)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r := &indexRow{loose: true}
		if err := r.scan(rows); err != nil {
			return err
		}
		w.early[r.id] = r
	}
	return rows.Err()
}

const looseColumns = "seq, time, id, who, shape, ending, session, host, trace, segment, at, ended_segment, ended_at, rows, nanos"

func (r *indexRow) fields() []any {
	return []any{&r.seq, &r.time, &r.id, &r.who, &r.shape, &r.ending, &r.session, &r.host, &r.trace, &r.record.Segment, &r.record.Offset,
		&r.ended.Segment, &r.ended.Offset, &r.rows, &r.nanos}
}

func (r *indexRow) scan(rows *sql.Rows) error { return rows.Scan(r.fields()...) }

// take puts one part of the log into the index, in one transaction with the new position.
func (w *indexWriter) take(ctx context.Context, dir string, last uint64) (more bool, err error) {
	w.ctx, w.prepared, w.locked = ctx, map[string]*sql.Stmt{}, false
	defer func() {
		if w.tx != nil && err != nil {
			err = errors.Join(err, w.tx.Rollback())
		}
		w.tx = nil
	}()
	if w.running == 0 {
		if w.running, err = w.endingID(endingKey{status: string(audit.Running)}); err != nil {
			return false, err
		}
	}
	var bad error
	next, end, err := audit.ReadAfter(dir, w.next, last, w.bytes, func(e *audit.Entry) bool {
		bad = w.entry(e)
		w.hash = e.Hash()
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return false, err
	}
	more = !end && next.Seq > w.next.Seq
	if next.Seq > w.next.Seq {
		if err := w.flush(next); err != nil {
			return false, err
		}
	}
	w.next = next
	if w.tx != nil {
		err = w.tx.Commit()
	}
	return more, err
}

func (w *indexWriter) entry(e *audit.Entry) error {
	b := &w.brief
	if err := b.Read(e); err != nil {
		return nil // an entry that cannot be read is for Verify to report
	}
	if e.Type == audit.TypeOutcome {
		return w.outcome(e, b)
	}
	c, err := w.callerOf(b.Who)
	if err != nil {
		return err
	}
	r := w.row(e)
	r.who, r.session, r.host = c.who, c.session, c.host
	if r.shape, err = w.shapeID(b.Judgement); err != nil {
		return err
	}
	if len(b.Trace) == 55 {
		r.trace = hash64(string(b.Trace[3:35]))
	}
	switch e.Type {
	case audit.TypeIntent:
		r.ending = w.running
		w.open[e.ID] = r
	case audit.TypeEvent:
		r.event = true
		if err := w.event(e, b, &c); err != nil {
			return err
		}
		fallthrough
	default:
		if r.ending, err = w.endingOf(b); err != nil {
			return err
		}
		r.rows, r.nanos = b.Rows, b.Nanos
	}
	if len(w.rows) == cap(w.rows) || w.texts.full() {
		w.hash = e.Hash()
		return w.seal(audit.Cursor{Segment: e.Segment, Offset: e.Offset + int64(len(e.Text)) + 1, Seq: e.Seq})
	}
	return nil
}

// row begins a row of the block under way.
func (w *indexWriter) row(e *audit.Entry) *indexRow {
	w.rows = append(w.rows, indexRow{seq: e.Seq, time: e.Time.UnixNano(), record: audit.Place{Segment: w.segment.of(e.Segment), Offset: e.Offset}})
	r := &w.rows[len(w.rows)-1]
	r.id, r.whole = idHash(e.ID)
	w.texts.record(r, e)
	return r
}

func (w *indexWriter) endingOf(b *audit.Brief) (int64, error) {
	return w.endingID(endingKey{status: string(b.Status), sqlstate: b.SQLState, refusal: b.Refusal, event: b.Event})
}

// outcome completes the request that an outcome belongs to.
func (w *indexWriter) outcome(e *audit.Entry, b *audit.Brief) (err error) {
	r := w.open[e.ID]
	if r == nil && len(w.early) > 0 {
		id, _ := idHash(e.ID)
		r = w.early[id]
		delete(w.early, id)
	}
	if r == nil {
		return nil
	}
	delete(w.open, e.ID)
	if r.ending, err = w.endingOf(b); err != nil {
		return err
	}
	r.ended = audit.Place{Segment: w.segment.of(e.Segment), Offset: e.Offset}
	r.rows, r.nanos = b.Rows, b.Nanos
	w.texts.outcome(r, e)
	return w.update(r)
}

// update writes a row again that is not in the block under way.
func (w *indexWriter) update(r *indexRow) error {
	if !r.loose {
		return nil
	}
	err := w.exec("update loose set ending = ?, ended_segment = ?, ended_at = ?, rows = ?, nanos = ? where part = ? and seq = ?",
		r.ending, r.ended.Segment, r.ended.Offset, r.rows, r.nanos, w.part, r.seq)
	if err != nil {
		return err
	}
	return w.texts.ended(w, r)
}

// event keeps what events say about others.
func (w *indexWriter) event(e *audit.Entry, b *audit.Brief, c *caller) error {
	switch b.Event {
	case "log.opened": // what was running is not any more
		return w.giveUp()
	case audit.SessionOpened:
		return w.exec(`insert into session (part, id, hash, who, client, opened) values (?, ?, ?, ?, ?, ?) on conflict (part, id) do update
			set hash = excluded.hash, who = excluded.who, client = excluded.client, opened = excluded.opened, closed = null, statements = 0`,
			w.part, c.sessionID, c.session, c.who, c.client, e.Time.UnixNano())
	case audit.SessionClosed:
		v, err := e.View()
		if err != nil {
			return nil
		}
		statements, _ := strconv.ParseInt(v.Event.Attributes["statements"], 10, 64)
		return w.exec("update session set closed = ?, statements = ? where part = ? and id = ?", e.Time.UnixNano(), statements, w.part, c.sessionID)
	}
	return nil
}

func (w *indexWriter) giveUp() error {
	unfinished, err := w.endingID(endingKey{status: string(audit.Unfinished)})
	if err != nil {
		return err
	}
	left := append(slices.Collect(maps.Values(w.open)), slices.Collect(maps.Values(w.early))...)
	clear(w.open)
	clear(w.early)
	for _, r := range left {
		r.ending = unfinished
		if err := w.update(r); err != nil {
			return err
		}
	}
	return nil
}

// seal ends the block under way behind the entry before a cursor. What is running in it is taken out: a full block does
// not change.
func (w *indexWriter) seal(at audit.Cursor) error {
	if err := w.countSessions(); err != nil {
		return err
	}
	for id, r := range w.open {
		if r.loose {
			continue
		}
		kept := *r
		kept.loose = true
		w.open[id] = &kept
		err := w.exec("insert into loose (part, "+looseColumns+") values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", append([]any{w.part}, kept.fields()...)...)
		if err == nil {
			err = w.texts.loosen(w, &kept)
		}
		if err != nil {
			return err
		}
	}
	n := len(w.rows)
	w.rows = slices.DeleteFunc(w.rows, func(r indexRow) bool { return r.ending == w.running })
	if len(w.rows) < n {
		if err := w.texts.moved(w); err != nil {
			return err
		}
	}
	if err := w.write(at.Seq); err != nil {
		return err
	}
	w.rows, w.sealed = w.rows[:0], at
	w.texts.sealed()
	return w.putMark("sealed", at)
}

// countSessions adds the statements of the block under way to those of their sessions.
func (w *indexWriter) countSessions() error {
	counts := map[int64]int{}
	for i := range w.rows {
		if r := &w.rows[i]; r.session != 0 && !r.event {
			counts[r.session]++
		}
	}
	for session, n := range counts {
		if err := w.exec("update session set statements = statements + ? where part = ? and hash = ? and closed is null", n, w.part, session); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the block under way, and how far the index has come.
func (w *indexWriter) flush(next audit.Cursor) error {
	if err := w.write(next.Seq); err != nil {
		return err
	}
	if err := w.putMark("cursor", next); err != nil {
		return err
	}
	return w.texts.flushed(w)
}

// write writes the block under way, which has come up to entry last.
func (w *indexWriter) write(last uint64) error {
	e, first := &w.encoder, w.sealed.Seq+1
	if len(w.rows) == 0 {
		return errors.Join(w.exec("delete from block where part = ? and first >= ?", w.part, first),
			w.exec("delete from counts where part = ? and first >= ?", w.part, first))
	}
	e.encode(first, w.rows, w.running)
	err := w.exec(`insert into block values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (part, first) do update
		set last = excluded.last, from_time = excluded.from_time, to_time = excluded.to_time, from_id = excluded.from_id, to_id = excluded.to_id,
		odd = excluded.odd, head = excluded.head, keys = excluded.keys, details = excluded.details, places = excluded.places, traces = excluded.traces`,
		w.part, first, last, e.fromTime, e.toTime, e.fromID, e.toID, e.odd, e.head, e.keys, e.details, e.places, e.traces)
	if err == nil {
		err = w.exec(`insert into counts values (?, ?, ?, ?, ?) on conflict (part, first) do update
			set callers = excluded.callers, shapes = excluded.shapes, sums = excluded.sums`, w.part, first, e.callers, e.shapes, e.sums)
	}
	if err != nil {
		return err
	}
	return w.texts.write(w, first)
}
