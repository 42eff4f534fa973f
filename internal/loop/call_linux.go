//go:build !race

package loop

import (
	"syscall"
	"unsafe"
)

// These calls never block, so Go's scheduler is not told of them: it would give the processor away meanwhile, and have the
// loop go on in another thread.

func read(fd int, b []byte) (int, error) { return call(syscall.SYS_READ, fd, b) }

func write(fd int, b []byte) (int, error) { return call(syscall.SYS_WRITE, fd, b) }

func call(number uintptr, fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
