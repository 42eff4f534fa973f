package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// follower keeps an index up with a log.
type follower struct {
	// claim begins to write. What it returns is used until something fails.
	claim   func(ctx context.Context, logDir string) (*indexWriter, error)
	timeout time.Duration // of one part; 0: none

	writing sync.Mutex // protects the following
	w       *indexWriter

	mu    sync.Mutex // protects the following
	taken uint64
	err   error
}

// Taken returns the last entry that is known to be in the index, and why the last try to go on has failed.
func (x *follower) Taken() (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.taken, x.err
}

// tried takes down the end of a try, and reports if it is the first in a row that has failed.
func (x *follower) tried(err error) (first bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first = err != nil && x.err == nil
	x.err = err
	return first
}

func (x *follower) took(seq uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken = seq
}

// end gives up what the writer holds.
func (x *follower) end() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.leave()
}

func (x *follower) leave() error {
	w := x.w
	x.w = nil
	if w == nil || w.release == nil {
		return nil
	}
	return w.release()
}

// Follow keeps the index up with a log until ctx ends. limit returns the last entry to take. What fails is tried again, and
// told once.
func (x *follower) Follow(ctx context.Context, logDir string, limit func() uint64, failed func(error)) {
	tick := time.NewTicker(indexInterval)
	defer tick.Stop()
	for {
		more, err := x.CatchUp(ctx, logDir, limit())
		if ctx.Err() == nil && x.tried(err) {
			failed(err)
		}
		if more && err == nil && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

const (
	indexInterval = time.Second
	indexBytes    = 16 << 20 // of the log in one transaction
)

// CatchUp takes the next part of a log, up to entry last (0: to the end), and reports if there may be more.
func (x *follower) CatchUp(ctx context.Context, logDir string, last uint64) (more bool, err error) {
	x.writing.Lock()
	defer x.writing.Unlock()
	if x.timeout > 0 {
		var done func()
		ctx, done = context.WithTimeout(ctx, x.timeout)
		defer done()
	}
	if more, err = x.step(ctx, logDir, last); err != nil { // what the writer remembers may not be in the database
		return false, errors.Join(fmt.Errorf("writing the audit index: %w", err), x.leave())
	}
	x.took(x.w.next.Seq)
	return more, nil
}

func (x *follower) step(ctx context.Context, logDir string, last uint64) (more bool, err error) {
	if x.w == nil {
		if x.w, err = x.claim(ctx, logDir); err != nil {
			return false, err
		}
	}
	if err := x.w.forgetPruned(ctx, logDir); err != nil {
		return false, err
	}
	if last > 0 && x.w.next.Seq >= last {
		return false, nil
	}
	return x.w.take(ctx, logDir, last)
}
