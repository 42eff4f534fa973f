// Package lru keeps recently used values up to a total cost.
//
// A count does not bound memory when values differ in size by a factor of a thousand, as SQL texts do; a cost does.
package lru

import (
	"container/list"
	"sync"
)

// Cache maps keys to values and evicts the least recently used ones when the sum of their costs passes the limit.
// It is safe for concurrent use. The zero value is not usable; call New.
type Cache[K comparable, V any] struct {
	mu    sync.Mutex
	limit int64
	used  int64
	order *list.List // front is the most recently used
	items map[K]*list.Element
}

type item[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

// New returns a cache that holds values up to a total cost.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, order: list.New(), items: make(map[K]*list.Element)}
}

// Get returns the value for a key and marks it as used.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		var zero V
		return zero, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*item[K, V]).value, true
}

// Add stores a value with its cost. A value that alone passes an eighth of the limit is not stored, so that one
// caller cannot empty the cache for all others.
func (c *Cache[K, V]) Add(key K, value V, cost int64) {
	if cost > c.limit/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		c.remove(e)
	}
	c.items[key] = c.order.PushFront(&item[K, V]{key, value, cost})
	c.used += cost
	for c.used > c.limit {
		c.remove(c.order.Back())
	}
}

// Len returns the number of values and their total cost.
func (c *Cache[K, V]) Len() (n int, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items), c.used
}

func (c *Cache[K, V]) remove(e *list.Element) {
	it := c.order.Remove(e).(*item[K, V])
	delete(c.items, it.key)
	c.used -= it.cost
}
