package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	return stats(ctx, x.db, sqlite, &f, by)
}

// stats counts in all parts of an index.
func stats(ctx context.Context, db *sql.DB, d *dialect, f *audit.Filter, by []string) ([]Count, error) {
	if f.ID != "" || f.Session != "" || f.Client != "" || f.Trace != "" || f.Event != "" {
		return nil, errors.New("statistics cannot be selected by decision, session, client, trace or event")
	}
	var t *tally
	err := viewed(ctx, db, d, func(db queryer) (err error) {
		if t, err = newTally(ctx, db, f, by); err == nil {
			err = t.run(ctx, db)
		}
		return err
	})
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
	counts    *groupCounts
}

// maxHour is the last that Unix milliseconds can tell.
const maxHour = math.MaxInt64/3600_000 - 1

// grouping says which rows of a dictionary are of one group: they have the same texts in some columns.
type grouping struct {
	columns []int      // of the result
	of      []int64    // by id; nil if there is one group
	texts   [][]string // by group
}

func newTally(ctx context.Context, db queryer, f *audit.Filter, by []string) (t *tally, err error) {
	t = &tally{width: len(by), layouts: map[int]string{}, from: -maxHour, to: maxHour}
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
	if t.wanted, err = wantedBy(ctx, db, &only); err != nil {
		return nil, err
	}
	for i, table := range []string{"who", "shape", "ending"} {
		if t.groupings[i], err = newGrouping(ctx, db, table, columns[table]); err != nil {
			return nil, err
		}
	}
	t.counts = t.newCounts()
	return t, nil
}

func (t *tally) newCounts() *groupCounts {
	return newGroupCounts(t.groupings[0].size()*t.groupings[1].size()*t.groupings[2].size(), t.unit > 0)
}

func (t *tally) newCounter() *counter { return &counter{tally: t, counts: t.newCounts()} }

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

// size is how many groups there are.
func (g *grouping) size() int64 { return int64(max(1, len(g.texts))) }

// run counts what the blocks have, several at a time, and what is loose.
func (t *tally) run(ctx context.Context, db queryer) error {
	blocks, free := make(chan *countedBlock, aheadBlocks), make(chan *countedBlock, aheadBlocks)
	for range aheadBlocks {
		free <- &countedBlock{}
	}
	group, within := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(blocks)
		return t.read(within, db, free, blocks)
	})
	counters := make([]*counter, runtime.GOMAXPROCS(0))
	for i := range counters {
		counters[i] = t.newCounter()
		group.Go(func() error {
			for b := range blocks {
				if err := counters[i].block(b); err != nil {
					return err
				}
				free <- b
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	t.counts = counters[0].counts
	for _, c := range counters[1:] {
		t.counts.merge(c.counts)
	}
	return t.loose(ctx, db)
}

// countedBlock is a block as it is stored.
type countedBlock struct{ head, sums blob }

// aheadBlocks is how many blocks are in memory at a time.
const aheadBlocks = 8

// read takes the blocks in which there can be something, with as little of their counts as says all.
func (t *tally) read(ctx context.Context, db queryer, free <-chan *countedBlock, to chan<- *countedBlock) error {
	const hour = 3600_000
	rows, err := db.QueryContext(ctx, "select head, "+t.enough()+" from block join counts using (part, first) where to_time >= ? and from_time < ?",
		t.from*hour, (t.to+1)*hour)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var b *countedBlock
		select {
		case b = <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := rows.Scan(&b.head, &b.sums); err != nil {
			return err
		}
		to <- b
	}
	return rows.Err()
}

// enough names the counts that say all of a block.
func (t *tally) enough() string {
	w := t.wanted
	switch who, shape := t.groupings[dictWho], t.groupings[dictShape]; {
	case w.shape == nil && len(w.kindShape) == 0 && len(shape.columns) == 0:
		return "callers"
	case w.who == nil && len(who.columns) == 0:
		return "shapes"
	}
	return "sums"
}

// loose adds the requests that are in no block and have ended.
func (t *tally) loose(ctx context.Context, db queryer) error {
	rows, err := db.QueryContext(ctx, "select "+looseColumns+" from loose where ending not in (select id from ending where status = 'running')")
	if err != nil {
		return err
	}
	defer rows.Close()
	c := t.newCounter()
	for rows.Next() {
		var r indexRow
		if err := r.scan(rows); err != nil {
			return err
		}
		c.open(&blockHead{dictWho: {r.who}, dictShape: {r.shape}, dictEnding: {r.ending}})
		c.add(&countRow{hourKey{hour: r.time / int64(time.Hour)}, hourCount{1, r.rows, r.nanos}})
	}
	t.counts.merge(c.counts)
	return rows.Err()
}

// result returns the counts, the largest first.
func (t *tally) result(limit int) []Count {
	all, least := []Count{}, t.least(limit)
	t.counts.each(func(hour, group int64, sum *hourCount) {
		if sum.n >= least {
			all = append(all, t.line(hour, group, sum))
		}
	})
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), slices.Compare(a.By, b.By))
	})
	if limit > 0 && len(all) > limit {
		all = all[:limit]
	}
	return all
}

// least is how many requests a group has that is among the largest: there can be many more than are asked for.
func (t *tally) least(limit int) int64 {
	var all []int64
	if limit > 0 {
		t.counts.each(func(_, _ int64, sum *hourCount) { all = append(all, sum.n) })
	}
	if len(all) <= limit {
		return 0
	}
	slices.Sort(all)
	return all[len(all)-limit]
}

func (t *tally) line(hour, group int64, sum *hourCount) Count {
	c := Count{By: make([]string, t.width), Requests: sum.n, Rows: sum.rows, Mean: time.Duration(sum.nanos / max(sum.n, 1))}
	for _, g := range slices.Backward(t.groupings[:]) {
		for n, column := range g.columns {
			c.By[column] = g.texts[group%g.size()][n]
		}
		group /= g.size()
	}
	for column, layout := range t.layouts {
		c.By[column] = time.Unix(hour*3600, 0).UTC().Format(layout)
	}
	return c
}
