package pgwire

import (
	"time"

	"interlock/internal/sockets"
	"interlock/sqlgov"
)

// Limits bound what clients may take. The zero value of a field is its default.
type Limits struct {
	// StartupTime is one deadline from accept to AuthenticationOk, whatever the client does in between; 30 seconds.
	StartupTime time.Duration
	// IdleTime ends a session that has asked nothing for so long outside a transaction; never.
	IdleTime time.Duration
	// SettleTime is how long a statement that is under way may go on after its client has said goodbye; 500 ms.
	SettleTime time.Duration
	// Peer bounds how long a client may be silent that has vanished or does not read; 2 and 10 minutes.
	Peer sockets.Bounds
	// Connections is the number of sessions; 1000. A connection that comes to cancel does not count.
	Connections int
	// PerIdentity is the number of sessions of one identity; 500.
	PerIdentity int
	// Unauthenticated is the number of connections that have not proved who they are; 256. When it is reached, the
	// oldest that has not even said what it wants makes room; if all have, a new one may cancel and nothing else. Who has to go is
	// told why.
	Unauthenticated int
	// MessageBytes is the size of a Query, Parse or Bind message; 64 MiB. Other messages are held to PostgreSQL's own
	// limit of 10,000 bytes.
	MessageBytes int
}

// smallMessage is PostgreSQL's limit for the body of messages that cannot be long.
const smallMessage = 10_000

func (l Limits) withDefaults() Limits {
	if l.StartupTime <= 0 {
		l.StartupTime = 30 * time.Second
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.SettleTime, 500 * time.Millisecond}, {&l.Peer.Idle, 2 * time.Minute}, {&l.Peer.Stalled, 10 * time.Minute},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *int
		value int
	}{
		{&l.Connections, 1000}, {&l.PerIdentity, 500}, {&l.Unauthenticated, 256}, {&l.MessageBytes, 64 << 20},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	l.MessageBytes = min(l.MessageBytes, maxFrame)
	return l
}

// phase is how far a connection has come.
type phase int

const (
	silent    phase = iota // has not said what it wants
	claiming               // has asked for a session, must prove who it is
	connected              // has been authenticated
	unwelcome              // there is no room for it: it is told so, or cancels what another does
)

const (
	maxUnwelcome  = 64 // the oldest is cut when there are more
	unwelcomeTime = 5 * time.Second
)

// join counts a new connection, and wakes or cuts one that has to go to make room. It returns false if nobody is let in any more.
func (s *Server) join(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.running.Add(1)
	s.conns[c] = silent
	s.strangers++
	if s.strangers > s.limits.Unauthenticated {
		unlucky := s.oldest(silent)
		s.dismiss(unlucky)
		if unlucky != c {
			unlucky.raw.SetDeadline(past)
		}
	}
	return true
}

// dismiss lets a silent connection do nothing but cancel. Should too many be on their way out, the oldest of those is cut.
func (s *Server) dismiss(c *conn) {
	if s.unwelcome >= maxUnwelcome {
		oldest := s.oldest(unwelcome)
		oldest.raw.Close()
		delete(s.conns, oldest)
		s.unwelcome--
	}
	c.noRoom.Store(true)
	s.conns[c] = unwelcome
	s.strangers--
	s.unwelcome++
}

// oldest finds the connection that is the longest in a phase, or nil.
func (s *Server) oldest(in phase) *conn {
	var oldest *conn
	for c, p := range s.conns {
		if p == in && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	return oldest
}

// claims notes that a connection has asked for a session.
func (s *Server) claims(c *conn) *sqlgov.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.conns[c] {
	case silent:
		s.conns[c] = claiming
	case unwelcome:
		return noRoom()
	}
	return nil
}

// admit counts an authenticated connection in.
func (s *Server) admit(c *conn) *sqlgov.Refusal {
	identity := c.caller.Identity
	s.mu.Lock()
	defer s.mu.Unlock()
	p, here := s.conns[c]
	switch {
	case !here || p != claiming || s.closing:
		return shuttingDown()
	case s.sessions >= s.limits.Connections:
		return noRoom()
	case s.perIdentity[identity] >= s.limits.PerIdentity:
		return tooMany("too many connections for role \"" + identity + "\"")
	}
	s.conns[c] = connected
	s.strangers--
	s.sessions++
	s.perIdentity[identity]++
	return nil
}

// leave counts a connection out, however far it came.
func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, here := s.conns[c]
	delete(s.conns, c)
	switch {
	case !here:
	case p == connected:
		s.sessions--
		if s.perIdentity[c.caller.Identity]--; s.perIdentity[c.caller.Identity] == 0 {
			delete(s.perIdentity, c.caller.Identity)
		}
	case p == unwelcome:
		s.unwelcome--
	default:
		s.strangers--
	}
	s.running.Done()
}

func noRoom() *sqlgov.Refusal { return tooMany("sorry, too many clients already") }

func tooMany(message string) *sqlgov.Refusal {
	return &sqlgov.Refusal{Kind: sqlgov.RateLimited, SQLState: "53300", Message: message}
}
