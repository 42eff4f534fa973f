package sqlgov

import "interlock/catalog"

// preparedStatement is a text that the server has prepared, with the facts it was judged by then.
type preparedStatement struct {
	sql    string
	params []catalog.OID
	judged *judged
	sent   string        // the text that the server has, if it is another than sql
	bound  bindFrame     // of a portal, if full texts are kept, or a parameter may have to be looked at
	format resultFormats // of a portal
	taken  *taken        // of a portal: what has been handed out of it
	cursor bool          // of a portal: DECLARE has made it, and sql is the text of that
	held   string        // of a cursor that outlives its transaction: what it meant when it was declared; else ""
	asked  *asked        // of a portal
	leased *leasedStatement
	ran    bool // of a portal: it was executed before. Of the goroutine that takes the client's messages
}

// text is the text that a statement was prepared from, as the caller wrote it or as the server has it.
func (st *preparedStatement) text(sent bool) string {
	if sent && st.sent != "" {
		return st.sent
	}
	return st.sql
}

// assigns reports if the statement writes parameters into columns as they are.
func (st *preparedStatement) assigns() bool {
	if st.judged == nil {
		return false
	}
	for i := range st.judged.facts.Statements {
		for _, assigned := range st.judged.facts.Statements[i].Assigned {
			if assigned.Param > 0 {
				return true
			}
		}
	}
	return false
}

// objectKey names a prepared statement ('S') or a portal ('P'). SQL's PREPARE shares the namespace of Parse.
type objectKey struct {
	kind byte
	name string
}

// Keys that stand for several objects, in effect.forget only.
var (
	allStatements  = objectKey{kind: '*'} // DEALLOCATE ALL, DISCARD ALL
	allPortals     = objectKey{kind: 'p'} // CLOSE ALL, DISCARD ALL
	unnamedObjects = objectKey{kind: 'U'} // a Query drops the unnamed statement and portal
)

// object is what a name stands for: the statement, or the statement that a portal was bound from.
type object struct{ statement *preparedStatement }

// effect is what a message changes in the namespace if the server carries it out.
type effect struct {
	define       objectKey // with statementDef or portalDef
	statementDef *preparedStatement
	portalDef    *preparedStatement
	forget       objectKey
	statement    int // for Query and Execute: the index of the statement whose completion brings it about; -1 any
}

// namespace tracks which statements and portals exist on the server. Effects are staged when a message is sent and
// applied when the server reports success. Names touched by messages under way are remembered with their segment.
type namespace struct {
	objects map[objectKey]object
	portals map[objectKey]struct{} // those of objects that were made in this transaction
	undone  bool                   // something has failed or was rolled back in the segment whose replies come now
	staged  map[objectKey]object   // effects of the current segment, as they will be if all goes well
	segment uint64                 // the segment that staged belongs to
	touched map[objectKey]uint64   // newest segment with an effect on the name
	sweep   uint64                 // newest segment that may drop any statement
}

func newNamespace() namespace {
	return namespace{objects: map[objectKey]object{}, portals: map[objectKey]struct{}{}, staged: map[objectKey]object{}, touched: map[objectKey]uint64{}}
}

func (e *effect) key() objectKey {
	if e.statementDef != nil || e.portalDef != nil {
		return e.define
	}
	return e.forget
}

func (e *effect) result() object {
	if e.statementDef != nil {
		return object{e.statementDef}
	}
	return object{e.portalDef}
}

// stage notes the effects of a message that is being sent.
func (n *namespace) stage(o *op) {
	if o.segment != n.segment {
		n.segment = o.segment
		clear(n.staged)
	}
	for i := range o.effects {
		e := &o.effects[i]
		switch k := e.key(); k {
		case allStatements:
			n.sweep = o.segment
		case allPortals: // who names one that is gone hears so from the server
		case unnamedObjects:
			for _, k := range unnamed {
				n.touched[k] = o.segment
			}
		default:
			n.touched[k] = o.segment
			n.staged[k] = e.result()
		}
	}
}

var unnamed = [...]objectKey{{kind: 'S'}, {kind: 'P'}}

// apply carries out an effect that the server has confirmed.
func (n *namespace) apply(e *effect) {
	switch k := e.key(); k {
	case allStatements:
		for k := range n.objects {
			if k.kind == 'S' {
				delete(n.objects, k)
			}
		}
	case allPortals:
		for k := range n.objects {
			if k.kind == 'P' {
				delete(n.objects, k)
			}
		}
		clear(n.portals)
	case unnamedObjects:
		for _, k := range unnamed {
			delete(n.objects, k)
		}
	default:
		if o := e.result(); o.statement != nil {
			n.objects[k] = o
			if k.kind == 'P' {
				n.portals[k] = struct{}{}
			}
		} else {
			delete(n.objects, k)
		}
	}
}

// endTransaction forgets the portals and cursors that were made in the transaction. Those WITH HOLD stay, unless something was undone
// where it ended: then it is not sure that they are there, and who fetches from one is told that it is not.
func (n *namespace) endTransaction() {
	for k := range n.portals {
		if st := n.objects[k].statement; n.undone || st == nil || st.held == "" {
			delete(n.objects, k)
		}
	}
	clear(n.portals)
}

// pendingBefore returns the newest segment before current that may change what key stands for.
func (n *namespace) pendingBefore(key objectKey, current uint64) (segment uint64, pending bool) {
	if n.segment == current {
		if _, staged := n.staged[key]; staged {
			return 0, false
		}
	}
	segment = n.touched[key]
	if key.kind == 'S' && n.sweep > segment {
		segment = min(n.sweep, current-1) // one in this segment may hide an older one
	}
	return segment, segment > 0 && segment < current
}

func (n *namespace) get(key objectKey, current uint64) object {
	if n.segment == current {
		if o, ok := n.staged[key]; ok {
			return o
		}
	}
	return n.objects[key]
}

// settle forgets which names segments up to ended have touched.
func (n *namespace) settle(ended uint64) {
	for k, segment := range n.touched {
		if segment <= ended {
			delete(n.touched, k)
		}
	}
}
