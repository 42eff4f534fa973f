package sqlgov

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// Generations says if data has changed, to all nodes that serve it. Data is the name of a database. A generation is the
// name of one state of it, and never comes again.
//
// Who changes data calls Begin before anything is changed, and End when that has been committed or undone; in between the
// data has no state that could be named. A writer of which nothing is heard for its lease counts as ended. Data of which
// nothing is known, because it is new or because it was forgotten, counts as being changed for one lease, for then
// nobody knows who writes.
type Generations interface {
	// Generation returns the present generation; quiet is false while there is a writer.
	Generation(ctx context.Context, data string, lease time.Duration) (generation string, quiet bool, err error)
	// Begin notes a writer, or makes the lease of one longer. Either way there is a new generation.
	Begin(ctx context.Context, data, writer string, lease time.Duration) error
	// End forgets a writer and makes a new generation.
	End(ctx context.Context, data, writer string, lease time.Duration) error
}

// ownGenerations are those of a node that shares its data with no other.
type ownGenerations struct {
	mu   sync.Mutex
	made uint64
	data map[string]*state
}

// state is the present generation of some data, and its writers, by when their leases end.
type state struct {
	generation string
	writers    map[string]time.Time
}

// unknownWriter stands for those of whom nothing is known.
const unknownWriter = ""

// of returns the state of some data, without the writers whose lease has ended. With the lock held.
func (g *ownGenerations) of(data string, lease time.Duration) *state {
	now := time.Now()
	s := g.data[data]
	if s == nil {
		if g.data == nil {
			g.data = make(map[string]*state)
		}
		s = &state{writers: map[string]time.Time{unknownWriter: now.Add(lease)}}
		g.data[data] = s
		g.advance(s)
	}
	for id, until := range s.writers {
		if !now.Before(until) {
			delete(s.writers, id)
			g.advance(s)
		}
	}
	return s
}

func (g *ownGenerations) advance(s *state) {
	g.made++
	s.generation = strconv.FormatUint(g.made, 10)
}

func (g *ownGenerations) Generation(_ context.Context, data string, lease time.Duration) (string, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.of(data, lease)
	return s.generation, len(s.writers) == 0, nil
}

func (g *ownGenerations) Begin(_ context.Context, data, writer string, lease time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.of(data, lease)
	s.writers[writer] = time.Now().Add(lease)
	g.advance(s)
	return nil
}

func (g *ownGenerations) End(_ context.Context, data, writer string, lease time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.of(data, lease)
	delete(s.writers, writer)
	g.advance(s)
	return nil
}
