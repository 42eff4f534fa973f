package sqlgov

import (
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"interlock/audit"
	"interlock/internal/ratelimit"
)

const (
	defaultStrangers = 60
	// strangersInAll is how many times as many failures are recorded of all addresses together as of one, so that many
	// addresses cannot flood the audit log either.
	strangersInAll = 20
)

// strangers bounds what the audit log takes from those who have not proved who they are.
type strangers struct {
	buckets ratelimit.Buckets
	omitted atomic.Int64
}

// admit returns nil if the failure of a client may be recorded, else what the client is told instead.
func (s *strangers) admit(address string, aMinute int) *Refusal {
	if aMinute <= 0 {
		aMinute = defaultStrangers
	}
	one := ratelimit.Limit{Count: aMinute, Window: time.Minute, Burst: aMinute}
	all := ratelimit.Limit{Count: aMinute * strangersInAll, Window: time.Minute, Burst: aMinute * strangersInAll}
	answer := s.buckets.Take(time.Now(), []ratelimit.Demand{
		{Key: neighbourhood(address), Limit: one, Tokens: 1}, {Key: "all", Limit: all, Tokens: 1}})
	if answer.OK {
		return nil
	}
	s.omitted.Add(1)
	return (&Refusal{Kind: RateLimited, SQLState: "53400",
		Message: "too many requests without a valid key have come from this address"}).retry(answer.Wait)
}

// neighbourhood is the address of a client, or the network of 64 bits that one customer has all of in IPv6.
func neighbourhood(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "unknown"
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // fails for a wrong length only
	return network.String()
}

// RecordOmitted records how many failures were not recorded one by one since it was last called.
func (c *Core) RecordOmitted() {
	n := c.strangers.omitted.Swap(0)
	if n == 0 {
		return
	}
	ev := &audit.Event{Name: audit.FailuresOmitted, Attributes: map[string]string{"count": strconv.FormatInt(n, 10)}}
	if err := c.event(Caller{}, "", "", ev); err != nil {
		c.strangers.omitted.Add(n)
		c.Log.Error().Err(err).Int64("count", n).Msg("omitted failures not recorded")
	}
}
