// Package auditship sends the audit log to other places: files, HTTP endpoints and syslog servers.
//
// A Shipper reads the log behind the writer, so a slow or absent receiver holds up nobody: what it has not taken stays in
// the log until it has. Its position is kept in a file of its own and moved only when the receiver has confirmed. A batch
// that may have been received before, because the gateway died or the connection broke in between, is sent again and
// marked as such; every entry carries its node and number, by which a receiver can tell as well.
package auditship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"interlock/audit"
)

// Batch is a run of entries.
type Batch struct {
	Node        string
	First, Last uint64         // sequence numbers
	Entries     []*audit.Entry // the texts are valid until Send returns
	Again       bool           // it may have been received before
}

// Sink takes batches. Send returns nil when the receiver has everything; otherwise the batch is sent again.
type Sink interface {
	Send(context.Context, *Batch) error
	Close() error
}

// Shipper sends a log to one sink. Its fields are set before Run.
type Shipper struct {
	Name      string // of the sink; names its position file
	Node      string
	Dir       string // of the log
	Positions string // directory of position files
	Sink      Sink
	// OnlyCheckpoints leaves out all but signed checkpoints.
	OnlyCheckpoints bool
	// Limit returns the last entry that may be sent: one on the disk.
	Limit func() uint64
	Log   zerolog.Logger

	mu     sync.Mutex // protects the following
	state  state
	failed error // why the last batch was not taken
	since  time.Time
}

// state is what a position file holds.
type state struct {
	Sent audit.Cursor `json:"sent"`
	// Tried is the last entry of a batch that was begun and is not confirmed.
	Tried uint64 `json:"tried,omitempty"`
}

// Status is how far a sink has come.
type Status struct {
	Name   string    `json:"name"`
	Sent   uint64    `json:"sent"` // last entry that the receiver has
	Lag    uint64    `json:"lag"`  // entries on the disk that it has not
	Err    string    `json:"error,omitempty"`
	Failed time.Time `json:"failing_since,omitzero"`
}

// Status returns how far the sink has come.
func (s *Shipper) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Name: s.Name, Sent: s.state.Sent.Seq, Failed: s.since}
	if last := s.Limit(); last > st.Sent {
		st.Lag = last - st.Sent
	}
	if s.failed != nil {
		st.Err = "the receiver does not take entries" // what it says can name hosts
	}
	return st
}

// PositionFile is where the position of a sink is kept.
func PositionFile(dir, name string) string { return filepath.Join(dir, name+".json") }

// Sent returns the last entry that a sink has confirmed, by its position file.
func Sent(dir, name string) (uint64, error) {
	var st state
	if err := st.read(PositionFile(dir, name)); err != nil {
		return 0, err
	}
	return st.Sent.Seq, nil
}

func (st *state) read(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, st)
	}
	if err != nil {
		return fmt.Errorf("reading the position of an audit sink: %w", err)
	}
	return nil
}

// write replaces a position file in one step.
func (st *state) write(path string) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

const (
	batchBytes   = 1 << 20
	batchEntries = 2000
	pollInterval = 200 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// Run sends until ctx ends. A position file that cannot be read is an error: beginning anew would send everything twice.
func (s *Shipper) Run(ctx context.Context) error {
	if err := os.MkdirAll(s.Positions, 0o700); err != nil {
		return fmt.Errorf("making the directory of positions: %w", err)
	}
	if err := s.resume(); err != nil {
		return err
	}
	defer s.Sink.Close()
	wait, backoff := time.Duration(0), pollInterval
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		more, err := s.step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.fail(err)
			wait, backoff = backoff, min(2*backoff, maxBackoff)
		case more:
			wait, backoff = 0, pollInterval
		default:
			wait, backoff = pollInterval, pollInterval
		}
	}
}

// resume takes up the position that the last run has left.
func (s *Shipper) resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.read(PositionFile(s.Positions, s.Name))
}

func (s *Shipper) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.since = time.Now()
		s.Log.Error().Err(err).Str("sink", s.Name).Msg("the audit log is not taken; it is tried again")
	}
	s.failed = err
}

// step sends one batch and reports if there may be more.
func (s *Shipper) step(ctx context.Context) (more bool, err error) {
	last := s.Limit()
	if last <= s.state.Sent.Seq {
		return false, nil
	}
	b, next, err := s.read(last)
	if err != nil || next.Seq == s.state.Sent.Seq {
		return false, err
	}
	if len(b.Entries) > 0 {
		b.Again = b.First <= s.state.Tried
		if err := s.send(ctx, b); err != nil {
			return false, err
		}
	}
	return true, s.advance(state{Sent: next})
}

func (s *Shipper) read(last uint64) (*Batch, audit.Cursor, error) {
	b := &Batch{Node: s.Node}
	next, _, err := audit.ReadAfter(s.Dir, s.state.Sent, last, batchBytes, func(e *audit.Entry) bool {
		if _, is := e.Checkpoint(); is || !s.OnlyCheckpoints {
			kept := *e
			kept.Text = append([]byte{}, e.Text...)
			b.Entries = append(b.Entries, &kept)
			b.Last = e.Seq
		}
		return len(b.Entries) < batchEntries
	})
	if len(b.Entries) > 0 {
		b.First = b.Entries[0].Seq
	}
	return b, next, err
}

// send notes what is about to be sent, so that a batch that is sent again is known as such, and sends it.
func (s *Shipper) send(ctx context.Context, b *Batch) error {
	if b.Last > s.state.Tried {
		if err := s.advance(state{Sent: s.state.Sent, Tried: b.Last}); err != nil {
			return err
		}
	}
	return s.Sink.Send(ctx, b)
}

func (s *Shipper) advance(to state) error {
	if err := to.write(PositionFile(s.Positions, s.Name)); err != nil {
		return fmt.Errorf("keeping the position of an audit sink: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = to
	if to.Tried == 0 {
		s.failed, s.since = nil, time.Time{}
	}
	return nil
}
