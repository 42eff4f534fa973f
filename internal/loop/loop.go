// Package loop lets one goroutine wait for the sockets of many sessions.
//
// Go gives each blocked read a goroutine and wakes it through the scheduler. For a session that alternates between its client
// and its server, that is most of what a small statement costs: reads that find nothing, a scheduler that looks for work, threads
// that are woken. A Loop asks the kernel about all of its sockets at once and continues the task that waited for one by switching
// to it, as one function calls another.
//
// A task is written as if it had a goroutine of its own. It is a coroutine: reading from or writing to a Conn that is attached to
// the loop suspends it, and the loop goes on with others. What else it may wait for (a lock that is held for long, another
// server, the disk) would stop all sessions of the loop, so it says so before, by Leave: then it goes on in a goroutine until it
// comes to wait for a socket again. If it does not say so, the loop is handed to another goroutine after a few milliseconds: a
// forgotten Leave costs time, and nothing stands still.
//
// Where there is no epoll(7) nothing is attached, and tasks are goroutines.
package loop

import (
	"context"
	"iter"
	"runtime"
	"sync/atomic"
)

// Group is some loops that share the sessions of a door. The nil Group has none, and attaches nothing.
type Group struct {
	loops []*Loop
	next  atomic.Uint64
}

// New starts loops, one for each two processors: the sessions' servers and clients need processors too, and a loop does more for
// each question to the kernel the more sessions it has.
func New() (*Group, error) {
	g := &Group{}
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		l, err := start()
		if err != nil {
			g.Close()
			return nil, err
		}
		g.loops = append(g.loops, l)
	}
	return g, nil
}

// Pick returns the loop for the next session, nil if there is none.
func (g *Group) Pick() *Loop {
	if g == nil || len(g.loops) == 0 {
		return nil
	}
	return g.loops[g.next.Add(1)%uint64(len(g.loops))]
}

// Close ends the loops. All connections that were attached must be closed before.
func (g *Group) Close() {
	if g == nil {
		return
	}
	for _, l := range g.loops {
		l.close()
	}
}

// Task is a function that a loop can suspend and continue.
type Task struct {
	next     func() (*side, bool)
	yield    func(*side) bool
	attached bool // a loop's goroutine runs it now; of the task and of who runs it
	taken    int  // bytes that it has read since it was continued
}

// mostTaken is how much a task reads in a row before the loop goes on with others. It then goes on beside the loop.
const mostTaken = 64 << 10

// Go runs f as a task, in a goroutine at first.
func Go(f func(t *Task)) {
	t := &Task{}
	t.next, _ = iter.Pull(func(yield func(*side) bool) {
		t.yield = yield
		f(t)
	})
	go t.drive()
}

// drive continues a task in a goroutine of its own until it waits for a socket.
func (t *Task) drive() {
	for {
		t.attached, t.taken = false, 0
		s, ok := t.next()
		if !ok || s != nil && s.park(t) {
			return
		}
	}
}

// Leave lets the loop go on with others while the task does something that may take long. It is called by the task itself. A nil
// task leaves nothing.
func (t *Task) Leave() {
	if t != nil && t.attached {
		t.yield(nil)
	}
}

// await suspends the task until a side of a socket may be ready.
func (t *Task) await(s *side) { t.yield(s) }

type taskKey struct{}

// With returns a context that Leave knows the task by. It must not be used beyond the task's own goroutine.
func With(ctx context.Context, t *Task) context.Context { return context.WithValue(ctx, taskKey{}, t) }

// Leave is called before a wait that is not for a socket of the loop. It does nothing if ctx is not a task's.
func Leave(ctx context.Context) {
	t, _ := ctx.Value(taskKey{}).(*Task)
	t.Leave()
}
