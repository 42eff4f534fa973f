package sqlgov

import (
	"context"
	"fmt"
	"time"

	"interlock/internal/ratelimit"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// Rates counts against token buckets: those of this process, or those that all nodes share. It has no error: who
// implements it counts against stricter limits of its own when what is shared is out of reach, and never lets pass
// uncounted.
type Rates interface {
	Take(ctx context.Context, demands []ratelimit.Demand) ratelimit.Answer
}

// quota is a bucket that a request counts against, with what the caller is told when it is empty.
type quota struct {
	key     string
	limit   ratelimit.Limit
	whose   string
	message string // the operator's own words; "" means the usual ones
}

// meter takes a token for every statement from each bucket that the request counts against, or refuses it. A statement
// that is only judged takes none, nor does one that fetches more rows of a portal, or one that was counted when it was held.
func (c *Core) meter(ctx context.Context, a *admission) *Refusal {
	tokens := counted(a.judged.facts)
	if a.rehearse || a.continues || a.approved != nil || tokens == 0 {
		return nil
	}
	return c.take(ctx, a.quotas(), tokens)
}

// meterLook takes a token for a request that runs no statement.
func (c *Core) meterLook(ctx context.Context, a *admission) *Refusal {
	return c.take(ctx, a.identityQuota(), 1)
}

// counted is the number of statements that count. The end of a transaction does not: to refuse it would keep the
// transaction, and its locks, open.
func counted(f *analyze.Facts) int {
	n := 0
	for i := range f.Statements {
		switch f.Statements[i].Kind {
		case analyze.Empty, analyze.Commit, analyze.Rollback, analyze.Release,
			analyze.Fetch, analyze.Move, analyze.Close: // DECLARE has counted
		default:
			n++
		}
	}
	return n
}

func (c *Core) take(ctx context.Context, quotas []quota, tokens int) *Refusal {
	if len(quotas) == 0 {
		return nil
	}
	demands := make([]ratelimit.Demand, len(quotas))
	for i, q := range quotas {
		demands[i] = ratelimit.Demand{Key: q.key, Limit: q.limit, Tokens: tokens}
	}
	var answer ratelimit.Answer
	if c.Rates != nil {
		answer = c.Rates.Take(ctx, demands)
	} else {
		answer = c.buckets.Take(time.Now(), demands)
	}
	if answer.OK {
		return nil
	}
	return quotas[answer.Denied].refuse(tokens, answer.Wait)
}

// quotas are the buckets of a statement: the identity's, the identity's on the source, and those of policies.
func (a *admission) quotas() []quota {
	all := a.identityQuota()
	if l := a.src.Limits.Rate; l.Set() {
		all = append(all, quota{key: "source/" + a.caller.Identity + "/" + a.source, limit: bucket(l.Count, l.Window, l.Burst),
			whose: fmt.Sprintf("identity %q on source %q", a.caller.Identity, a.source)})
	}
	for _, r := range a.obligations().Rates {
		all = append(all, a.policyQuota(&r))
	}
	return all
}

func (a *admission) identityQuota() []quota {
	who := a.rules.Identity(a.caller.Identity)
	if who == nil || !who.Limits.Rate.Set() {
		return nil
	}
	l := who.Limits.Rate
	return []quota{{key: "identity/" + a.caller.Identity, limit: bucket(l.Count, l.Window, l.Burst), whose: fmt.Sprintf("identity %q", a.caller.Identity)}}
}

func (a *admission) policyQuota(r *policy.Rate) quota {
	q := quota{key: "policy/" + r.Rule, limit: bucket(r.Limit, r.Window, r.Burst), whose: fmt.Sprintf("policy %q", r.Rule), message: r.Message}
	switch r.Per {
	case policy.PerRule:
	case policy.PerIdentitySource:
		q.key += "/" + a.caller.Identity + "/" + a.source
	default:
		q.key += "/" + a.caller.Identity
	}
	return q
}

func bucket(count int, window time.Duration, burst int) ratelimit.Limit {
	l := ratelimit.Limit{Count: max(1, count), Window: max(1, window), Burst: burst}
	if burst <= 0 {
		l.Burst = l.Count
	}
	return l
}

func (q *quota) refuse(tokens int, wait time.Duration) *Refusal {
	r := &Refusal{Kind: RateLimited, SQLState: "53400", Message: q.message}
	if q.message == "" {
		r.Message = fmt.Sprintf("the rate limit of %s is reached: %d statements in %s", q.whose, q.limit.Count, short(q.limit.Window))
	}
	if wait == ratelimit.Never {
		r.Hint = fmt.Sprintf("These are %d statements, more than may come at once: send them in smaller parts.", tokens)
		return r
	}
	return r.retry(wait)
}

// retry says when to come back.
func (r *Refusal) retry(wait time.Duration) *Refusal {
	r.RetryAfter = max(wait, time.Millisecond)
	r.Hint = "Try again in " + short(r.RetryAfter) + "."
	return r
}

// short writes a time span for people: rounded up to whole seconds if it is longer than one, and without zero units.
func short(d time.Duration) string {
	unit := time.Millisecond
	if d > time.Second {
		unit = time.Second
	}
	d = (d + unit - 1).Truncate(unit)
	switch {
	case d%time.Hour == 0 && d > 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d > 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
