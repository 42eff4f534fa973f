package upstream

import (
	"encoding/binary"

	"interlock/sqlgov"
)

// SendPart queues messages of the core's own.
func (w *wire) SendPart(p sqlgov.Part) error {
	return w.Send(appendPart(nil, p))
}

func appendPart(b []byte, p sqlgov.Part) []byte {
	if p.Statement != nil {
		b = appendNamed(b, p.Statement)
	}
	if p.Bind != "" {
		b = appendBind(b, p.Bind, sqlgov.BoundParameters{})
	}
	if p.Recheck != nil {
		b = appendRecheck(b, p.Recheck, p.Prepare)
	}
	if p.Execute {
		b = appendRun(b)
	}
	if p.Sync {
		b = appendMessage(b, 'S')
	}
	return b
}

// appendRecheck appends a question about the catalog. It leaves the unnamed statement and portal alone.
func appendRecheck(b []byte, q *sqlgov.Recheck, prepare bool) []byte {
	const name, lock = sqlgov.RecheckName + "\x00", sqlgov.RecheckName + " lock\x00"
	if prepare {
		b = appendMessage(b, 'C', "S", name)
		b = appendMessage(b, 'P', name, sqlgov.RecheckSQL, "\x00", "\x00\x00")
	}
	if q.Lock != "" { // to prepare it is enough; its name is free at any time but between these two
		b = appendMessage(b, 'P', lock, q.Lock, "\x00", "\x00\x00")
		b = appendMessage(b, 'C', "S", lock)
	}
	bind := []string{name, name, "\x00\x00", string(binary.BigEndian.AppendUint16(nil, uint16(len(q.Values))))}
	for _, v := range q.Values {
		bind = append(bind, string(binary.BigEndian.AppendUint32(nil, uint32(len(v)))), v)
	}
	b = appendMessage(b, 'B', append(bind, "\x00\x00")...)
	b = appendMessage(b, 'E', name, "\x00\x00\x00\x00")
	return appendMessage(b, 'C', "P", name)
}
