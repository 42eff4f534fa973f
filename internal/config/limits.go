package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"interlock/sqlgov/policy"
)

const ratePattern = `^[1-9][0-9]{0,6}/(s|min|h|day)$`

var (
	rateForm    = regexp.MustCompile(ratePattern)
	rateWindows = map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour, "day": day}
)

// rateFields are the keys rate and burst.
func rateFields(l *policy.RateLimit, of string) []field {
	var written string
	return []field{
		{"rate", text(&written, "", "Statements of "+of+", as in 5/s, 100/min, 1000/h or 5000/day: so many flow in evenly over that time. Without it there is no limit.",
			ratePattern, func(s string) (err error) {
				l.Count, l.Window, err = parseRate(s)
				return err
			})},
		{"burst", integer(&l.Burst, "Statements that may come at once. Default: as many as rate says.", bounds{1, 1_000_000, 0})},
	}
}

func parseRate(s string) (count int, window time.Duration, err error) {
	if !rateForm.MatchString(s) {
		return 0, 0, fmt.Errorf("%q is no rate; write it as in 5/s, 100/min, 1000/h or 5000/day", s)
	}
	digits, unit, _ := strings.Cut(s, "/")
	count, err = strconv.Atoi(digits)
	return count, rateWindows[unit], err
}

// checkLimits finds a key that means nothing without another one.
func checkLimits(rate *policy.RateLimit, c *policy.Concurrency, r *reader, node func(string) *yaml.Node) {
	if rate.Burst > 0 && !rate.Set() {
		r.fail(node("burst"), "burst belongs to rate")
	}
	if c.Running == 0 && (c.Queue > 0 || c.Wait > 0) {
		r.fail(node("queue"), "queue and queue_wait belong to concurrency")
	}
}

func identityLimitsShape(l *policy.IdentityLimits) shape {
	return &object{
		about:  "What the identity may ask of all sources together.",
		fields: append(rateFields(&l.Rate, "the identity"), concurrencyFields(&l.Concurrency, "the identity")...),
		done:   func(r *reader, node func(string) *yaml.Node) { checkLimits(&l.Rate, &l.Concurrency, r, node) },
	}
}

// redisShape describes the state that nodes share.
func redisShape(c *Redis) shape {
	return &object{
		about:    "Redis, by which the nodes of a gateway share rate limits, and tell each other of writes to sources with a cache. Without it every node is alone.",
		required: []string{"url"},
		fields: []field{
			{"url", text(&c.URL, "", "Reference to the URL, redis://[user:password@]host:port/database or rediss:// for TLS: env:NAME or file:PATH.", referencePattern, checkReference)},
			{"ca", words(&c.CA, "", "PEM file with the certificates of the authorities that are trusted for rediss://. Default: those of the system.")},
			{"prefix", text(&c.Prefix, "interlock", "What the names of keys begin with. Nodes that have the same one share their limits.", `^[A-Za-z0-9._:-]{1,64}$`, checkPrefix)},
			{"timeout", duration(&c.Timeout, "An answer that takes longer counts as Redis lost.", 5*time.Millisecond, 10*time.Second, 250*time.Millisecond)},
			{"lost_share", integer(&c.LostShare, "Percentage of every rate limit and budget that a node grants by itself while Redis is lost.", bounds{1, 100, 25})},
		},
	}
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

func checkPrefix(s string) error {
	if !prefixForm.MatchString(s) {
		return fmt.Errorf("%q is no prefix; use letters, digits, '.', '_', ':' and '-'", s)
	}
	return nil
}

// breakerShape describes when a source counts as lost.
func breakerShape(b *Breaker) shape {
	return &object{
		about: "A source whose server cannot be reached is left alone for a while.",
		fields: []field{
			{"failures", integer(&b.Failures, "Failures to connect, lost connections and timeouts in a row after which the circuit of a source opens.", bounds{1, 1000, 5})},
			{"pause", duration(&b.Pause, "How long a circuit stays open before one request tries again.", 100*time.Millisecond, time.Hour, 10*time.Second)},
		},
	}
}

// concurrencyFields are the keys concurrency, queue and queue_wait.
func concurrencyFields(c *policy.Concurrency, of string) []field {
	return []field{
		{"concurrency", integer(&c.Running, "Statements of "+of+" that run at the same time on this node. Without it there is no bound.", bounds{1, 100_000, 0})},
		{"queue", integer(&c.Queue, "Statements that wait for their turn when concurrency is reached; others are refused at once. Default: none.", bounds{0, 100_000, 0})},
		{"queue_wait", duration(&c.Wait, "How long a statement waits for its turn. Default: 5s.", time.Millisecond, 10*time.Minute, 0)},
	}
}

// cacheShape describes for how long results of reads are kept.
func cacheShape(c *policy.CacheSpec) shape {
	return &object{
		about: "Results of reads over MCP are kept and served again, until something is written through the gateway. Only for a source that nothing else writes to: what others " +
			"change is not noticed before the time has passed.",
		required: []string{"ttl"},
		fields:   []field{{"ttl", duration(&c.TTL, "How old a result that is served again may be.", 100*time.Millisecond, day, 0)}},
	}
}
