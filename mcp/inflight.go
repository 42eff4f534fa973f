package mcp

import "sync"

// inFlight counts the requests that are being answered. A WaitGroup would not do: requests may begin while somebody
// waits, on connections that were accepted before a Shutdown.
type inFlight struct {
	mu     sync.Mutex
	ended  sync.Cond // uses mu
	count  int
	closed bool
}

// enter counts a request, unless no more are taken. It must be followed by leave if it returns true.
func (f *inFlight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.count++
	return true
}

func (f *inFlight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	if f.count == 0 && f.ended.L != nil {
		f.ended.Broadcast()
	}
}

// close takes no more requests.
func (f *inFlight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// wait returns when no request is being answered.
func (f *inFlight) wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended.L = &f.mu
	for f.count > 0 {
		f.ended.Wait()
	}
}
