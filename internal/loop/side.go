package loop

import (
	"sync"
	"sync/atomic"
	"time"
)

// side is one direction of a socket, and who waits for it.
type side struct {
	loop *Loop
	task atomic.Pointer[Task] // whose reads, or writes, these are

	mu       sync.Mutex
	ready    bool // something may have happened since the last attempt
	ended    bool // nothing will ever have to be waited for
	expired  bool // the deadline has passed
	deadline time.Time
	timer    *time.Timer
	armed    time.Time // when the timer fires, zero if it does not
	parked   *Task
	others   []chan struct{} // who waits and is no task
}

// begin is called before an attempt to read or write. It returns false if the deadline has passed.
func (s *side) begin() (inTime bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = false
	return !s.expired
}

// more is called after an attempt that may have left something.
func (s *side) more() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

// stir wakes who waits: they try again.
func (s *side) stir() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
}

// end wakes who waits, now and in future.
func (s *side) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.wake()
}

func (s *side) wake() {
	if t := s.arouse(); t != nil {
		s.loop.post(t)
	}
}

// arouse marks the side as ready, wakes who waits and is no task, and returns the task that has to be continued.
func (s *side) arouse() *Task {
	s.ready = true
	for _, c := range s.others {
		close(c)
	}
	s.others = nil
	t := s.parked
	s.parked = nil
	return t
}

// event is what the loop's own goroutine does when the kernel says that the side may be ready.
func (s *side) event(ended bool) *Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = s.ended || ended
	return s.arouse()
}

// park makes a suspended task wait. It returns false if it need not.
func (s *side) park(t *Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready || s.ended || s.expired {
		return false
	}
	s.parked = t
	return true
}

// idle reports if there is nothing to be had before the kernel says so.
func (s *side) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ready && !s.ended && !s.expired
}

// await returns when the side may be ready. before is the task that has waited last for the same attempt.
func (s *side) await(before *Task) *Task {
	t := s.task.Load()
	if t != nil {
		t.await(s)
		return t
	}
	before.Leave() // the side was taken from it while it waited
	s.mu.Lock()
	if s.ready || s.ended || s.expired {
		s.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	s.others = append(s.others, c)
	s.mu.Unlock()
	<-c
	return nil
}

// setDeadline is that of net.Conn. The timer is left alone as far as possible, for a deadline often moves with each message.
func (s *side) setDeadline(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline, s.expired = at, false
	if at.IsZero() {
		return
	}
	left := time.Until(at)
	switch {
	case left <= 0:
		s.expired = true
		s.wake()
	case s.timer == nil:
		s.timer, s.armed = time.AfterFunc(left, s.expire), at
	case s.armed.IsZero() || s.armed.After(at):
		s.timer.Reset(left)
		s.armed = at
	}
}

// expire is the timer's function.
func (s *side) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = time.Time{}
	if s.deadline.IsZero() || s.expired || s.ended {
		return
	}
	if left := time.Until(s.deadline); left > 0 {
		s.timer.Reset(left)
		s.armed = s.deadline
		return
	}
	s.expired = true
	s.wake()
}
