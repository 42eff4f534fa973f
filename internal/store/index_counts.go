package store

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
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

// briefly returns the counts without a dictionary: what it says is in its first place.
func (e *blockEncoder) briefly(b []byte, without func(*hourKey)) []byte {
	clear(e.brief)
	for k, c := range e.counts {
		without(&k)
		sumOf(e.brief, k).add(c)
	}
	return e.appendCounts(b, e.brief)
}

// appendCounts writes counts: the first hour, zigzag, and for each shape its place, how many bytes follow, and a line for each hour,
// caller and ending: the hours since the first one, the places, and the sums.
func (e *blockEncoder) appendCounts(b []byte, counts map[hourKey]*hourCount) []byte {
	first := e.fromTime / time.Hour.Milliseconds()
	b = binary.AppendUvarint(b, zigzag(first))
	e.sorted = slices.AppendSeq(e.sorted[:0], maps.Keys(counts))
	slices.SortFunc(e.sorted, func(a, b hourKey) int { return cmp.Or(cmp.Compare(a.shape, b.shape), cmp.Compare(a.hour, b.hour)) })
	for i := 0; i < len(e.sorted); {
		shape := e.sorted[i].shape
		e.group = e.group[:0]
		for ; i < len(e.sorted) && e.sorted[i].shape == shape; i++ {
			k := e.sorted[i]
			c := counts[k]
			for _, v := range []uint64{uint64(k.hour - first), k.who, k.ending, uint64(c.n), uint64(c.rows), uint64(c.nanos)} {
				e.group = binary.AppendUvarint(e.group, v)
			}
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, shape), uint64(len(e.group)))
		b = append(b, e.group...)
	}
	return b
}

// countRow is a line of a block's counts.
type countRow struct {
	hourKey
	hourCount
}

// eachCount calls yield for a block's counts, for those shapes that wants asks for.
func eachCount(sums []byte, wants func(shape uint64) bool, yield func(*countRow)) error {
	var c countRow
	r := numbers{rest: sums}
	first := unzigzag(r.next())
	for len(r.rest) > 0 && !r.bad {
		c.shape = r.next()
		size := r.next()
		if r.bad || size > uint64(len(r.rest)) {
			return errDamaged
		}
		group := numbers{rest: r.rest[:size]}
		r.rest = r.rest[size:]
		if !wants(c.shape) {
			continue
		}
		var v [6]uint64
		for len(group.rest) > 0 {
			if fill(&group, v[:]); group.bad {
				return errDamaged
			}
			c.hour, c.who, c.ending = first+int64(v[0]), v[1], v[2]
			c.n, c.rows, c.nanos = int64(v[3]), int64(v[4]), int64(v[5])
			yield(&c)
		}
	}
	if r.bad {
		return errDamaged
	}
	return nil
}
