package audit

import (
	"bufio"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

var ids = struct {
	sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // milliseconds
}{entropy: ulid.Monotonic(bufio.NewReaderSize(rand.Reader, 1024), 0)}

// NewID returns a ULID: 26 characters that sort by time. Those of one process are strictly increasing, also when the
// clock goes back. It is safe for concurrent use.
func NewID() string {
	ids.Lock()
	defer ids.Unlock()
	ids.last = max(ids.last, uint64(time.Now().UnixMilli()))
	id, err := ulid.New(ids.last, ids.entropy)
	if err != nil { // the random part of this millisecond is used up
		ids.last++
		id = ulid.MustNew(ids.last, ids.entropy)
	}
	return id.String()
}

// idTime returns when an id was made.
func idTime(id string) (time.Time, bool) {
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return time.Time{}, false
	}
	return ulid.Time(u.Time()), true
}
