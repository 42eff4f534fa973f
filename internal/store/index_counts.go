package store

import (
	"encoding/binary"
	"time"
)

type hourKey struct {
	hour               int64
	who, shape, ending uint64 // places in the head
}

type hourCount struct{ n, rows, nanos int64 }

func (e *blockEncoder) count(k hourKey, r *indexRow) {
	sumOf(e.counts, k).add(&hourCount{1, r.rows, r.nanos})
}

func sumOf(sums map[hourKey]*hourCount, k hourKey) *hourCount {
	sum := sums[k]
	if sum == nil {
		sum = &hourCount{}
		sums[k] = sum
	}
	return sum
}

func (c *hourCount) add(more *hourCount) {
	c.n, c.rows, c.nanos = c.n+more.n, c.rows+more.rows, c.nanos+more.nanos
}

// briefly returns the counts with all in the hour of the block's beginning, and without a dictionary: what it says is in its
// first place.
func (e *blockEncoder) briefly(b []byte, without func(*hourKey)) []byte {
	clear(e.brief)
	for k, c := range e.counts {
		k.hour = e.fromTime / time.Hour.Milliseconds()
		without(&k)
		sumOf(e.brief, k).add(c)
	}
	return appendCounts(b, e.brief)
}

func appendCounts(b []byte, counts map[hourKey]*hourCount) []byte {
	for k, c := range counts {
		for _, v := range []uint64{uint64(k.hour), k.who, k.shape, k.ending, uint64(c.n), uint64(c.rows), uint64(c.nanos)} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

// countRow is a line of a block's counts.
type countRow struct {
	hourKey
	hourCount
}

// eachCount calls yield for a block's counts. All of them are read for every statistic, so it does without numbers.
func eachCount(sums []byte, yield func(*countRow)) error {
	var c countRow
	var v [7]uint64
	for at := 0; at < len(sums); {
		for i := range v {
			if at < len(sums) && sums[at] < 0x80 {
				v[i] = uint64(sums[at])
				at++
				continue
			}
			n := 0
			if v[i], n = binary.Uvarint(sums[at:]); n <= 0 {
				return errDamaged
			}
			at += n
		}
		c.hour, c.who, c.shape, c.ending = int64(v[0]), v[1], v[2], v[3]
		c.n, c.rows, c.nanos = int64(v[4]), int64(v[5]), int64(v[6])
		yield(&c)
	}
	return nil
}
