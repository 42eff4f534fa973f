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
	tx, err := x.db.BeginTx(ctx, nil) // so that all that is read is of one moment
	if err != nil {
		return fmt.Errorf("searching the audit index: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // only read
	s := &indexSearch{ctx: ctx, tx: tx, filter: &f, places: audit.Places{Dir: logDir}, left: cmp.Or(f.Limit, math.MaxInt), yield: yield}
	defer s.places.Close()
	if s.wanted, err = wantedBy(ctx, tx, &f); err == nil && !s.wanted.nothing() {
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
	tx     *sql.Tx
	filter *audit.Filter
	wanted *wanted
	places audit.Places
	keys   *sql.Stmt // of a block
	data   blockData
	left   int
	yield  func(audit.View) bool

	loose   *sql.Rows
	nextOne *indexRow              // the next of loose; nil if there is none
	ends    map[string]audit.Place // outcomes that are not in the index yet, by decision id; nil before they are read
}

// order says which way the numbers go.
func (s *indexSearch) order() string {
	if s.filter.OldestFirst {
		return "asc"
	}
	return "desc"
}

// run looks through the blocks in order, and brings what is loose in between.
func (s *indexSearch) run() error {
	lo, hi := s.wanted.lo, s.wanted.hi
	var err error
	s.loose, err = s.tx.QueryContext(s.ctx, "select "+looseColumns+" from loose where segment > 0 and seq between ? and ? order by seq "+s.order(), lo, hi)
	if err != nil {
		return err
	}
	defer s.loose.Close()
	if err := s.advance(); err != nil {
		return err
	}
	if s.keys, err = s.tx.PrepareContext(s.ctx, "select keys from block where first = ?"); err != nil {
		return err
	}
	defer s.keys.Close()
	where, args := s.wanted.blocks()
	blocks, err := s.tx.QueryContext(s.ctx, "select first, head, "+s.traces()+" from block where "+where+" order by first "+s.order(), args...)
	if err != nil {
		return err
	}
	defer blocks.Close()
	for blocks.Next() {
		var first uint64
		var head, traces []byte
		if err := blocks.Scan(&first, &head, &traces); err != nil {
			return err
		}
		h, err := readHead(head, traces)
		if err == nil {
			err = s.block(first, h)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(blocks.Err(), s.looseUpTo(s.end()))
}

func (s *indexSearch) traces() string {
	if s.wanted.trace != 0 {
		return "traces"
	}
	return "x''"
}

// end is behind everything, in the order of the search.
func (s *indexSearch) end() uint64 {
	if s.filter.OldestFirst {
		return math.MaxUint64
	}
	return 0
}

// block yields what is wanted of a block.
func (s *indexSearch) block(first uint64, head blockHead) error {
	m, may := s.wanted.in(head)
	if !may {
		return nil
	}
	var keys []byte
	if err := s.keys.QueryRowContext(s.ctx, first).Scan(&keys); err != nil {
		return err
	}
	b := &s.data
	if err := b.open(first, head, keys); err != nil {
		return err
	}
	rows := m.rows(b)
	if b.bad || len(rows) == 0 {
		return b.damage()
	}
	var places []byte
	if err := s.tx.QueryRowContext(s.ctx, "select places from block where first = ?", first).Scan(&places); err != nil {
		return err
	}
	if err := b.addPlaces(places); err != nil {
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

// looseUpTo yields what is wanted of the loose requests before a number, in the order of the search.
func (s *indexSearch) looseUpTo(seq uint64) error {
	for s.nextOne != nil && (s.nextOne.seq < seq) == s.filter.OldestFirst {
		r := s.nextOne
		if s.wanted.row(r) {
			if err := s.found(&found{r.seq, r.record, r.ended}); err != nil {
				return err
			}
		}
		if err := s.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (s *indexSearch) advance() error {
	s.nextOne = nil
	if !s.loose.Next() {
		return s.loose.Err()
	}
	r := &indexRow{}
	if err := r.scan(s.loose); err != nil {
		return err
	}
	s.nextOne = r
	return nil
}

// found reads a request and yields it if it is what is wanted.
func (s *indexSearch) found(f *found) error {
	if f.seq < s.wanted.lo || f.seq > s.wanted.hi {
		return nil
	}
	v, err := s.read(f)
	if errors.Is(err, audit.ErrNotFound) {
		return nil // it was pruned
	}
	if err != nil {
		return err
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

func (s *indexSearch) read(f *found) (audit.View, error) {
	if f.ended.Segment != 0 {
		return s.places.ReadAt(f.record, &f.ended)
	}
	v, err := s.places.ReadAt(f.record, nil)
	if err != nil || v.Status != audit.Running {
		return v, err
	}
	if s.ends == nil {
		if err := s.readEnds(); err != nil {
			return v, err
		}
	}
	if at, ok := s.ends[v.ID]; ok {
		return s.places.ReadAt(f.record, &at)
	}
	return v, nil
}

// maxUnindexed bounds how much of the log is read for outcomes that are not in the index yet. It is some seconds of a busy
// gateway.
const maxUnindexed = 64 << 20

func (s *indexSearch) readEnds() error {
	s.ends = map[string]audit.Place{}
	from, err := cursorOf(s.ctx, s.tx, "cursor")
	if err != nil {
		return err
	}
	_, _, err = audit.ReadAfter(s.places.Dir, from, 0, maxUnindexed, func(e *audit.Entry) bool {
		if e.Type == audit.TypeOutcome {
			s.ends[e.ID] = audit.Place{Segment: audit.SegmentNumber(e.Segment), Offset: e.Offset}
		}
		return s.ctx.Err() == nil
	})
	return err
}
