package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"interlock/audit"
)

// Count is a line of statistics.
type Count struct {
	By       []string `json:"by"`
	Requests int64    `json:"requests"`
	Rows     int64    `json:"rows"`
	// Mean is the mean time from the request to its end.
	Mean time.Duration `json:"mean_ns"`
}

type statColumn struct{ name, table, column string }

// statColumns are what statistics can be grouped by: a column of a dictionary, or a layout of the hour.
var statColumns = []statColumn{
	{"identity", "who", "identity"}, {"source", "who", "source"}, {"door", "who", "door"}, {"application", "who", "application"},
	{"status", "ending", "status"}, {"sqlstate", "ending", "sqlstate"}, {"refusal", "ending", "refusal"},
	{"verdict", "shape", "verdict"}, {"fingerprint", "shape", "fingerprint"}, {"kind", "shape", "trim(kinds)"}, {"statement", "shape", "statement"},
	{"hour", "", "2006-01-02T15:00Z"}, {"day", "", "2006-01-02"},
}

// StatNames lists what statistics can be grouped by.
func StatNames() []string {
	var names []string
	for _, c := range statColumns {
		names = append(names, c.name)
	}
	return names
}

// Stats counts the ended requests that a filter selects, in whole hours, by the named columns. It does not know of single
// requests: a filter on a session, a client, a trace or a decision is an error.
func (x *Index) Stats(ctx context.Context, f audit.Filter, by []string) ([]Count, error) {
	if f.ID != "" || f.Session != "" || f.Client != "" || f.Trace != "" || f.Event != "" {
		return nil, errors.New("statistics cannot be selected by decision, session, client, trace or event")
	}
	t, err := x.newTally(ctx, &f, by)
	if err == nil {
		err = t.run(ctx, x.db)
	}
	if err != nil {
		return nil, fmt.Errorf("reading statistics from the audit index: %w", err)
	}
	return t.result(f.Limit), nil
}

// tally counts by groups. A group is made of one of each dictionary and one of the times.
type tally struct {
	wanted    *wanted
	groupings [3]*grouping // of who, shape and ending
	layouts   map[int]string
	width     int   // columns
	unit      int64 // hours that are of one group; 0: all are
	from, to  int64 // hours
	counts    map[groupKey]*hourCount
}

type groupKey struct{ who, shape, ending, hour int64 }

// grouping says which rows of a dictionary are of one group: they have the same texts in some columns.
type grouping struct {
	columns []int      // of the result
	of      []int64    // by id; nil if there is one group
	texts   [][]string // by group
}

func (x *Index) newTally(ctx context.Context, f *audit.Filter, by []string) (t *tally, err error) {
	t = &tally{width: len(by), layouts: map[int]string{}, from: math.MinInt64, to: math.MaxInt64, counts: map[groupKey]*hourCount{}}
	if !f.Since.IsZero() {
		t.from = f.Since.Unix() / 3600
	}
	if !f.Until.IsZero() {
		t.to = (f.Until.Unix()+3599)/3600 - 1
	}
	columns := map[string]map[int]string{"who": {}, "shape": {}, "ending": {}, "": t.layouts}
	for i, name := range by {
		c := slices.IndexFunc(statColumns, func(c statColumn) bool { return c.name == name })
		if c < 0 {
			return nil, fmt.Errorf("there are no statistics by %q", name)
		}
		columns[statColumns[c].table][i] = statColumns[c].column
		switch name {
		case "hour":
			t.unit = 1
		case "day":
			t.unit = cmp.Or(t.unit, 24)
		}
	}
	only := *f
	only.Events, only.Since, only.Until = false, time.Time{}, time.Time{}
	if t.wanted, err = wantedBy(ctx, x.db, &only); err != nil {
		return nil, err
	}
	for i, table := range []string{"who", "shape", "ending"} {
		if t.groupings[i], err = newGrouping(ctx, x.db, table, columns[table]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// newGrouping groups the rows of a dictionary by columns, which are named by their place in the result.
func newGrouping(ctx context.Context, db queryer, table string, columns map[int]string) (*grouping, error) {
	g := &grouping{}
	if len(columns) == 0 {
		return g, nil
	}
	var names []string
	for _, i := range slices.Sorted(maps.Keys(columns)) {
		g.columns, names = append(g.columns, i), append(names, columns[i])
	}
	rows, err := db.QueryContext(ctx, "select id, "+strings.Join(names, ", ")+" from "+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := map[string]int64{}
	for rows.Next() {
		var id int64
		texts := make([]string, len(names))
		to := []any{&id}
		for i := range texts {
			to = append(to, &texts[i])
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		key := strings.Join(texts, "\x00")
		if _, ok := known[key]; !ok {
			known[key] = int64(len(g.texts))
			g.texts = append(g.texts, texts)
		}
		for int64(len(g.of)) <= id {
			g.of = append(g.of, 0)
		}
		g.of[id] = known[key]
	}
	return g, rows.Err()
}

func (g *grouping) group(id int64) int64 {
	if id < int64(len(g.of)) {
		return g.of[id]
	}
	return 0
}

func (t *tally) run(ctx context.Context, db queryer) error {
	c := conditions{where: []string{"true"}}
	if t.from != math.MinInt64 {
		c.add("to_time >= ?", t.from*3600_000)
	}
	if t.to != math.MaxInt64 {
		c.add("from_time < ?", (t.to+1)*3600_000)
	}
	rows, err := db.QueryContext(ctx, "select head, sums from block join counts using (first) where "+strings.Join(c.where, " and "), c.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var head, counts []byte
		if err := rows.Scan(&head, &counts); err != nil {
			return err
		}
		h, err := readHead(head, nil)
		if err == nil {
			err = t.block(h, counts)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), t.loose(ctx, db))
}

// block adds the counts of a block, whose parts are by their places in its head.
func (t *tally) block(head blockHead, counts []byte) error {
	damaged := false
	err := eachCount(counts, func(c *countRow) {
		if c.who >= uint64(len(head[dictWho])) || c.shape >= uint64(len(head[dictShape])) || c.ending >= uint64(len(head[dictEnding])) {
			damaged = true
			return
		}
		t.add(groupKey{head[dictWho][c.who], head[dictShape][c.shape], head[dictEnding][c.ending], c.hour}, &c.hourCount)
	})
	if damaged {
		return errDamaged
	}
	return err
}

// loose adds the requests that are in no block and have ended.
func (t *tally) loose(ctx context.Context, db queryer) error {
	rows, err := db.QueryContext(ctx, "select "+looseColumns+" from loose where ending not in (select id from ending where status = 'running')")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r indexRow
		if err := r.scan(rows); err != nil {
			return err
		}
		t.add(groupKey{r.who, r.shape, r.ending, r.time / int64(time.Hour)}, &hourCount{1, r.rows, r.nanos})
	}
	return rows.Err()
}

// add counts what has these parts, if it is wanted.
func (t *tally) add(k groupKey, c *hourCount) {
	w := t.wanted
	if k.hour < t.from || k.hour > t.to || !w.who.has(k.who) || !w.shape.has(k.shape) || !w.ending.has(k.ending) || !w.kind(k.shape, k.ending) {
		return
	}
	hour := int64(0)
	if t.unit > 0 {
		hour = k.hour / t.unit * t.unit
	}
	g := groupKey{t.groupings[0].group(k.who), t.groupings[1].group(k.shape), t.groupings[2].group(k.ending), hour}
	sum := t.counts[g]
	if sum == nil {
		sum = &hourCount{}
		t.counts[g] = sum
	}
	sum.n, sum.rows, sum.nanos = sum.n+c.n, sum.rows+c.rows, sum.nanos+c.nanos
}

// result returns the counts, the largest first.
func (t *tally) result(limit int) []Count {
	all := make([]Count, 0, len(t.counts))
	for k, sum := range t.counts {
		c := Count{By: make([]string, t.width), Requests: sum.n, Rows: sum.rows, Mean: time.Duration(sum.nanos / max(sum.n, 1))}
		for i, group := range []int64{k.who, k.shape, k.ending} {
			g := t.groupings[i]
			for n, column := range g.columns {
				c.By[column] = g.texts[group][n]
			}
		}
		for column, layout := range t.layouts {
			c.By[column] = time.Unix(k.hour*3600, 0).UTC().Format(layout)
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), slices.Compare(a.By, b.By))
	})
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all
}
