package upstream

import (
	"crypto/tls"
	"net"
	"syscall"

	"interlock/internal/loop"
)

// beneath returns the connection that TLS is spoken over, or the connection itself.
func beneath(nc net.Conn) net.Conn {
	if secured, ok := nc.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return nc
}

// quiet tells if a connection is open and nothing has arrived on it. It does not wait.
func quiet(nc net.Conn) bool {
	nc = beneath(nc)
	if wrapped, ok := nc.(*loop.Conn); ok {
		nc = wrapped.Conn
	}
	sys, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return false
	}
	idle := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		idle = err == syscall.EAGAIN
		return true
	})
	return err == nil && idle
}
