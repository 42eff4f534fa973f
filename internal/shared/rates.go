// Package shared keeps in Redis what the nodes of a gateway must agree on. What it says when Redis cannot be reached is
// never more than what it would say otherwise.
package shared

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"interlock/internal/loop"
	"interlock/internal/ratelimit"
)

// Config is how to reach Redis. Only URL has no default.
type Config struct {
	URL string // redis:// or rediss://
	// CA holds the PEM certificates of the authorities that are trusted for rediss://; nil means those of the system.
	CA      []byte
	Prefix  string        // of the names of keys; "interlock"
	Timeout time.Duration // that Redis has for an answer, connecting included; 250 ms
	// LostShare is the percentage of each limit that is granted by this node while Redis is lost; 25.
	LostShare int
	// Changed is told when Redis is lost and found again. It may be nil.
	Changed func(lost bool, err error)
	Log     zerolog.Logger
}

// Rates are token buckets in Redis, shared by all who use the same prefix. While Redis is lost, every node counts by
// itself against a share of each limit. It is safe for concurrent use.
type Rates struct {
	cfg    Config
	client *redis.Client
	local  ratelimit.Buckets
	// again is when Redis may be tried again after it was lost, in Unix nanoseconds; 0 while it is not lost.
	again  atomic.Int64
	change sync.Mutex // serialises Changed
}

// tryAgain is the time between two attempts to reach Redis after it was lost. Meanwhile nobody waits for it.
const tryAgain = time.Second

// script takes the tokens of all buckets or of none.
//
//go:embed take.lua
var script string

var take = redis.NewScript(script)

// New returns Rates. Redis need not be reachable yet.
func New(cfg Config) (*Rates, error) {
	opt, err := redis.ParseURL(cfg.URL)
	if err != nil {
		return nil, errors.New("the URL of Redis is malformed; write redis://[user:password@]host:port/database, or rediss:// for TLS") // err can quote the password
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "interlock"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 250 * time.Millisecond
	}
	if cfg.LostShare <= 0 {
		cfg.LostShare = 25
	}
	if opt.TLSConfig != nil {
		if err := trust(opt.TLSConfig, cfg.CA); err != nil {
			return nil, err
		}
	}
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.PoolTimeout = cfg.Timeout, cfg.Timeout, cfg.Timeout, cfg.Timeout
	opt.MaxRetries, opt.DialerRetries = -1, 1 // an answer that was lost may have taken the tokens
	opt.ContextTimeoutEnabled = true
	silence.Do(func() { redis.SetLogger(silent{}) })
	return &Rates{cfg: cfg, client: redis.NewClient(opt)}, nil
}

// silent keeps the client from writing to standard error by itself. What matters is in the errors that it returns.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var silence sync.Once

func trust(conf *tls.Config, ca []byte) error {
	conf.MinVersion = tls.VersionTLS12
	if ca == nil {
		return nil
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(ca) {
		return errors.New("the file with the authorities for Redis holds no certificate")
	}
	return nil
}

// Close closes the connections to Redis.
func (r *Rates) Close() error { return r.client.Close() }

// Lost reports if Redis could not be reached when it was last tried.
func (r *Rates) Lost() bool { return r.again.Load() != 0 }

// Take takes the tokens of all demands, or of none.
func (r *Rates) Take(ctx context.Context, demands []ratelimit.Demand) ratelimit.Answer {
	for i := range demands { // no need to ask
		if demands[i].Tokens > demands[i].Limit.Burst {
			return ratelimit.Answer{Denied: i, Wait: ratelimit.Never}
		}
	}
	if r.mayTry() {
		answer, err := r.shared(ctx, demands)
		if err == nil {
			r.found()
			return answer
		}
		r.lost(err)
	}
	return r.byItself(demands)
}

// mayTry lets one caller in a while find out if Redis is back.
func (r *Rates) mayTry() bool {
	again := r.again.Load()
	if again == 0 {
		return true
	}
	now := time.Now()
	return now.UnixNano() >= again && r.again.CompareAndSwap(again, now.Add(tryAgain).UnixNano())
}

func (r *Rates) lost(err error) {
	if r.again.Swap(time.Now().Add(tryAgain).UnixNano()) == 0 {
		r.changed(true, err)
	}
}

func (r *Rates) found() {
	if r.again.Load() != 0 && r.again.Swap(0) != 0 {
		r.changed(false, nil)
	}
}

func (r *Rates) changed(lost bool, err error) {
	r.change.Lock()
	defer r.change.Unlock()
	if lost {
		r.cfg.Log.Error().Err(err).Int("percent", r.cfg.LostShare).Msg("Redis is lost; rate limits are kept by this node alone, with a share of each")
	} else {
		r.cfg.Log.Info().Msg("Redis is found again; rate limits are shared")
	}
	if r.cfg.Changed != nil {
		r.cfg.Changed(lost, err)
	}
}

// byItself counts against this node's share of each limit.
func (r *Rates) byItself(demands []ratelimit.Demand) ratelimit.Answer {
	stricter := make([]ratelimit.Demand, len(demands))
	for i, d := range demands {
		d.Limit = d.Limit.Share(r.cfg.LostShare)
		stricter[i] = d
	}
	return r.local.Take(time.Now(), stricter)
}

// shared asks Redis. The caller's own cancellation is no reason to count Redis as lost, so it is not passed on: the
// answer is there in a moment.
func (r *Rates) shared(ctx context.Context, demands []ratelimit.Demand) (ratelimit.Answer, error) {
	loop.Leave(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Timeout)
	defer cancel()
	keys := make([]string, len(demands))
	args := make([]any, 0, 3*len(demands))
	for i, d := range demands {
		// In a cluster, a script may use the keys of one slot only: that of the text in braces.
		keys[i] = "{" + r.cfg.Prefix + "}:rate:" + d.Key
		args = append(args, microseconds(d.Limit.Every()), d.Limit.Burst, d.Tokens)
	}
	reply, err := take.Run(ctx, r.client, keys, args...).Int64Slice()
	if err != nil {
		return ratelimit.Answer{}, err
	}
	if len(reply) != 2 || reply[0] > int64(len(demands)) {
		return ratelimit.Answer{}, fmt.Errorf("unexpected answer of Redis: %v", reply)
	}
	if reply[0] == 0 {
		return ratelimit.Answer{OK: true}, nil
	}
	wait := time.Duration(min(reply[1], math.MaxInt64/int64(time.Microsecond)-1)) * time.Microsecond
	return ratelimit.Answer{Denied: int(reply[0] - 1), Wait: wait}, nil
}

// microseconds is a time span for the script, whose numbers are exact up to 2^53.
func microseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Microsecond), 'f', 3, 64)
}
