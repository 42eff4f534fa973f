package upstream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"interlock/catalog"
	"interlock/sqlgov"
)

// decoder turns frames into replies. It reuses what it handed out before, and strings that come again are not
// allocated again.
type decoder struct {
	fields []sqlgov.Field
	tag    string
}

// decode reads as much of a frame as the core needs. A message that makes no sense, or that has no place in a session,
// is an error.
func (d *decoder) decode(frame []byte) (sqlgov.Reply, error) {
	reply := sqlgov.Reply{Kind: sqlgov.ReplyKind(frame[0]), Frame: frame}
	body, ok := frame[5:], true
	switch reply.Kind {
	case sqlgov.DataRow, sqlgov.CopyData:
	case sqlgov.RowDescription:
		ok = d.rowDescription(body)
		reply.Fields = d.fields
	case sqlgov.CommandComplete:
		ok = d.commandComplete(body)
		reply.Tag = d.tag
	case sqlgov.ErrorResponse, sqlgov.NoticeResponse:
		reply.Error, ok = serverError(body)
	case sqlgov.ReadyForQuery:
		if ok = len(body) == 1 && (body[0] == 'I' || body[0] == 'T' || body[0] == 'E'); ok {
			reply.TxStatus = body[0]
		}
	case sqlgov.ParameterStatus:
		reply.Param, ok = parameterStatus(body)
	case sqlgov.CopyInResponse, sqlgov.CopyOutResponse:
		reply.Copy, ok = copyShape(body)
	case sqlgov.ParseComplete, sqlgov.BindComplete, sqlgov.CloseComplete, sqlgov.ParamDescription, sqlgov.NoData,
		sqlgov.PortalSuspended, sqlgov.EmptyQuery, sqlgov.Notification, sqlgov.CopyBothResponse, sqlgov.CopyDone, sqlgov.FunctionResult:
	default:
		return reply, fmt.Errorf("the server sent a message of type %q, which has no place here", frame[0])
	}
	if !ok {
		return reply, fmt.Errorf("the server sent a malformed message of type %q", frame[0])
	}
	return reply, nil
}

// rowDescription is RowDescription's body: the number of fields, and for each its name, table, attribute number,
// type, type size, type modifier and format code.
func (d *decoder) rowDescription(body []byte) bool {
	if len(body) < 2 {
		return false
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	if n > len(body)/19 {
		return false
	}
	d.fields = slices.Grow(d.fields[:0], n)[:n] // what is left in them of wider results spares copying names
	for i := range d.fields {
		end := bytes.IndexByte(body, 0)
		if end < 0 || len(body) < end+19 {
			return false
		}
		f, rest := &d.fields[i], body[end+1:]
		setString(&f.Name, body[:end])
		f.Relation = catalog.OID(binary.BigEndian.Uint32(rest))
		f.Num = int16(binary.BigEndian.Uint16(rest[4:]))
		f.Type = catalog.OID(binary.BigEndian.Uint32(rest[6:]))
		f.TypeMod = int32(binary.BigEndian.Uint32(rest[12:]))
		f.Binary = binary.BigEndian.Uint16(rest[16:]) != 0
		body = rest[18:]
	}
	return len(body) == 0
}

// copyShape is the body of CopyInResponse and CopyOutResponse: the format of the whole, and the number of columns with
// the format of each.
func copyShape(body []byte) (c sqlgov.CopyShape, ok bool) {
	if len(body) < 3 {
		return c, false
	}
	c.Binary, c.Columns = body[0] != 0, int(binary.BigEndian.Uint16(body[1:]))
	return c, len(body) == 3+2*c.Columns
}

func (d *decoder) commandComplete(body []byte) bool {
	end := bytes.IndexByte(body, 0)
	if end != len(body)-1 {
		return false
	}
	setString(&d.tag, body[:end])
	return true
}

// setString sets *s to b, without an allocation if it is that already.
func setString(s *string, b []byte) {
	if *s != string(b) {
		*s = string(b)
	}
}

// cstring splits off a string that ends with a zero byte.
func cstring(b []byte) (s string, rest []byte, ok bool) {
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return "", nil, false
	}
	return string(b[:end]), b[end+1:], true
}

func parameterStatus(body []byte) (p sqlgov.Parameter, ok bool) {
	if p.Name, body, ok = cstring(body); !ok {
		return p, false
	}
	p.Value, body, ok = cstring(body)
	return p, ok && len(body) == 0
}

// serverError reads the fields of an ErrorResponse or NoticeResponse. Fields that the core has no use for, among them
// the text of internal queries, are left out.
func serverError(body []byte) (*sqlgov.UpstreamError, bool) {
	e := &sqlgov.UpstreamError{}
	for len(body) > 0 && body[0] != 0 {
		code := body[0]
		value, rest, ok := cstring(body[1:])
		if !ok {
			return nil, false
		}
		setField(e, code, value)
		body = rest
	}
	return e, len(body) == 1
}

func setField(e *sqlgov.UpstreamError, code byte, value string) {
	switch code {
	case 'V': // not translated, and sent after S by every supported server
		e.Severity = value
	case 'S':
		if e.Severity == "" {
			e.Severity = value
		}
	case 'C':
		e.SQLState = value
	case 'M':
		e.Message = value
	case 'D':
		e.Detail = value
	case 'H':
		e.Hint = value
	case 'P':
		n, _ := strconv.ParseInt(value, 10, 32)
		e.Position = int32(n)
	case 'W':
		e.Where = value
	case 's':
		e.Schema = value
	case 't':
		e.Table = value
	case 'c':
		e.Column = value
	case 'd':
		e.DataType = value
	case 'n':
		e.Constraint = value
	}
}
