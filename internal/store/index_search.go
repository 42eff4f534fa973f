package store

import (
	"cmp"
	"container/heap"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"interlock/audit"
)

// found is a request in the index.
type found struct {
	seq    uint64
	record audit.Place
	ended  *audit.Place
}

const foundColumns = "seq, segment, at, ended_segment, ended_at"

func (f *found) scan(rows *sql.Rows) error {
	var segment, at sql.NullInt64
	if err := rows.Scan(&f.seq, &f.record.Segment, &f.record.Offset, &segment, &at); err != nil {
		return err
	}
	if segment.Valid {
		f.ended = &audit.Place{Segment: uint64(segment.Int64), Offset: at.Int64}
	}
	return nil
}

// Search calls yield for the requests that f selects in the log that is indexed, as audit.Search does. Those that
// were pruned from the log are left out.
func (x *Index) Search(ctx context.Context, logDir string, f audit.Filter, yield func(audit.View) bool) error {
	places := audit.Places{Dir: logDir}
	defer places.Close()
	left := cmp.Or(f.Limit, math.MaxInt)
	err := x.each(ctx, &f, func(r *found) (bool, error) {
		v, err := places.ReadAt(r.record, r.ended)
		if errors.Is(err, audit.ErrNotFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if !f.Matches(&v) {
			return true, nil
		}
		left--
		return yield(v) && left > 0, nil
	})
	if err != nil {
		return fmt.Errorf("searching the audit index: %w", err)
	}
	return nil
}

// each calls yield for what may match, in the order of the filter, until it returns false.
func (x *Index) each(ctx context.Context, f *audit.Filter, yield func(*found) (bool, error)) error {
	lo, hi, err := x.bounds(ctx, f)
	if err != nil {
		return err
	}
	switch {
	case f.ID != "":
		return x.stream(ctx, "id = ?", idHash(f.ID), lo, hi, f.OldestFirst, yield)
	case f.Session != "":
		return x.stream(ctx, "session = ? and session <> 0", hash64(f.Session), lo, hi, f.OldestFirst, yield)
	case f.Trace != "":
		trace := f.Trace
		if len(trace) == 55 {
			trace = trace[3:35]
		}
		return x.stream(ctx, "trace = ? and trace <> 0", hash64(trace), lo, hi, f.OldestFirst, yield)
	}
	if where, _ := comboConditions(f); len(where) == 0 && f.Client == "" {
		return x.stream(ctx, "0 = ?", 0, lo, hi, f.OldestFirst, yield)
	}
	if lo, hi, err = x.window(ctx, f, lo, hi, &yield); err != nil || yield == nil {
		return err
	}
	if f.Client != "" {
		return x.stream(ctx, "host = ? and host <> 0", hash64(audit.ClientHost(f.Client)), lo, hi, f.OldestFirst, yield)
	}
	combos, err := x.combos(ctx, f)
	if err != nil {
		return err
	}
	m := &merger{x: x, ctx: ctx, oldest: f.OldestFirst, lo: lo, hi: hi}
	for _, c := range combos {
		m.add(c)
	}
	heap.Init(m)
	return m.run(yield)
}

// windowSize is how many entries at the beginning of the result are looked at one by one.
const windowSize = 20_000

// window yields what matches in the first entries of the result, one by one: filters that select much need not look at
// all combinations then. It returns the bounds of the rest, and sets *yield to nil if no more is wanted.
func (x *Index) window(ctx context.Context, f *audit.Filter, lo, hi uint64, yield *func(*found) (bool, error)) (uint64, uint64, error) {
	var first, last sql.NullInt64
	err := x.db.QueryRowContext(ctx, `select (select seq from request where seq >= ? order by seq limit 1),
		(select seq from request where seq <= ? order by seq desc limit 1)`, lo, hi).Scan(&first, &last)
	if err != nil {
		return lo, hi, err
	}
	if !first.Valid || !last.Valid {
		*yield = nil
		return lo, hi, nil
	}
	from, to, order := max(lo, uint64(max(last.Int64-windowSize, 0))), hi, "desc"
	hi = from - 1
	if f.OldestFirst {
		from, to, order = uint64(first.Int64), min(uint64(last.Int64), uint64(first.Int64)+windowSize), "asc"
		lo, hi = to+1, uint64(last.Int64)
	}
	where, args := comboConditions(f)
	if f.Client != "" {
		where, args = append(where, "r.host = ?"), append(args, hash64(audit.ClientHost(f.Client)))
	}
	rows, err := x.db.QueryContext(ctx, `select r.seq, r.segment, r.at, r.ended_segment, r.ended_at from request r
		cross join combo c cross join who w cross join shape s cross join ending e
		where c.id = r.combo and w.id = c.who and s.id = c.shape and e.id = c.ending and `+strings.Join(where, " and ")+
		" and r.seq between ? and ? order by r.seq "+order, append(args, from, to)...)
	if err != nil {
		return lo, hi, err
	}
	defer rows.Close()
	for rows.Next() {
		var r found
		if err := r.scan(rows); err != nil {
			return lo, hi, err
		}
		if more, err := (*yield)(&r); err != nil || !more {
			*yield = nil
			return lo, hi, err
		}
	}
	if lo > hi {
		*yield = nil
	}
	return lo, hi, rows.Err()
}

// stream yields the rows of one index, newest first or oldest first.
func (x *Index) stream(ctx context.Context, where string, value any, lo, hi uint64, oldest bool, yield func(*found) (bool, error)) error {
	order := "desc"
	if oldest {
		order = "asc"
	}
	rows, err := x.db.QueryContext(ctx, "select "+foundColumns+" from request where "+where+" and seq between ? and ? order by seq "+order, value, lo, hi)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r found
		if err := r.scan(rows); err != nil {
			return err
		}
		if more, err := yield(&r); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// bounds turns times into numbers. Entries do not stand exactly in the order of their times, so there is some slack.
func (x *Index) bounds(ctx context.Context, f *audit.Filter) (lo, hi uint64, err error) {
	const slack = 10 * time.Minute
	lo, hi = f.After+1, math.MaxInt64
	if !f.Since.IsZero() {
		var n sql.NullInt64
		err = x.db.QueryRowContext(ctx, "select max(seq) from mark where time < ?", f.Since.Add(-slack).UnixNano()).Scan(&n)
		lo = max(lo, uint64(n.Int64))
	}
	if err == nil && !f.Until.IsZero() {
		var n sql.NullInt64
		err = x.db.QueryRowContext(ctx, "select min(seq) from mark where time > ?", f.Until.Add(slack).UnixNano()).Scan(&n)
		if n.Valid {
			hi = uint64(n.Int64)
		}
	}
	return lo, hi, err
}

// comboRange is a combination and where its requests are.
type comboRange struct {
	id          int64
	first, last uint64
}

// combos returns the combinations that f may select.
func (x *Index) combos(ctx context.Context, f *audit.Filter) (list []comboRange, err error) {
	where, args := comboConditions(f)
	rows, err := x.db.QueryContext(ctx, `select c.id, c.first, c.last from combo c join who w on w.id = c.who
		join shape s on s.id = c.shape join ending e on e.id = c.ending where c.n > 0 and `+strings.Join(where, " and "), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c comboRange
		if err := rows.Scan(&c.id, &c.first, &c.last); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

func comboConditions(f *audit.Filter) (where []string, args []any) {
	equal := func(column, value string) {
		if value != "" {
			where, args = append(where, column+" = ?"), append(args, value)
		}
	}
	equal("w.identity", f.Identity)
	equal("w.source", f.Source)
	equal("w.door", f.Door)
	equal("w.application", f.Application)
	equal("s.fingerprint", f.Fingerprint)
	equal("s.verdict", f.Verdict)
	equal("e.status", string(f.Status))
	equal("e.sqlstate", f.SQLState)
	equal("e.event", f.Event)
	if f.Kind != "" {
		where, args = append(where, "(e.refusal = ? or instr(s.kinds, ?) > 0)"), append(args, f.Kind, " "+f.Kind+" ")
	}
	if f.Text != "" {
		where, args = append(where, "c.shape in (select id from shape where instr(folded, ?) > 0)"), append(args, strings.ToLower(f.Text))
	}
	for what, name := range map[string]string{"table": f.Table, "column": f.Column} {
		if name != "" {
			where, args = append(where, "c.shape in (select shape from touch where name = ? and what = '"+what+"')"), append(args, name)
		}
	}
	if !f.Events && f.Event == "" && len(where) > 0 {
		where = append(where, "e.event = ''")
	}
	return where, args
}

// merger yields the requests of many combinations in order. A combination is not looked at before the bound of its
// requests comes up, so the work is that of the result and not that of the combinations.
type merger struct {
	x      *Index
	ctx    context.Context
	oldest bool
	lo, hi uint64
	heads  []*comboHead
	query  *sql.Stmt
}

type comboHead struct {
	id    int64
	at    uint64  // number of rows[0], or a bound of what comes next
	rows  []found // read and not yet yielded
	known bool    // at is that of rows[0]
}

const mergeRows = 32

func (m *merger) add(c comboRange) {
	h := &comboHead{id: c.id, at: min(c.last, m.hi)}
	if m.oldest {
		h.at = max(c.first, m.lo)
	}
	if c.last >= m.lo && c.first <= m.hi {
		m.heads = append(m.heads, h)
	}
}

func (m *merger) Len() int      { return len(m.heads) }
func (m *merger) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *merger) Push(any)      {}
func (m *merger) Pop() any {
	m.heads = m.heads[:len(m.heads)-1]
	return nil
}

func (m *merger) Less(i, j int) bool {
	if m.oldest {
		return m.heads[i].at < m.heads[j].at
	}
	return m.heads[i].at > m.heads[j].at
}

func (m *merger) run(yield func(*found) (bool, error)) error {
	order := "desc"
	if m.oldest {
		order = "asc"
	}
	var err error
	m.query, err = m.x.db.PrepareContext(m.ctx, "select "+foundColumns+" from request where combo = ? and seq between ? and ? order by seq "+order+" limit ?")
	if err != nil {
		return err
	}
	defer m.query.Close()
	for len(m.heads) > 0 {
		h := m.heads[0]
		if !h.known {
			if err := m.fill(h); err != nil {
				return err
			}
			continue
		}
		r := h.rows[0]
		h.rows = h.rows[1:]
		if len(h.rows) > 0 {
			h.at = h.rows[0].seq
		} else if h.known = false; m.oldest {
			h.at = r.seq + 1
		} else {
			h.at = r.seq - 1
		}
		heap.Fix(m, 0)
		if more, err := yield(&r); err != nil || !more {
			return err
		}
	}
	return nil
}

// fill reads on from a combination, which is at the top, and takes it away if there is nothing more.
func (m *merger) fill(h *comboHead) error {
	lo, hi := m.lo, h.at
	if m.oldest {
		lo, hi = h.at, m.hi
	}
	if lo > hi {
		heap.Remove(m, 0)
		return nil
	}
	rows, err := m.query.QueryContext(m.ctx, h.id, lo, hi, mergeRows)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r found
		if err := r.scan(rows); err != nil {
			return err
		}
		h.rows = append(h.rows, r)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(h.rows) == 0 {
		heap.Remove(m, 0)
		return nil
	}
	h.known, h.at = true, h.rows[0].seq
	heap.Fix(m, 0)
	return nil
}

// SessionInfo describes a session of the PostgreSQL door.
type SessionInfo struct {
	Session     string     `json:"session"`
	Identity    string     `json:"identity"`
	Source      string     `json:"source"`
	Application string     `json:"application,omitempty"`
	Client      string     `json:"client"`
	Opened      time.Time  `json:"opened"`
	Closed      *time.Time `json:"closed,omitempty"`
	Statements  int64      `json:"statements"`
}

// Sessions returns the sessions that the filter's identity, source, client, application and times select, newest first.
func (x *Index) Sessions(ctx context.Context, f audit.Filter) ([]SessionInfo, error) {
	where, args := comboConditions(&audit.Filter{Identity: f.Identity, Source: f.Source, Application: f.Application, Events: true})
	where = append(where, "true")
	if f.Client != "" {
		where, args = append(where, "(s.client = ? or s.client like ? escape '\\')"), append(args, f.Client, likeEscaper.Replace(f.Client)+":%")
	}
	if !f.Since.IsZero() {
		where, args = append(where, "coalesce(s.closed, 9223372036854775807) >= ?"), append(args, f.Since.UnixNano())
	}
	if !f.Until.IsZero() {
		where, args = append(where, "s.opened < ?"), append(args, f.Until.UnixNano())
	}
	rows, err := x.db.QueryContext(ctx, `select s.id, w.identity, w.source, w.application, s.client, s.opened, s.closed,
		coalesce(s.statements, (select count(*) from request r where r.session = s.hash and r.session <> 0) - 1)
		from session s join who w on w.id = s.who where `+strings.Join(where, " and ")+" order by s.opened desc limit ?",
		append(args, cmp.Or(f.Limit, -1))...)
	if err != nil {
		return nil, fmt.Errorf("reading sessions from the audit index: %w", err)
	}
	defer rows.Close()
	all := []SessionInfo{}
	for rows.Next() {
		var s SessionInfo
		var opened int64
		var closed sql.NullInt64
		if err := rows.Scan(&s.Session, &s.Identity, &s.Source, &s.Application, &s.Client, &opened, &closed, &s.Statements); err != nil {
			return nil, fmt.Errorf("reading sessions from the audit index: %w", err)
		}
		s.Opened = time.Unix(0, opened).UTC()
		if closed.Valid {
			t := time.Unix(0, closed.Int64).UTC()
			s.Closed = &t
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// Count is a line of statistics.
type Count struct {
	By       []string `json:"by"`
	Requests int64    `json:"requests"`
	Rows     int64    `json:"rows"`
	// Mean is the mean time from the request to its end.
	Mean time.Duration `json:"mean_ns"`
}

// statColumns are what statistics can be grouped by.
var statColumns = map[string]string{"identity": "w.identity", "source": "w.source", "door": "w.door", "application": "w.application",
	"status": "e.status", "sqlstate": "e.sqlstate", "refusal": "e.refusal", "verdict": "s.verdict",
	"fingerprint": "s.fingerprint", "kind": "trim(s.kinds)", "hour": "strftime('%Y-%m-%dT%H:00Z', h.hour * 3600, 'unixepoch')",
	"day": "strftime('%Y-%m-%d', h.hour * 3600, 'unixepoch')", "statement": "s.statement"}

// StatNames lists what statistics can be grouped by.
func StatNames() []string {
	return []string{"identity", "source", "door", "application", "status", "sqlstate", "refusal", "verdict", "fingerprint", "kind", "statement", "hour", "day"}
}

// Stats counts the ended requests that a filter selects, in whole hours, by the named columns.
func (x *Index) Stats(ctx context.Context, f audit.Filter, by []string) ([]Count, error) {
	var columns []string
	for _, name := range by {
		c, ok := statColumns[name]
		if !ok {
			return nil, fmt.Errorf("there are no statistics by %q", name)
		}
		columns = append(columns, c)
	}
	where, args := comboConditions(&f)
	where = append(where, "e.event = ''")
	if !f.Since.IsZero() {
		where, args = append(where, "h.hour >= ?"), append(args, f.Since.Unix()/3600)
	}
	if !f.Until.IsZero() {
		where, args = append(where, "h.hour < ?"), append(args, (f.Until.Unix()+3599)/3600)
	}
	list := strings.Join(columns, ", ")
	rows, err := x.db.QueryContext(ctx, "select "+list+`, sum(h.n), sum(h.rows), sum(h.nanos) from hourly h join combo c on c.id = h.combo
		join who w on w.id = c.who join shape s on s.id = c.shape join ending e on e.id = c.ending where `+
		strings.Join(where, " and ")+" group by "+list+" order by sum(h.n) desc, "+list+" limit ?", append(args, cmp.Or(f.Limit, -1))...)
	if err != nil {
		return nil, fmt.Errorf("reading statistics from the audit index: %w", err)
	}
	defer rows.Close()
	all := []Count{}
	for rows.Next() {
		c := Count{By: make([]string, len(by))}
		var nanos int64
		to := make([]any, 0, len(by)+3)
		for i := range c.By {
			to = append(to, &c.By[i])
		}
		if err := rows.Scan(append(to, &c.Requests, &c.Rows, &nanos)...); err != nil {
			return nil, fmt.Errorf("reading statistics from the audit index: %w", err)
		}
		c.Mean = time.Duration(nanos / max(c.Requests, 1))
		all = append(all, c)
	}
	return all, rows.Err()
}
