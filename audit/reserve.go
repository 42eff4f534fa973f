package audit

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// reserve is disk space that is kept for outcomes: what runs when the disk becomes full can still be accounted for.
type reserve struct {
	path  string
	size  int64
	used  bool
	tried time.Time // last attempt to take the space back
}

const reserveName = "audit.reserve"

func newReserve(cfg *Config) *reserve {
	r := &reserve{path: filepath.Join(cfg.Dir, reserveName), size: cfg.ReserveBytes, used: true}
	r.restore()
	return r
}

// open gives the space away after a write failed for want of it, and reports if there was any.
func (r *reserve) open(err error) bool {
	if r.used || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return false
	}
	r.used, r.tried = true, time.Now()
	return os.Truncate(r.path, 0) == nil
}

// restore takes the space back, if there is enough.
func (r *reserve) restore() bool {
	if time.Since(r.tried) < 100*time.Millisecond {
		return false
	}
	r.tried = time.Now()
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() == r.size {
		r.used = false
		return true
	}
	if _, err := f.WriteAt(make([]byte, r.size), 0); err != nil {
		_ = f.Truncate(0)
		return false
	}
	r.used = false
	return true
}
