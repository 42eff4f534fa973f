package sqlgov_test

import (
	"context"
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var everyProof = flag.Bool("proofs", false, "prove every attack case on an unguarded server, not every fourth")

// Without the guard each case does what it claims, with the gateway's own login and the same client: it shows a secret,
// returns rows or an error that tell something, changes the database or takes its time. So TestAttacks can fail. What
// needs a superuser is shown with one: the gateway's login may be one, too.
func TestAttacksUnguarded(t *testing.T) {
	cases := attacks(t)
	workers := 2
	for w := range workers {
		t.Run([]string{"even", "odd"}[w], func(t *testing.T) {
			t.Parallel()
			p := &prover{t: t}
			defer func() { p.replace(nil) }()
			for i, c := range cases {
				if i%workers == w && (*everyProof || i/workers%4 == 0) {
					p.prove(c)
				}
			}
		})
	}
}

// prover runs cases on a database that is replaced when a case may have changed it.
type prover struct {
	t *testing.T
	d *attackDatabase
}

func (p *prover) replace(d *attackDatabase) {
	if p.d != nil {
		p.d.drop(p.t)
	}
	p.d = d
}

func (p *prover) prove(c *attack) {
	if c.Proof == "skip" {
		return // what it shows comes after the statement
	}
	p.t.Run(c.ID, func(t *testing.T) {
		var tr *transcript
		for _, login := range []string{"", "gov_svc", "gov_super"} {
			if p.d == nil {
				p.replace(copyAttacks(t))
			}
			w := &wire{dsn: p.d.client, extended: c.SQL[0].P != nil || c.SQL[0].Prep != "", oid: p.d.oid(t)}
			switch {
			case login != "":
				w.dsn = p.d.server.As(p.d.admin, login, "")
				tr = play(t, c, p.d, w)
			case len(c.SQL) == 1 && c.SQL[0].Startup == nil:
				tr = play(t, c, p.d, &undone{wire: w, proof: c.Proof})
			default:
				continue
			}
			shown := p.shown(t, c, tr)
			if lasting.MatchString(c.typed()) || login != "" && writing.MatchString(c.typed()) {
				p.replace(nil)
			}
			if shown {
				return
			}
		}
		t.Errorf("not shown: %s\n%s", c.Proof, describe(c, tr))
	})
}

// undone runs the steps in a transaction that is rolled back, as the gateway's login, and asks for the effect in it.
type undone struct {
	*wire
	proof   string
	started bool
}

func (u *undone) run(ctx context.Context, s step) reply {
	if !u.started {
		if r := u.wire.run(ctx, step{Q: "BEGIN"}); r.state != "" {
			return r
		}
	}
	u.started = true
	return u.wire.run(ctx, s)
}

func (u *undone) close() *transcript {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	check := [][]string{}
	if query, found := strings.CutPrefix(u.proof, "sql:"); found {
		query, _, _ = cutLast(query, "=")
		check = append(check, u.wire.run(ctx, step{Q: query}).rows...)
	}
	u.wire.run(ctx, step{Q: "ROLLBACK"})
	tr := u.wire.close()
	tr.check = check
	return tr
}

// shown reports if what a case claims was seen.
func (p *prover) shown(t *testing.T, c *attack, tr *transcript) bool {
	if evident(t, c, p.d, tr) {
		return true
	}
	kind, code, _ := strings.Cut(c.Proof, ":")
	if kind == "fp" {
		return true // about the texts alone
	}
	states := map[string]bool{}
	for _, r := range tr.replies {
		states[r.state] = true
	}
	last := tr.replies[len(tr.replies)-1]
	switch kind {
	case "err":
		return code == "" && last.state != "" || states[code]
	case "none":
		// It runs: that nobody sees a value is a matter of where to look, or of several tries.
		return last.state == "" || slices.Contains(c.Verified.SQLStates, last.state)
	}
	return false
}

// writing is in the texts that may change something, lasting in those that do in a transaction that is rolled back.
var (
	writing = regexp.MustCompile(`(?i)insert|update|delete|create|alter|drop|nextval|setval|write_fn|truncate|lo_|merge|copy|` +
		`comment|cluster|vacuum|analyze|role|into|fastpath|cursor|dblink`)
	lasting = regexp.MustCompile(`(?i)nextval|setval|commit|dblink|system|"C":"b"`)
)
