package store

import (
	"context"
	"math"
	"slices"
	"strings"

	"interlock/audit"
)

// wanted is what a filter selects, in the words of the index.
type wanted struct {
	filter                *audit.Filter
	who, shape, ending    idSet
	kindShape, kindEnding idSet // a row has one of both; nil if no kind is asked for
	unfinished            idSet // the endings of those that never ended
	session, host, trace  int64 // 0: any
	id                    int64 // idHash
	whole, byID           bool
	lo, hi                uint64 // numbers
	from, to              int64  // Unix milliseconds
}

// idSet is a set of rows of a dictionary; nil has all.
type idSet []bool

func (s idSet) has(id int64) bool { return s == nil || id < int64(len(s)) && s[id] }

// marked reports if a set has an id; nil has none.
func (s idSet) marked(id int64) bool { return s != nil && s.has(id) }

func (s *idSet) add(id int64) {
	for int64(len(*s)) <= id {
		*s = append(*s, false)
	}
	(*s)[id] = true
}

// nothing reports that a filter selects nothing at all.
func (w *wanted) nothing() bool {
	none := func(s idSet) bool { return s != nil && len(s) == 0 }
	return none(w.who) || none(w.shape) || none(w.ending) || w.kindShape != nil && none(w.kindShape) && none(w.kindEnding)
}

// conditions are what a dictionary is asked.
type conditions struct {
	where []string
	args  []any
}

func (c *conditions) equal(column, value string) {
	if value != "" {
		c.add(column+" = ?", value)
	}
}

func (c *conditions) add(where string, args ...any) {
	c.where, c.args = append(c.where, where), append(c.args, args...)
}

// ids returns the rows of a dictionary that meet the conditions.
func (c *conditions) ids(ctx context.Context, db queryer, table string) (idSet, error) {
	if len(c.where) == 0 {
		return nil, nil
	}
	rows, err := db.QueryContext(ctx, "select id from "+table+" where "+strings.Join(c.where, " and "), c.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	set := idSet{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		set.add(id)
	}
	return set, rows.Err()
}

// dictionaries finds what f selects in the dictionaries.
func (w *wanted) dictionaries(ctx context.Context, db queryer, f *audit.Filter) (err error) {
	var who, shape, ending conditions
	who.equal("identity", f.Identity)
	who.equal("source", f.Source)
	who.equal("door", f.Door)
	who.equal("application", f.Application)
	shape.equal("fingerprint", f.Fingerprint)
	shape.equal("verdict", f.Verdict)
	if f.Text != "" {
		shape.add("instr(folded, ?) > 0", strings.ToLower(f.Text))
	}
	for what, name := range map[string]string{"table": f.Table, "column": f.Column, "label": f.Label} {
		if name != "" {
			shape.add("id in (select shape from touch where name = ? and what = '"+what+"')", name)
		}
	}
	// How what is running has ended may stand in the log already.
	if f.Status != "" {
		ending.add("status in (?, 'running')", string(f.Status))
	}
	if f.SQLState != "" {
		ending.add("(sqlstate = ? or status = 'running')", f.SQLState)
	}
	ending.equal("event", f.Event)
	if !f.Events && f.Event == "" && f.ID == "" {
		ending.add("event = ''")
	}
	if w.who, err = who.ids(ctx, db, "who"); err != nil {
		return err
	}
	if w.shape, err = shape.ids(ctx, db, "shape"); err != nil {
		return err
	}
	unfinished := conditions{[]string{"status = ?"}, []any{string(audit.Unfinished)}}
	if w.unfinished, err = unfinished.ids(ctx, db, "ending"); err != nil {
		return err
	}
	if w.ending, err = ending.ids(ctx, db, "ending"); err != nil || f.Kind == "" {
		return err
	}
	kind := conditions{[]string{"instr(kinds, ?) > 0"}, []any{" " + f.Kind + " "}}
	if w.kindShape, err = kind.ids(ctx, db, "shape"); err != nil {
		return err
	}
	kind = conditions{[]string{"(refusal = ? or status = 'running')"}, []any{f.Kind}}
	w.kindEnding, err = kind.ids(ctx, db, "ending")
	return err
}

// wantedBy finds what f selects.
func wantedBy(ctx context.Context, db queryer, f *audit.Filter) (*wanted, error) {
	w := &wanted{filter: f, lo: f.After + 1, hi: math.MaxInt64, from: math.MinInt64, to: math.MaxInt64}
	if f.UpTo > 0 {
		w.hi = f.UpTo
	}
	if !f.Since.IsZero() {
		w.from = f.Since.UnixMilli()
	}
	if !f.Until.IsZero() {
		w.to = f.Until.UnixMilli()
	}
	if f.ID != "" {
		w.byID = true
		w.id, w.whole = idHash(f.ID)
	}
	if f.Session != "" {
		w.session = hash64(f.Session)
	}
	if f.Client != "" {
		w.host = hash64(audit.ClientHost(f.Client))
	}
	if trace := f.Trace; trace != "" {
		if len(trace) == 55 {
			trace = trace[3:35]
		}
		w.trace = hash64(trace)
	}
	return w, w.dictionaries(ctx, db, f)
}

// blocks says in SQL which blocks can have something.
func (w *wanted) blocks() (string, []any) {
	c := conditions{[]string{"length(keys) > 0"}, nil}
	c.add("last >= ? and first <= ?", w.lo, w.hi)
	c.add("to_time >= ? and from_time <= ?", w.from, w.to)
	switch {
	case w.byID && w.whole:
		c.add("from_id <= ? and to_id >= ?", idTime(w.id), idTime(w.id))
	case w.byID:
		c.add("odd")
	}
	return strings.Join(c.where, " and "), c.args
}

// row reports if a loose request can be wanted.
func (w *wanted) row(r *indexRow) bool {
	at := r.time / 1e6
	return w.who.has(r.who) && w.shape.has(r.shape) && w.ending.has(r.ending) && w.kind(r.shape, r.ending) &&
		(w.session == 0 || w.session == r.session) && (w.host == 0 || w.host == r.host) && (w.trace == 0 || w.trace == r.trace) &&
		(!w.byID || w.id == r.id) && at >= w.from && at <= w.to
}

func (w *wanted) kind(shape, ending int64) bool {
	return w.kindShape == nil || w.kindShape.has(shape) || w.kindEnding.has(ending)
}

// marks says what is wanted of a block: for a column, which of its values. A column that is not in it does not matter.
type marks struct {
	w      *wanted
	timed  bool // not all of the block is of the time that is wanted
	values map[int][]bool
	kinds  [2][]bool // of shapes and endings
}

// in finds what is wanted in the dictionaries of a block, and reports if the block can have something.
func (w *wanted) in(l *listed) (*marks, bool) {
	head := &l.head
	m := &marks{w: w, timed: l.fromTime < w.from || l.toTime > w.to, values: map[int][]bool{}}
	for _, d := range []struct {
		dict, column int
		set          idSet
	}{{dictWho, colWho, w.who}, {dictShape, colShape, w.shape}, {dictEnding, colEnding, w.ending}} {
		if d.set != nil && !m.mark(d.column, head[d.dict], d.set.has) {
			return nil, false
		}
	}
	for _, d := range []struct {
		dict, column int
		hash         int64
	}{{dictSession, colSession, w.session}, {dictHost, colHost, w.host}, {dictTrace, colTrace, w.trace}} {
		if d.hash != 0 && !m.mark(d.column, head[d.dict], func(v int64) bool { return v == d.hash }) {
			return nil, false
		}
	}
	if w.kindShape != nil {
		shapes, some := markAll(head[dictShape], w.kindShape.has)
		endings, others := markAll(head[dictEnding], w.kindEnding.has)
		m.kinds = [2][]bool{shapes, endings}
		return m, some || others
	}
	return m, true
}

func markAll(values []int64, has func(int64) bool) (marked []bool, some bool) {
	marked = make([]bool, len(values))
	for i, v := range values {
		marked[i] = has(v)
		some = some || marked[i]
	}
	return marked, some
}

func (m *marks) mark(column int, values []int64, has func(int64) bool) bool {
	marked, some := markAll(values, has)
	if slices.Contains(marked, false) {
		m.values[column] = marked
	}
	return some
}

// byKeys returns the rows of a block that can be wanted by what they have of the dictionaries, in order. They are good until the
// next block.
func (m *marks) byKeys(b *blockData) []int {
	rows := slices.Grow(b.rows[:0], b.n)[:b.n]
	b.rows = rows
	for i := range rows {
		rows[i] = i
	}
	for _, column := range []int{colWho, colShape, colEnding} {
		rows = m.marked(b, column, rows)
	}
	if m.kinds[0] == nil || len(rows) == 0 {
		return rows
	}
	shapes, endings, kept := b.column(colShape), b.column(colEnding), rows[:0]
	for _, i := range rows {
		if s, e := shapes[i], endings[i]; s < uint64(len(m.kinds[0])) && m.kinds[0][s] || e < uint64(len(m.kinds[1])) && m.kinds[1][e] {
			kept = append(kept, i)
		}
	}
	return kept
}

// detailed reports if byDetails is to be asked.
func (m *marks) detailed() bool {
	return m.values[colSession] != nil || m.values[colHost] != nil || m.values[colTrace] != nil || m.w.byID || m.timed
}

// byDetails returns those of some rows that can be wanted by their details, which the block has by now.
func (m *marks) byDetails(b *blockData, rows []int) []int {
	for _, column := range []int{colSession, colHost, colTrace} {
		rows = m.marked(b, column, rows)
	}
	if w := m.w; w.byID {
		rows = keep(b, colID, rows, func(v uint64) bool { return v == shortID(w.id) })
	}
	if w := m.w; m.timed {
		rows = keep(b, colTime, rows, func(v uint64) bool { return int64(v) >= w.from && int64(v) <= w.to })
	}
	return rows
}

// marked returns those of some rows that have a value of a column which is wanted.
func (m *marks) marked(b *blockData, column int, rows []int) []int {
	marked := m.values[column]
	if marked == nil {
		return rows
	}
	return keep(b, column, rows, func(v uint64) bool { return v < uint64(len(marked)) && marked[v] })
}

// keep returns those of some rows of which a column is wanted, in their memory.
func keep(b *blockData, column int, rows []int, wants func(uint64) bool) []int {
	if len(rows) == 0 {
		return rows
	}
	values, kept := b.column(column), rows[:0]
	for _, i := range rows {
		if wants(values[i]) {
			kept = append(kept, i)
		}
	}
	return kept
}
