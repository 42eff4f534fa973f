package store

// groupCounts are sums by unit of time and by group of the dictionaries.
type groupCounts struct {
	groups int64 // there can be
	dense  bool  // all groups have a place in sums
	units  map[int64]*groupSums
}

// groupSums are those of a unit of time.
type groupSums struct {
	sums  []hourCount
	place map[int64]int // of a group in sums; nil if that is its number
}

// maxDense is up to how many groups have a place before they are counted.
const maxDense = 1 << 14

func newGroupCounts(groups int64, timed bool) *groupCounts {
	return &groupCounts{groups, groups <= maxDense && !timed, map[int64]*groupSums{}}
}

// unit returns the sums of a unit of time.
func (g *groupCounts) unit(hour int64) *groupSums {
	s := g.units[hour]
	if s == nil {
		s = &groupSums{}
		if g.dense {
			s.sums = make([]hourCount, g.groups)
		} else {
			s.place = map[int64]int{}
		}
		g.units[hour] = s
	}
	return s
}

func (s *groupSums) add(group int64, more *hourCount) {
	at := int(group)
	if s.place != nil {
		var known bool
		if at, known = s.place[group]; !known {
			at = len(s.sums)
			s.place[group] = at
			s.sums = append(s.sums, hourCount{})
		}
	}
	s.sums[at].add(more)
}

// each calls yield for the groups that have something.
func (g *groupCounts) each(yield func(hour, group int64, sum *hourCount)) {
	for hour, s := range g.units {
		for group, at := range s.place {
			yield(hour, group, &s.sums[at])
		}
		for group := range s.sums {
			if s.place == nil && s.sums[group].n > 0 {
				yield(hour, int64(group), &s.sums[group])
			}
		}
	}
}

func (g *groupCounts) merge(other *groupCounts) {
	other.each(func(hour, group int64, sum *hourCount) { g.unit(hour).add(group, sum) })
}

// counter adds up what blocks have. It is for one goroutine.
type counter struct {
	*tally
	counts *groupCounts
	head   blockHead
	parts  [3][]part // of the block's dictionaries who, shape and ending
	hour   int64     // of sums
	sums   *groupSums
}

// part is what a tally asks of a row of a dictionary.
type part struct {
	group        int64 // times the groups of the dictionaries after it
	wanted, kind bool
}

// open takes up the dictionaries of a block.
func (c *counter) open(head *blockHead) {
	w, size := c.wanted, int64(1)
	for _, d := range []struct {
		dict        int
		has, ofKind idSet
	}{{dictEnding, w.ending, w.kindEnding}, {dictShape, w.shape, w.kindShape}, {dictWho, w.who, nil}} {
		g, parts := c.groupings[d.dict], c.parts[d.dict][:0]
		for _, id := range head[d.dict] {
			parts = append(parts, part{g.group(id) * size, d.has.has(id), d.ofKind.has(id)})
		}
		c.parts[d.dict] = parts
		size *= g.size()
	}
}

// block adds the counts of a block.
func (c *counter) block(b *countedBlock) error {
	head := &c.head
	if err := head.read(b.head, nil, dictEnding+1); err != nil {
		return err
	}
	c.open(head)
	whos, shapes, endings := len(head[dictWho]), len(head[dictShape]), len(head[dictEnding])
	damaged := false
	wants := func(shape uint64) bool {
		damaged = damaged || shape >= uint64(shapes)
		return !damaged && c.parts[dictShape][shape].wanted
	}
	err := eachCount(b.sums, wants, func(r *countRow) {
		if r.who >= uint64(whos) || r.ending >= uint64(endings) {
			damaged = true
			return
		}
		c.add(r)
	})
	if damaged {
		return errDamaged
	}
	return err
}

// add counts what has these parts, if it is wanted.
func (c *counter) add(r *countRow) {
	who, shape, ending := &c.parts[dictWho][r.who], &c.parts[dictShape][r.shape], &c.parts[dictEnding][r.ending]
	if r.hour < c.from || r.hour > c.to || !who.wanted || !shape.wanted || !ending.wanted || !shape.kind && !ending.kind {
		return
	}
	hour := int64(0)
	if c.unit > 0 {
		hour = r.hour / c.unit * c.unit
	}
	if c.sums == nil || hour != c.hour { // the same as before, nearly always
		c.hour, c.sums = hour, c.counts.unit(hour)
	}
	c.sums.add(who.group+shape.group+ending.group, &r.hourCount)
}
