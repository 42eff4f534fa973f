package upstream

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"interlock/sqlgov"
)

// What is asked of connections that sessions share, between the transactions of their sessions.
const (
	// cleanSQL is DISCARD ALL without what drops the prepared statements, whose names are the gateway's own, and their plans.
	cleanSQL = "close all; set session authorization default; reset role; unlisten *; discard temp; discard sequences; " +
		"select pg_catalog.pg_advisory_unlock_all(); "
	replayHead     = "reset all; select "
	applicationSQL = "select pg_catalog.current_setting('application_name') as interlock"
	// learnSQL are the settings of the session. What is of a transaction ends with it.
	learnSQL = "select name, setting from pg_catalog.pg_settings where source = 'session' and context in ('user', 'superuser') " +
		"and name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable') order by name"
)

// callSQL is a call that sets a parameter for the session.
func callSQL(name, value string) string {
	return "pg_catalog.set_config(" + quoteLiteral(name) + ", " + quoteLiteral(value) + ", false)"
}

// callsSQL are the calls that set parameters, given as rows of name and value. It is equal for equal settings.
func callsSQL(rows [][]string) string {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	calls := make([]string, len(rows))
	for i, row := range rows {
		calls[i] = callSQL(row[0], row[1])
	}
	return strings.Join(calls, ", ")
}

// replaySQL makes the settings of a session those given, and no others.
func replaySQL(settings string) string {
	return replayHead + settings
}

// quoteLiteral quotes a value for a server with standard_conforming_strings.
func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// adopt gives a connection the settings of a session, before anything of the session is sent: what is run under other settings could
// mean something else.
func (c *conn) adopt(settings string) error {
	if c.settings == settings {
		return nil
	}
	if _, err := c.ask(replaySQL(settings)); err != nil {
		return err
	}
	c.settings = settings
	return nil
}

// ask runs a text of ours by the simple protocol between transactions and returns the rows of its last result, in which NULL is "".
func (c *conn) ask(sql string) (rows [][]string, err error) {
	_ = c.net.SetDeadline(time.Now().Add(commitWithin))
	defer c.net.SetDeadline(time.Time{})
	if err := c.write(appendMessage(nil, 'Q', sql, "\x00")); err != nil {
		return nil, err
	}
	for {
		reply, err := c.receive()
		if err != nil {
			return nil, err
		}
		switch reply.Kind {
		case sqlgov.RowDescription:
			rows = nil
		case sqlgov.DataRow:
			row, ok := textRow(reply.Frame[5:])
			if !ok {
				return nil, errors.New("the server sent a malformed row")
			}
			rows = append(rows, row)
		case sqlgov.ErrorResponse:
			return nil, fmt.Errorf("%s: %w", sql, reply.Error)
		case sqlgov.ReadyForQuery:
			if reply.TxStatus != 'I' {
				return nil, errors.New("the session is still in a transaction")
			}
			return rows, nil
		}
	}
}

// textRow are the values of a DataRow in text format.
func textRow(body []byte) (row []string, ok bool) {
	if len(body) < 2 {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	for range n {
		if len(body) < 4 {
			return nil, false
		}
		size := int64(int32(binary.BigEndian.Uint32(body)))
		body = body[4:]
		if size < -1 || size > int64(len(body)) {
			return nil, false
		}
		size = max(size, 0)
		row = append(row, string(body[:size]))
		body = body[size:]
	}
	return row, len(body) == 0
}

// keptStatements bounds the prepared statements that stay on a connection between transactions.
const keptStatements = 256

// statements are the named prepared statements of a connection that sessions share.
type statements conn

func (s *statements) Has(name string) bool {
	if _, there := s.prepared[name]; !there {
		return false
	}
	s.Add(name)
	return true
}

func (s *statements) Add(name string) {
	if s.prepared == nil {
		s.prepared = make(map[string]uint64)
	}
	s.uses++
	s.prepared[name] = s.uses
}

func (s *statements) Forget(name string) { delete(s.prepared, name) }
func (s *statements) Clear()             { clear(s.prepared) }
func (s *statements) Asks() bool         { return s.asks }
func (s *statements) SetAsks(asks bool)  { s.asks = asks }

// trim appends what makes the server forget the statements that were used least recently, where there are too many.
func (c *conn) trim(b []byte) []byte {
	excess := len(c.prepared) - keptStatements
	if excess <= 0 {
		return b
	}
	oldest := slices.SortedFunc(maps.Keys(c.prepared), func(x, y string) int { return cmp.Compare(c.prepared[x], c.prepared[y]) })
	for _, name := range oldest[:excess] {
		b = appendMessage(b, 'C', "S", name, "\x00")
		delete(c.prepared, name)
	}
	c.owed++
	return appendMessage(b, 'S')
}

// appendNamed appends the messages that prepare a statement in the place of one of its name.
func appendNamed(b []byte, s *sqlgov.NamedStatement) []byte {
	types := binary.BigEndian.AppendUint16(nil, uint16(len(s.Types)))
	for _, t := range s.Types {
		types = binary.BigEndian.AppendUint32(types, uint32(t))
	}
	b = appendMessage(b, 'C', "S", s.Name, "\x00")
	return appendMessage(b, 'P', s.Name, "\x00", s.SQL, "\x00", string(types))
}
