package pgwire

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"sync"
	"time"
)

const (
	shortKey   = 4  // bytes of a cancel key in protocol 3.0
	longKey    = 32 // and in 3.2
	cancelTime = 5 * time.Second
)

// keyring holds the keys by which clients may cancel what their sessions run. They are ours: the server's own never
// leave the core. A key is good for the one session that it was made for.
type keyring struct {
	mu   sync.Mutex
	held map[uint32]holder
}

type holder struct {
	key     []byte
	session Session
}

// add makes a process id and a key for a session.
func (k *keyring) add(version uint32, s Session) (pid uint32, key []byte) {
	key = make([]byte, shortKey)
	if version >= version32 {
		key = make([]byte, longKey)
	}
	rand.Read(key) // never fails
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = map[uint32]holder{}
	}
	for pid = randomPID(); k.taken(pid); pid = randomPID() {
	}
	k.held[pid] = holder{key, s}
	return pid, key
}

func (k *keyring) taken(pid uint32) bool {
	_, found := k.held[pid]
	return found || pid == 0
}

// randomPID is positive as a signed number, since clients print it as one.
func randomPID() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:]) >> 1
}

func (k *keyring) remove(pid uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, pid)
}

// find returns the session that the key belongs to, or nil.
func (k *keyring) find(pid uint32, key []byte) Session {
	k.mu.Lock()
	h := k.held[pid]
	k.mu.Unlock()
	if h.session == nil || subtle.ConstantTimeCompare(h.key, key) != 1 {
		return nil
	}
	return h.session
}

// cancel serves a CancelRequest: a process id and a key. There is no answer, whatever comes of it; the connection closes when it
// is done, which is what a client that wants to know waits for.
func (s *Server) cancel(ctx context.Context, request []byte) {
	session := s.keys.find(binary.BigEndian.Uint32(request), request[4:])
	if session == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, cancelTime)
	defer stop()
	session.Cancel(ctx)
}
