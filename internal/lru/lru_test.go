package lru

import "testing"

func TestEvictsLeastRecentlyUsedByCost(t *testing.T) {
	c := New[string, int](80)
	for i, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		c.Add(k, i, 10)
	}
	c.Get("a")
	c.Add("i", 9, 10)
	if _, ok := c.Get("b"); ok {
		t.Error("b was used least recently and should be gone")
	}
	if v, ok := c.Get("a"); !ok || v != 0 {
		t.Errorf("a = %d, %v; it was used and should have stayed", v, ok)
	}
	if n, cost := c.Len(); n != 8 || cost != 80 {
		t.Errorf("holds %d values of cost %d, want 8 of 80", n, cost)
	}
}

func TestReplacingAccountsForTheNewCost(t *testing.T) {
	c := New[string, int](80)
	c.Add("a", 1, 10)
	c.Add("a", 2, 5)
	if n, cost := c.Len(); n != 1 || cost != 5 {
		t.Errorf("holds %d values of cost %d, want 1 of 5", n, cost)
	}
	if v, _ := c.Get("a"); v != 2 {
		t.Errorf("a = %d, want the newer value 2", v)
	}
}

func TestOneLargeValueDoesNotEmptyTheCache(t *testing.T) {
	c := New[string, int](80)
	c.Add("a", 1, 10)
	c.Add("huge", 2, 79)
	if _, ok := c.Get("huge"); ok {
		t.Error("a value of nearly the whole limit was stored")
	}
	if _, ok := c.Get("a"); !ok {
		t.Error("a was evicted for a value that cannot be stored")
	}
}
