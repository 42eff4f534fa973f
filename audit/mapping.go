package audit

import (
	"errors"
	"os"
	"runtime/debug"
	"syscall"
)

// mapping is a file of a fixed size that is written by way of memory. What was written outlives the process, as after a
// write, and costs no system call.
type mapping struct {
	file *os.File
	mem  []byte
}

// openMapping opens or creates a file, gives it its whole size with space on the disk, and maps it.
func openMapping(path string, size int) (*mapping, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	m := &mapping{file: f}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() < int64(size):
		_, err = f.WriteAt(make([]byte, int64(size)-info.Size()), info.Size())
	case info.Size() > int64(size):
		err = f.Truncate(int64(size))
	}
	if err == nil {
		m.mem, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// write puts b at an offset. The memory cannot be written if the file was cut or its disk fails; that must be an error
// here and not the end of the process.
func (m *mapping) write(b []byte, at int) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			_, err = m.file.WriteAt(b, int64(at))
		}
	}()
	copy(m.mem[at:], b)
	return nil
}

func (m *mapping) close() error { return errors.Join(syscall.Munmap(m.mem), m.file.Close()) }
