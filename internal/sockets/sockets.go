// Package sockets makes TCP connections end when the other end has vanished without a word: a machine that lost its power or
// its network says no goodbye.
package sockets

import (
	"fmt"
	"net"
	"time"
)

// Bounds say how long the other end may be silent. The zero value leaves a connection as it is.
type Bounds struct {
	// Idle is how long an end that does not answer goes unnoticed while nothing is sent to it.
	Idle time.Duration
	// Stalled is how long what was sent may stay unacknowledged, or untaken because the other end does not read.
	Stalled time.Duration
}

// probes are how many questions go unanswered before an idle connection ends.
const probes = 4

// Watch sets the bounds of a connection. One that is not TCP needs none: its other end is on this machine.
func Watch(c net.Conn, b Bounds) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	if b.Idle > 0 {
		// Half of the time passes before the first question, the rest between the others.
		each := max(b.Idle/(2*probes), time.Second)
		err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: max(b.Idle/2, time.Second), Interval: each, Count: probes})
		if err != nil {
			return fmt.Errorf("setting keepalive: %w", err)
		}
	}
	if b.Stalled <= 0 {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("setting the user timeout: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = setUserTimeout(int(fd), b.Stalled) }); err != nil {
		failed = err
	}
	if failed != nil {
		return fmt.Errorf("setting the user timeout: %w", failed)
	}
	return nil
}
