package sqlgov

import (
	"context"
	"fmt"
	"time"
)

// connectable refuses what needs a new connection to a source whose circuit is open. A session has its connection
// already, and finds out by itself when it is lost.
func (c *Core) connectable(_ context.Context, a *admission) *Refusal {
	if a.place != nil || c.Circuit == nil {
		return nil
	}
	if again, open := c.Circuit(a.source); open {
		return circuitOpen(a.source, again)
	}
	return nil
}

func circuitOpen(source string, again time.Duration) *Refusal {
	r := (&Refusal{Kind: SourceUnavailable, SQLState: "08004",
		Message: fmt.Sprintf("source %q is unavailable: its circuit is open, because its server could not be reached", source)}).retry(again)
	r.Hint = "The server is tried again in " + short(r.RetryAfter) + "."
	return r
}
