package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

const (
	segmentPrefix = "audit-"
	segmentSuffix = ".jsonl"
	lockName      = "audit.lock"
)

// segmentFile is a segment in a directory.
type segmentFile struct {
	name  string
	first uint64 // sequence number of its first entry, by its name
	// compressed is set when only the compressed form is there. name is without its suffix in any case.
	compressed bool
}

func segmentName(first uint64) string {
	return fmt.Sprintf("%s%012d%s", segmentPrefix, first, segmentSuffix)
}

// segments lists the segments of dir in order.
func segments(dir string) ([]segmentFile, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing audit segments: %w", err)
	}
	var all []segmentFile
	for _, f := range files { // in the order of names, so that a plain form comes before a compressed one
		name, compressed := strings.CutSuffix(f.Name(), zstdSuffix)
		digits, ok := strings.CutPrefix(name, segmentPrefix)
		digits, ok2 := strings.CutSuffix(digits, segmentSuffix)
		first, err := strconv.ParseUint(digits, 10, 63)
		again := len(all) > 0 && all[len(all)-1].name == name
		if ok && ok2 && err == nil && name == segmentName(first) && !again {
			all = append(all, segmentFile{name, first, compressed})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].first < all[j].first })
	return all, nil
}

// privateDir creates dir for the owner alone, or takes others' rights on it away.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the audit directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("opening the audit directory: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("closing the audit directory to others: %w", err)
	}
	return nil
}

// ErrLocked means that another process, or another Log, writes to the same directory.
var ErrLocked = errors.New("audit: the log is in use by another writer")

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the audit log: %w", err)
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockFile takes an exclusive lock that ends with the process.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return fmt.Errorf("locking the audit log: %w", err)
	}
	return nil
}

// syncDir makes new and removed names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
