package mcp

import (
	"context"
	"net"
	"sync"
)

// Handshake clients cancel a call by notifications/cancelled with the id of its request, and some leave the connection
// open. The endpoint has no sessions, so a call is known by the key and the address that it came with, beside its id.

// callKey is what is known of a call by which its client can cancel it.
type callKey struct{ keyID, host, id string }

// cancellable are the running calls that a notification can cancel.
type cancellable struct {
	mu      sync.Mutex
	running map[callKey][]*context.CancelFunc
}

// add makes a call cancellable until remove is called.
func (c *cancellable) add(key callKey, cancel context.CancelFunc) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = make(map[callKey][]*context.CancelFunc)
	}
	mine := &cancel
	c.running[key] = append(c.running[key], mine)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		var left []*context.CancelFunc
		for _, other := range c.running[key] {
			if other != mine {
				left = append(left, other)
			}
		}
		if c.running[key] = left; left == nil {
			delete(c.running, key)
		}
	}
}

// cancel ends the call, if there is exactly one. Which of several is meant cannot be told.
func (c *cancellable) cancel(key callKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls := c.running[key]; len(calls) == 1 {
		(*calls[0])()
	}
}

// callKey of a request with this id and an API key that has been verified.
func (x *exchange) callKey(keyID string, id []byte) callKey {
	host, _, err := net.SplitHostPort(x.r.RemoteAddr)
	if err != nil {
		host = x.r.RemoteAddr
	}
	return callKey{keyID, host, string(id)}
}

// beCancellable lets the client of a handshake version cancel the call by a notification, until the func returned is
// called. In the modern dialect a client does that by closing the connection alone.
func (x *exchange) beCancellable(keyID string) func() {
	if x.dialect == modern || x.msg.id == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	x.r = x.r.WithContext(ctx)
	remove := x.server.cancellable.add(x.callKey(keyID, x.msg.id), cancel)
	return func() {
		remove()
		cancel()
	}
}

// notified acts on a notification. It is never answered, so one without a good key is ignored.
func (x *exchange) notified() {
	if x.dialect == modern || x.msg.method != "notifications/cancelled" {
		return
	}
	id := x.msg.params.get("requestId")
	token := x.bearer()
	if id.shape != text && id.shape != number || token == "" {
		return
	}
	if _, keyID, err := x.server.Authenticator.Bearer(x.r.Context(), token); err == nil {
		x.server.cancellable.cancel(x.callKey(keyID, id.raw))
	}
}
