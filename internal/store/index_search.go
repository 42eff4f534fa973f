package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"interlock/audit"
)

// Search calls yield for the requests that f selects in the log that is indexed, as audit.Search does. Those that
// were pruned from the log are left out. How a request ended is read from the log if it is not in the index yet.
func (x *Index) Search(ctx context.Context, logDir string, f audit.Filter, yield func(audit.View) bool) error {
	return viewed(ctx, x.db, sqlite, func(db queryer) error {
		w, err := wantedBy(ctx, db, &f)
		if err != nil {
			return fmt.Errorf("searching the audit index: %w", err)
		}
		return search(ctx, db, w, &logTexts{db: db, places: audit.Places{Dir: logDir}}, yield)
	})
}

// requests reads what a search has found.
type requests interface {
	// read returns a request; audit.ErrNotFound if it was pruned. Its status is running if the outcome is not known.
	read(ctx context.Context, f *found) (audit.View, error)
	// place is the part of the index that is searched, and the last entry that was pruned from it.
	place(ctx context.Context) (part int64, pruned uint64, err error)
	close() error
}

// search calls yield for what is wanted of a part of an index.
func search(ctx context.Context, db queryer, w *wanted, from requests, yield func(audit.View) bool) (err error) {
	mine := *w
	s := &indexSearch{ctx: ctx, db: db, filter: w.filter, wanted: &mine, from: from, left: cmp.Or(w.filter.Limit, math.MaxInt), yield: yield}
	defer func() { err = errors.Join(err, from.close()) }()
	var pruned uint64
	if s.part, pruned, err = from.place(ctx); err == nil && !mine.nothing() {
		mine.lo = max(mine.lo, pruned+1)
		err = s.run()
	}
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("searching the audit index: %w", err)
	}
	return nil
}

// errEnough ends a search.
var errEnough = errors.New("enough")

// indexSearch is one search.
type indexSearch struct {
	ctx    context.Context
	db     queryer // of one moment
	part   int64
	filter *audit.Filter
	wanted *wanted
	from   requests
	keys   *sql.Stmt // of a block; there can be many that are looked at in vain, and so with the details
	detail *sql.Stmt
	data   blockData
	text   [3]blob           // of what is read of a block
	page   [blockPage]listed // the blocks that are looked at
	left   int
	yield  func(audit.View) bool

	loose   []*indexRow // the next ones
	looseAt uint64      // where the ones after those begin
	noLoose bool        // there are none after those
}

// order says which way the numbers go, and after what the next ones come.
func (s *indexSearch) order() (direction, beyond string) {
	if s.filter.OldestFirst {
		return "asc", ">"
	}
	return "desc", "<"
}

// start is before everything, in the order of the search, and end behind it.
func (s *indexSearch) start() uint64 { return math.MaxInt64 - s.end() }

func (s *indexSearch) end() uint64 {
	if s.filter.OldestFirst {
		return math.MaxInt64
	}
	return 0
}

// What is read of an index at a time: a connection to PostgreSQL has one result under way.
const (
	blockPage = 32
	loosePage = 256
)

// listed is a block with its head.
type listed struct {
	first            uint64
	fromTime, toTime int64
	head             blockHead
}

// run looks through the blocks in order, and brings what is loose in between.
func (s *indexSearch) run() error {
	s.looseAt = s.start()
	var err error
	if s.keys, err = s.db.PrepareContext(s.ctx, "select keys from block where part = ? and first = ?"); err != nil {
		return err
	}
	defer s.keys.Close()
	if s.detail, err = s.db.PrepareContext(s.ctx, "select details from block where part = ? and first = ?"); err != nil {
		return err
	}
	defer s.detail.Close()
	for at := s.start(); ; {
		page, err := s.blocks(at)
		if err != nil {
			return err
		}
		for i := range page {
			if err := s.block(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < blockPage {
			return s.looseUpTo(s.end())
		}
		at = page[len(page)-1].first
	}
}

// blocks lists the next blocks that can have something.
func (s *indexSearch) blocks(at uint64) ([]listed, error) {
	direction, beyond := s.order()
	where, args := s.wanted.blocks()
	rows, err := s.db.QueryContext(s.ctx, "select first, from_time, to_time, head, "+s.traces()+" from block where part = ? and first "+beyond+" ? and "+where+
		" order by first "+direction+" limit ?", append(append([]any{s.part, at}, args...), blockPage)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		l, head, traces := &s.page[n], &s.text[0], &s.text[1]
		if err := rows.Scan(&l.first, &l.fromTime, &l.toTime, head, traces); err != nil {
			return nil, err
		}
		if err := l.head.read(*head, *traces, headDicts); err != nil {
			return nil, err
		}
	}
	return s.page[:n], rows.Err()
}

func (s *indexSearch) traces() string {
	if s.wanted.trace != 0 {
		return "traces"
	}
	return "null"
}

// block yields what is wanted of a block.
func (s *indexSearch) block(l *listed) error {
	m, may := s.wanted.in(l)
	if !may {
		return nil
	}
	b := &s.data
	rows, err := s.rows(b, l, m)
	if err != nil || b.bad || len(rows) == 0 {
		return errors.Join(err, b.damage())
	}
	places := &s.text[2]
	if err := s.db.QueryRowContext(s.ctx, "select places from block where part = ? and first = ?", s.part, l.first).Scan(places); err != nil {
		return err
	}
	if err := b.addPlaces(*places); err != nil {
		return err
	}
	if !s.filter.OldestFirst {
		slices.Reverse(rows)
	}
	for _, i := range rows {
		f := b.row(i)
		if b.bad {
			return errDamaged
		}
		if err := s.looseUpTo(f.seq); err != nil {
			return err
		}
		if err := s.found(&f); err != nil {
			return err
		}
	}
	return nil
}

// rows opens a block and returns the rows that can be wanted, in order.
func (s *indexSearch) rows(b *blockData, l *listed, m *marks) ([]int, error) {
	keys, details := &s.text[0], &s.text[1]
	if err := s.keys.QueryRowContext(s.ctx, s.part, l.first).Scan(keys); err != nil {
		return nil, err
	}
	if err := b.open(l.first, &l.head, *keys); err != nil {
		return nil, err
	}
	rows := m.byKeys(b)
	if len(rows) == 0 || !m.detailed() {
		return rows, nil
	}
	if err := s.detail.QueryRowContext(s.ctx, s.part, l.first).Scan(details); err != nil {
		return nil, err
	}
	if err := b.addDetails(*details); err != nil {
		return nil, err
	}
	return m.byDetails(b, rows), nil
}

// looseUpTo yields what is wanted of the loose requests before a number, in the order of the search.
func (s *indexSearch) looseUpTo(seq uint64) error {
	for {
		r, err := s.nextLoose()
		if err != nil || r == nil || (r.seq < seq) != s.filter.OldestFirst {
			return err
		}
		s.loose = s.loose[1:]
		if s.wanted.row(r) {
			if err := s.found(&found{seq: r.seq, record: r.record, ended: r.ended, row: -1, shape: r.shape, ending: r.ending}); err != nil {
				return err
			}
		}
	}
}

// nextLoose returns the loose request whose turn it is; nil if there is none.
func (s *indexSearch) nextLoose() (*indexRow, error) {
	if len(s.loose) > 0 {
		return s.loose[0], nil
	}
	if s.noLoose {
		return nil, nil
	}
	direction, beyond := s.order()
	rows, err := s.db.QueryContext(s.ctx, "select "+looseColumns+" from loose where part = ? and segment > 0 and seq between ? and ? and seq "+beyond+
		" ? order by seq "+direction+" limit ?", s.part, s.wanted.lo, s.wanted.hi, s.looseAt, loosePage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s.loose = s.loose[:0]
	for rows.Next() {
		r := &indexRow{}
		if err := r.scan(rows); err != nil {
			return nil, err
		}
		s.loose, s.looseAt = append(s.loose, r), r.seq
	}
	if s.noLoose = len(s.loose) < loosePage; len(s.loose) == 0 {
		return nil, rows.Err()
	}
	return s.loose[0], rows.Err()
}

// found reads a request and yields it if it is what is wanted.
func (s *indexSearch) found(f *found) error {
	if f.seq < s.wanted.lo || f.seq > s.wanted.hi {
		return nil
	}
	v, err := s.from.read(s.ctx, f)
	if errors.Is(err, audit.ErrNotFound) {
		return nil // it was pruned
	}
	if err != nil {
		return err
	}
	if v.Status == audit.Running && s.wanted.unfinished.marked(f.ending) {
		v.Status = audit.Unfinished
	}
	if !s.filter.Matches(&v) {
		return nil
	}
	s.left--
	if !s.yield(v) || s.left <= 0 {
		return errEnough
	}
	return nil
}

// logTexts reads requests from the log that is indexed.
type logTexts struct {
	db     queryer
	places audit.Places
	ends   map[string]audit.Place // outcomes that are not in the index yet, by decision id; nil before they are read
}

func (l *logTexts) place(context.Context) (part int64, pruned uint64, err error) { return 0, 0, nil }

func (l *logTexts) close() error { return l.places.Close() }

func (l *logTexts) read(ctx context.Context, f *found) (audit.View, error) {
	if f.ended.Segment != 0 {
		return l.places.ReadAt(f.record, &f.ended)
	}
	v, err := l.places.ReadAt(f.record, nil)
	if err != nil || v.Status != audit.Running {
		return v, err
	}
	if l.ends == nil {
		if err := l.readEnds(ctx); err != nil {
			return v, err
		}
	}
	if at, ok := l.ends[v.ID]; ok {
		return l.places.ReadAt(f.record, &at)
	}
	return v, nil
}

// maxUnindexed bounds how much of the log is read for outcomes that are not in the index yet. It is some seconds of a busy
// gateway.
const maxUnindexed = 64 << 20

func (l *logTexts) readEnds(ctx context.Context) error {
	l.ends = map[string]audit.Place{}
	from, err := markOf(ctx, l.db, 0, "cursor")
	if err != nil {
		return err
	}
	_, _, err = audit.ReadAfter(l.places.Dir, from.Cursor, 0, maxUnindexed, func(e *audit.Entry) bool {
		if e.Type == audit.TypeOutcome {
			l.ends[e.ID] = audit.Place{Segment: audit.SegmentNumber(e.Segment), Offset: e.Offset}
		}
		return ctx.Err() == nil
	})
	return err
}
