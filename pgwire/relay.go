package pgwire

import (
	"context"
	"errors"
	"net"
	"time"

	"interlock/internal/loop"
	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Reasons for which a connection's reader stops, besides a refusal that is fatal and the network's errors.
var (
	errTerminated = errors.New("client said goodbye")
	errLost       = errors.New("upstream connection is lost")
	errStopped    = errors.New("connection is over")
)

// relay serves the session until either side ends it. This task reads the client, another writes to it; when one stops, it makes
// the other stop, and both have when relay returns.
func (c *conn) relay(ctx context.Context) {
	defer c.srv.keys.remove(c.pid)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	attached, written := make(chan struct{}), make(chan struct{})
	loop.Go(func(writer *loop.Task) {
		defer close(written)
		defer c.wake()
		defer cancel()
		defer c.survive()
		c.attach(writer)
		close(attached)
		c.writeReplies(loop.With(ctx, writer))
	})
	<-attached
	defer func() {
		c.task.Leave()
		<-written
		c.raw.Release() // what is still to be read and written is for this goroutine
	}()
	defer c.session.Close()
	c.in.src = &patience{conn: c, ctx: ctx}
	why := c.readMessages(loop.With(ctx, c.task))
	c.task.Leave()
	c.conclude(ctx, why)
}

// attach hands both sockets to a loop, or none: a task of the loop must not wait for one that is not its. This conn's own task reads
// from the client and writes to the server, the other one does the reverse.
func (c *conn) attach(writer *loop.Task) {
	l := c.srv.loops.Pick()
	if server, ok := c.session.Socket().(*loop.Conn); ok && server.Attach(l, writer, c.task) {
		c.raw.Attach(l, c.task, writer)
	}
	if c.srv.base.Err() != nil { // said before the socket was attached
		c.raw.SetWriteDeadline(time.Now().Add(lastMoment))
	}
}

// conclude decides what the client still gets, once its reader has stopped.
func (c *conn) conclude(ctx context.Context, why error) {
	var r *sqlgov.Refusal
	switch {
	case errors.Is(why, errLost):
		c.wait(ctx, drainTime, func() bool { return false })
	case errors.As(why, &r):
		c.wait(ctx, c.srv.limits.SettleTime, c.settled)
		if r.Kind == sqlgov.InvalidInput {
			c.srv.Core.RecordRefusal(context.WithoutCancel(ctx), c.caller, c.source, r)
		}
		c.final.Store(r)
	case errors.Is(why, errTerminated):
		c.wait(ctx, c.srv.limits.SettleTime, c.settled)
		c.final.Store(farewell)
	default:
		c.final.Store(farewell)
	}
}

// settled holds when nothing more is worth waiting for: all is answered, or what is not would be undone for want of a Sync.
func (c *conn) settled() bool { return c.openSegment || c.session.Idle() }

// wait lets the writer go on until done holds, it ends by itself, or time is over.
func (c *conn) wait(ctx context.Context, most time.Duration, done func() bool) {
	c.session.Push()
	timer := time.NewTimer(most)
	defer timer.Stop()
	for !done() {
		select {
		case <-c.answered:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// writeReplies sends what the session answers until it has nothing more to say.
func (c *conn) writeReplies(ctx context.Context) {
	for {
		reply, err := c.session.Next(ctx)
		if err != nil {
			c.lastWord(err)
			return
		}
		if c.write(reply) != nil {
			return
		}
		if reply.Fatal {
			c.said = true
			return
		}
		if reply.Ready != 0 {
			c.noteAnswered()
		}
	}
}

// write sends one reply. It goes to the network at the latest when the next one would have to be waited for.
func (c *conn) write(reply sqlgov.Output) error {
	switch {
	case reply.Refusal != nil:
		c.out.message(errorResponse(refusalSeverity(reply.Fatal), reply.Refusal))
	case reply.Error != nil && reply.Notice:
		c.out.message((*pgproto3.NoticeResponse)(upstreamError(reply.Error)))
	case reply.Error != nil:
		c.out.message(upstreamError(reply.Error))
	default:
		c.out.frame(reply.Frame)
	}
	if reply.Buffered && !reply.Fatal {
		return c.out.err
	}
	return c.out.flush()
}

func refusalSeverity(fatal bool) severity {
	if fatal {
		return severityFatal
	}
	return severityError
}

func (c *conn) noteAnswered() {
	select {
	case c.answered <- struct{}{}:
	default:
	}
	if c.srv.draining.Load() {
		c.wake()
	}
}

// lastWord tells the client why its session is over. Where the reader gave no reason, the upstream has gone.
func (c *conn) lastWord(err error) {
	r := c.final.Load()
	switch {
	case r == farewell:
		c.out.flush()
		return
	case r == nil:
		c.srv.Log.Warn().Err(err).Str("identity", c.caller.Identity).Msg("upstream connection lost")
		r = &sqlgov.Refusal{Kind: sqlgov.UpstreamUnreachable, SQLState: "08006", Message: "the connection to the source was lost"}
	}
	c.say(r)
}

// patience is how a session's reader reads from the network. Before it waits, it sees to it that the server has everything; while
// it waits, it minds the time and the server's shutdown.
type patience struct {
	conn *conn
	ctx  context.Context
}

// Read is io.Reader's, for the reader's goroutine only. A wake-up may be stale, so the first read is tried as it is; the deadline is
// set before the look at the reasons to end, so that a wake-up in between is not lost.
func (p *patience) Read(b []byte) (int, error) {
	c := p.conn
	if c.session.Push() != nil {
		return 0, errLost
	}
	most := c.srv.limits.IdleTime
	for woken := false; ; woken = true {
		var limit time.Time
		if most > 0 {
			limit = time.Now().Add(most)
		}
		if most > 0 || woken {
			c.raw.SetReadDeadline(limit)
		}
		if err := p.over(false); err != nil {
			return 0, err
		}
		n, err := c.net.Read(b)
		if n > 0 || !timedOut(err) {
			return n, err
		}
		if err := p.over(most > 0 && !time.Now().Before(limit)); err != nil {
			return 0, err
		}
	}
}

// over returns why the session should end now, if it should.
func (p *patience) over(expired bool) error {
	c := p.conn
	switch draining := c.srv.draining.Load(); {
	case c.srv.base.Err() != nil:
		return shuttingDown()
	case p.ctx.Err() != nil:
		return errStopped
	case !draining && !expired, !c.session.Idle(), c.session.InTransaction():
		return nil
	case draining:
		return shuttingDown()
	}
	return &sqlgov.Refusal{Kind: sqlgov.Canceled, SQLState: "57P05",
		Message: "terminating connection due to idle-session timeout"}
}

func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
