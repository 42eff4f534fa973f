package upstream

import "interlock/sqlgov"

// answers is what a lease says to messages for which there is no connection: that the first one has failed, and that it is ready after
// the end of its segment, as a server would outside a transaction. What it holds is bounded, for a segment has two answers.
type answers struct {
	error   *sqlgov.UpstreamError // to the message that comes next
	skips   bool                  // messages up to the next Sync
	waiting []sqlgov.Reply
}

func (a *answers) fail(e *sqlgov.UpstreamError) { a.error, a.skips = e, false }

func (a *answers) ready() bool { return len(a.waiting) > 0 }

func (a *answers) next() sqlgov.Reply {
	reply := a.waiting[0]
	a.waiting = a.waiting[1:]
	return reply
}

// take answers whole messages.
func (a *answers) take(frames []byte) {
	for len(frames) >= 5 {
		n, err := messageLength(frames)
		if err != nil {
			return
		}
		a.answer(frames[0])
		frames = frames[n:]
	}
}

func (a *answers) answer(kind byte) {
	alone := kind == 'Q' || kind == 'F'
	if e := a.error; e != nil {
		a.error, a.skips = nil, !alone
		a.waiting = append(a.waiting, sqlgov.Reply{Kind: sqlgov.ErrorResponse, Frame: errorFrame(e), Error: e})
	} else if !a.skips || kind != 'S' {
		return
	}
	if alone || kind == 'S' {
		a.skips = false
		a.waiting = append(a.waiting, sqlgov.Reply{Kind: sqlgov.ReadyForQuery, Frame: []byte{'Z', 0, 0, 0, 5, 'I'}, TxStatus: 'I'})
	}
}

// errorFrame is an ErrorResponse (PostgreSQL manual, "Error and Notice Message Fields").
func errorFrame(e *sqlgov.UpstreamError) []byte {
	parts := []string{"S", e.Severity, "\x00V", e.Severity, "\x00C", e.SQLState, "\x00M", e.Message, "\x00"}
	if e.Hint != "" {
		parts = append(parts, "H", e.Hint, "\x00")
	}
	return appendMessage(nil, byte(sqlgov.ErrorResponse), append(parts, "\x00")...)
}
