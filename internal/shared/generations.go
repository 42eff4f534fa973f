package shared

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"interlock/internal/loop"
)

// Generations are the generations of data, and its writers, in Redis: sqlgov.Generations. While Redis is lost every method
// fails, so that nothing is served from a cache and nothing is changed.
//
// Redis must not lose what it has confirmed: after a failover to a replica that is behind, what was kept can be served
// though it has been changed, for as long as it may be kept.
type Generations struct{ rates *Rates }

// Generations returns those that are kept in the same Redis under the same prefix.
func (r *Rates) Generations() *Generations { return &Generations{rates: r} }

//go:embed generation.lua
var generationScript string

var generation = redis.NewScript(generationScript)

// errLost is what callers get while it is not time to try again.
var errLost = errors.New("the shared state in Redis is lost")

// Generation returns the present generation of data, and if nobody changes it.
func (g *Generations) Generation(ctx context.Context, data string, lease time.Duration) (present string, quiet bool, err error) {
	present, writers, err := g.do(ctx, "look", data, "", lease)
	return present, writers == 0, err
}

// Begin notes a writer.
func (g *Generations) Begin(ctx context.Context, data, writer string, lease time.Duration) error {
	_, _, err := g.do(ctx, "begin", data, writer, lease)
	return err
}

// End forgets a writer.
func (g *Generations) End(ctx context.Context, data, writer string, lease time.Duration) error {
	_, _, err := g.do(ctx, "end", data, writer, lease)
	return err
}

func (g *Generations) do(ctx context.Context, todo, data, writer string, lease time.Duration) (present string, writers int64, err error) {
	loop.Leave(ctx)
	if !g.rates.mayTry() {
		return "", 0, errLost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.rates.cfg.Timeout)
	defer cancel()
	key := "{" + g.rates.cfg.Prefix + "}:generation:" + data
	reply, err := generation.Run(ctx, g.rates.client, []string{key}, todo, ulid.Make().String(), writer, lease.Milliseconds()).Slice()
	if err != nil {
		g.rates.lost(err)
		return "", 0, err
	}
	g.rates.found()
	if len(reply) == 2 {
		name, named := reply[0].(string)
		n, counted := reply[1].(int64)
		if named && counted {
			return name, n, nil
		}
	}
	return "", 0, fmt.Errorf("unexpected answer of Redis: %v", reply)
}
