//go:build !linux

package sockets

import "time"

// setUserTimeout leaves it to the system's own retransmission timeout, where there is no such option.
func setUserTimeout(int, time.Duration) error { return nil }
