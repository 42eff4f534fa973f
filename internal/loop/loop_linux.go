package loop

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	// batch is how many sockets one question to the kernel tells about.
	batch = 128
	// patience is how long a task may hold up a loop before the loop goes on in another goroutine, at least; at most it is twice.
	patience = 2 * time.Millisecond
	// rest is how often nothing is to be seen before the loop's watcher goes to sleep.
	rest = 50
	// glances is how often a loop that finds nothing lets others run and looks again before it sleeps: to be woken costs more, and
	// costs whoever does it as well.
	glances = 12
)

// Loop waits for the sockets of some sessions. One goroutine at a time runs it.
type Loop struct {
	poll int // epoll
	bell int // eventfd that wakes the loop
	rung atomic.Bool

	mu      sync.Mutex
	slots   []*socket
	free    []int32
	posted  []*Task // to be continued
	closing bool
	ended   bool

	// Of the goroutine that runs the loop.
	queue  []*Task // tasks that can go on
	next   int     // the first of them that has not
	events [batch]syscall.EpollEvent

	// step is odd while a task is being continued. Whoever changes it then goes on with the loop.
	step     atomic.Uint64
	watched  atomic.Bool
	watching chan struct{}
	quit     chan struct{}
}

func start() (*Loop, error) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	bell, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		syscall.Close(poll)
		return nil, fmt.Errorf("eventfd: %w", errno)
	}
	l := &Loop{poll: poll, bell: int(bell), watching: make(chan struct{}, 1), quit: make(chan struct{})}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: -1}
	if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, l.bell, &ev); err != nil {
		syscall.Close(poll)
		syscall.Close(l.bell)
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	go l.run()
	go l.watchOver()
	return l, nil
}

// close makes the loop end.
func (l *Loop) close() {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.ring()
}

// edges are what the loop wants to be told of a socket, once each time: the last bit is EPOLLET, whose sign in package syscall
// depends on the processor.
const edges uint32 = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | 1<<31

// add makes the loop look at a socket.
func (l *Loop) add(s *socket) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		s.slot, l.free = l.free[n-1], l.free[:n-1]
		l.slots[s.slot] = s
	} else {
		s.slot = int32(len(l.slots))
		l.slots = append(l.slots, s)
	}
	ev := syscall.EpollEvent{Events: edges, Fd: s.slot}
	if err := syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_ADD, s.fd, &ev); err != nil {
		l.vacate(s)
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// forget makes the loop look away from a socket that is about to be closed.
func (l *Loop) forget(s *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		_ = syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_DEL, s.fd, nil)
		l.vacate(s)
	}
}

func (l *Loop) vacate(s *socket) {
	l.slots[s.slot] = nil
	l.free = append(l.free, s.slot)
}

// post has a task continued by the loop.
func (l *Loop) post(t *Task) {
	l.mu.Lock()
	l.posted = append(l.posted, t)
	l.mu.Unlock()
	l.ring()
}

func (l *Loop) ring() {
	if !l.rung.Swap(true) {
		one := [8]byte{1}
		_, _ = syscall.Write(l.bell, one[:])
	}
}

// run goes on with the loop until it is closed, or until another goroutine has taken over.
func (l *Loop) run() {
	for {
		for l.next < len(l.queue) {
			t := l.queue[l.next]
			l.queue[l.next] = nil
			l.next++
			if !l.proceed(t) {
				return
			}
		}
		l.queue, l.next = l.queue[:0], 0
		if !l.gather() {
			l.shut()
			return
		}
	}
}

// proceed continues a task. It returns false if that took so long that another goroutine runs the loop now.
func (l *Loop) proceed(t *Task) bool {
	step := l.step.Add(1)
	l.watch()
	t.attached, t.taken = true, 0
	for {
		s, ok := t.next()
		mine := l.step.CompareAndSwap(step, step+1)
		switch {
		case !ok || s != nil && s.park(t):
			return mine
		case s == nil && mine:
			go t.drive()
			return true
		case !mine:
			t.drive()
			return false
		}
		step = l.step.Add(1)
	}
}

// gather waits for the kernel and queues the tasks that can go on. It returns false when the loop is closed.
func (l *Loop) gather() bool {
	n := l.look()
	for i := 0; n == 0 && i < glances; i++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
		n = l.look()
	}
	if n == 0 {
		var err error
		if n, err = syscall.EpollWait(l.poll, l.events[:], -1); err != nil && err != syscall.EINTR {
			return false
		}
	}
	for _, ev := range l.events[:max(n, 0)] {
		if ev.Fd < 0 {
			if !l.answer() {
				return false
			}
			continue
		}
		l.mu.Lock()
		s := l.slots[ev.Fd]
		l.mu.Unlock()
		if s != nil {
			l.note(s, ev.Events)
		}
	}
	return true
}

// look asks the kernel without waiting, and so without telling Go's scheduler; see call.
func (l *Loop) look() int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.poll), uintptr(unsafe.Pointer(&l.events)), batch, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// note queues who waited for what has happened to a socket.
func (l *Loop) note(s *socket, events uint32) {
	over := events&(syscall.EPOLLERR|syscall.EPOLLHUP) != 0
	if over || events&(syscall.EPOLLIN|syscall.EPOLLRDHUP) != 0 {
		l.enqueue(s.reading.event(over || events&syscall.EPOLLRDHUP != 0))
	}
	if over || events&syscall.EPOLLOUT != 0 {
		l.enqueue(s.writing.event(over))
	}
}

func (l *Loop) enqueue(t *Task) {
	if t != nil {
		l.queue = append(l.queue, t)
	}
}

// answer takes what was posted. It returns false when the loop is to end.
func (l *Loop) answer() bool {
	var count [8]byte
	_, _ = syscall.Read(l.bell, count[:])
	l.rung.Store(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, l.posted...)
	l.posted = l.posted[:0]
	return !l.closing
}

func (l *Loop) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.quit)
	syscall.Close(l.poll)
	syscall.Close(l.bell)
}

// watchOver sees to it that the loop goes on when a task holds it up. It sleeps while nothing happens.
func (l *Loop) watchOver() {
	for {
		select {
		case <-l.watching:
		case <-l.quit:
			return
		}
		if !l.lookOut() {
			return
		}
		l.watched.Store(false)
		if l.step.Load()%2 == 1 { // it began while we looked away
			l.watch()
		}
	}
}

// lookOut returns when nothing has happened for a while, or false when the loop has ended.
func (l *Loop) lookOut() bool {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for idle := 0; idle < rest; {
		before := l.step.Load()
		select {
		case <-tick.C:
		case <-l.quit:
			return false
		}
		switch {
		case l.step.Load() != before:
			idle = 0
		case before%2 == 0:
			idle++
		case l.step.CompareAndSwap(before, before+1): // it stands still
			go l.run()
		}
	}
	return true
}

// watch wakes the watcher, if it sleeps.
func (l *Loop) watch() {
	if !l.watched.Load() && !l.watched.Swap(true) {
		l.watching <- struct{}{}
	}
}
