package sockets

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// pair is a TCP connection within this machine.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	return here, there
}

// The kernel says what is set, in the units of tcp(7).
func TestWatchSets(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	here, _ := pair(t)
	if err := Watch(here, Bounds{Idle: 2 * time.Minute, Stalled: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	raw, err := here.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]struct{ level, option, want int }{
		"SO_KEEPALIVE":     {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		"TCP_KEEPIDLE":     {syscall.IPPROTO_TCP, 4, 60},
		"TCP_KEEPINTVL":    {syscall.IPPROTO_TCP, 5, 15},
		"TCP_KEEPCNT":      {syscall.IPPROTO_TCP, 6, 4},
		"TCP_USER_TIMEOUT": {syscall.IPPROTO_TCP, 18, 600_000},
	} {
		var got int
		var failed error
		if err := raw.Control(func(fd uintptr) { got, failed = syscall.GetsockoptInt(int(fd), o.level, o.option) }); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if got != o.want {
			t.Errorf("%s is %d, not %d", name, got, o.want)
		}
	}
}

// An end that does not take what it is sent, though its machine is there, does not hold the connection for ever.
func TestStalledPeerEnds(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	here, _ := pair(t) // nobody reads from the other end
	if err := Watch(here, Bounds{Stalled: 500 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if err := here.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = here.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("it is not cut by the kernel: %v", err)
	}
}

// What is no TCP connection is left alone.
func TestWatchOther(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	go io.Copy(io.Discard, b)
	if err := Watch(a, Bounds{Idle: time.Minute, Stalled: time.Minute}); err != nil {
		t.Error(err)
	}
}
