package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/identity"
	"interlock/internal/pgtest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

const heldDocument = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  everything: {source: shop, permissions: [{allow: [db.table.select, db.table.insert], on: ["*"]}]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [everything]}]}
  dora: {kind: human}
groups:
  dba: [dora]
policies:
  ask: {when: statement.write, hold: {groups: [dba]}}
`

// nodes are gateways in processes of their own that share a control store.
type nodes struct {
	t        *testing.T
	dir      string
	upstream string
	ana      string
	dora     string
	more     string // lines of their configuration
}

func newNodes(t *testing.T) *nodes {
	t.Helper()
	return nodesOf(t, heldDocument, "create table ran (i int)")
}

// nodesOf are nodes that govern a new database by a document.
func nodesOf(t *testing.T, document string, setup ...string) *nodes {
	t.Helper()
	n := &nodes{t: t, dir: t.TempDir(), upstream: pgtest.Start(t).Database(t, setup...)}
	u, err := url.Parse(n.upstream)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("HOST", u.Hostname(), "PORT", u.Port(), "DATABASE", strings.TrimPrefix(u.Path, "/"), "USER", pgtest.Superuser).Replace(document)
	if err := os.WriteFile(filepath.Join(n.dir, "governance.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(n.config("keys"))
	if err != nil {
		t.Fatal(err)
	}
	st, keys, err := gateway.OpenControl(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for who, key := range map[string]*string{"ana": &n.ana, "dora": &n.dora} {
		if *key, _, err = keys.Create(t.Context(), who, identity.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// config writes the configuration of a node.
func (n *nodes) config(name string) string {
	n.t.Helper()
	file := filepath.Join(n.dir, name+".yaml")
	text := "governance: governance.yaml\ndata_dir: " + name + "\nstore: {dir: shared}\naudit: {node: " + name + "}\napprovals: {lease: 1s}\n" +
		`listeners: {pgwire: {address: "127.0.0.1:0"}, mcp: {disabled: true}, admin: {address: "127.0.0.1:0"}}` + "\n" + n.more
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return file
}

// node is a running process.
type node struct {
	cmd       *exec.Cmd
	pg, admin string
}

// start runs a node that kills itself where a step of the life of an approval begins or has ended; "" never.
func (n *nodes) start(name, dieAt string) *node {
	n.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMain$")
	cmd.Env = append(os.Environ(), "INTERLOCK_TEST_NODE="+n.config(name), "INTERLOCK_TEST_DIES="+dieAt)
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = os.Stderr
		err = cmd.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	pg, admin, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok {
		n.t.Fatalf("node %s: %q %v", name, line, err)
	}
	return &node{cmd, pg, admin}
}

// kill ends a node as kill -9 does.
func (p *node) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// runNode is the process of a node.
func runNode(file, dieAt string) {
	cfg, err := config.Load(file)
	if err == nil {
		var g *gateway.Gateway
		if g, err = gateway.StartWith(context.Background(), cfg, "test", zerolog.Nop(), mortal(filepath.Dir(file), dieAt)); err == nil {
			for g.Catalogs.Index("shop") == nil {
				time.Sleep(time.Millisecond)
			}
			fmt.Println(g.PGAddr(), g.AdminURL())
			select {}
		}
	}
	fmt.Println("error:", err)
	os.Exit(1)
}

// asleep is a file beside the configuration of a node that takes up no approvals of others as long as it exists.
const asleep = "asleep"

// mortal makes a core that dies at a point: "before" or "after" a step.
func mortal(dir, at string) func(*sqlgov.Core) {
	die := func(point string) {
		if point == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	return func(c *sqlgov.Core) {
		c.Approvals.Store = &mortalStore{c.Approvals.Store, filepath.Join(dir, asleep), die}
		c.Upstream = &mortalUpstream{c.Upstream, die}
		c.Audit = &mortalAudit{c.Audit, die}
	}
}

type mortalStore struct {
	sqlgov.ApprovalStore
	asleep string
	die    func(string)
}

// FindApprovals finds nothing to take up while another node is to begin.
func (s *mortalStore) FindApprovals(ctx context.Context, f sqlgov.ApprovalFilter) ([]sqlgov.Approval, error) {
	if _, err := os.Stat(s.asleep); err == nil && slices.Equal(f.States, []sqlgov.ApprovalState{sqlgov.ApprovalApproved}) {
		return nil, nil
	}
	return s.ApprovalStore.FindApprovals(ctx, f)
}

func (s *mortalStore) QueueApproval(ctx context.Context, a *sqlgov.Approval, perIdentity, inAll int) error {
	s.die("before queue")
	err := s.ApprovalStore.QueueApproval(ctx, a, perIdentity, inAll)
	s.die("after queue")
	return err
}

func (s *mortalStore) VoteApproval(ctx context.Context, id string, v sqlgov.Vote, enough func([]sqlgov.Vote) bool) (bool, error) {
	s.die("before vote")
	ok, err := s.ApprovalStore.VoteApproval(ctx, id, v, enough)
	s.die("after vote")
	return ok, err
}

func (s *mortalStore) MoveApproval(ctx context.Context, m sqlgov.ApprovalMove) (bool, error) {
	step := "outcome"
	if m.To == sqlgov.ApprovalExecuting {
		step = "claim"
	}
	s.die("before " + step)
	ok, err := s.ApprovalStore.MoveApproval(ctx, m)
	s.die("after " + step)
	return ok, err
}

type mortalUpstream struct {
	sqlgov.Upstream
	die func(string)
}

func (u *mortalUpstream) Run(ctx context.Context, src *policy.SourceSpec, req sqlgov.RunRequest, sink sqlgov.Sink) (sqlgov.Summary, error) {
	u.die("before run")
	done := sink.Done
	sink.Done = func(tag string) error {
		err := done(tag)
		u.die("before commit")
		return err
	}
	sum, err := u.Upstream.Run(ctx, src, req, sink)
	u.die("after commit")
	return sum, err
}

type mortalAudit struct {
	sqlgov.Recorder
	die func(string)
}

func (a *mortalAudit) Intent(ctx context.Context, r *audit.Record) error {
	a.die("before intent")
	err := a.Recorder.Intent(ctx, r)
	a.die("after intent")
	return err
}

// hold has ana insert a row, which is held. The id is "" if she heard nothing of it.
func (n *nodes) hold(at *node, i int) error {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("ana", n.ana), Host: at.pg, Path: "/shop", RawQuery: "sslmode=disable"}
	conn, err := pgx.Connect(n.t.Context(), u.String())
	if err != nil {
		return err
	}
	defer conn.Close(n.t.Context())
	_, err = conn.Exec(n.t.Context(), "insert into ran values ($1)", i)
	return err
}

func (n *nodes) call(at *node, method, path string, into any) (int, error) {
	req, err := http.NewRequest(method, at.admin+"/v1/approvals"+path, bytes.NewReader(nil))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+n.dora)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	return resp.StatusCode, err
}

func (n *nodes) all(at *node) []sqlgov.ApprovalView {
	n.t.Helper()
	var views []sqlgov.ApprovalView
	if status, err := n.call(at, "GET", "", &views); err != nil || status != 200 {
		n.t.Fatalf("%d %v", status, err)
	}
	return views
}

func (n *nodes) rows() int {
	n.t.Helper()
	conn, err := pgx.Connect(n.t.Context(), n.upstream)
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close(n.t.Context())
	var rows int
	if err := conn.QueryRow(n.t.Context(), "select count(*) from ran").Scan(&rows); err != nil {
		n.t.Fatal(err)
	}
	return rows
}

// A hundred people's clicks at two gateways run a statement once.
func TestHundredApprovalsRunOnce(t *testing.T) {
	n := newNodes(t)
	both := []*node{n.start("one", ""), n.start("two", "")}
	for round := 1; round <= 5; round++ {
		if err := n.hold(both[round%2], round); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Fatalf("not held: %v", err)
		}
		id := n.all(both[0])[0].ID
		statuses := map[int]int{}
		var mu sync.Mutex
		var clicks sync.WaitGroup
		for i := range 100 {
			clicks.Go(func() {
				status, err := n.call(both[i%2], "POST", "/"+id+"/approve", nil)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[status]++
			})
		}
		clicks.Wait()
		if statuses[200] != 1 || statuses[409] != 99 {
			t.Errorf("answers: %v", statuses)
		}
		n.awaitFinal(both[1], id)
		if rows := n.rows(); rows != round {
			t.Errorf("round %d: %d rows", round, rows)
		}
	}
}

func (n *nodes) awaitFinal(at *node, id string) sqlgov.ApprovalView {
	n.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var v sqlgov.ApprovalView
		if status, err := n.call(at, "GET", "/"+id, &v); err != nil || status != 200 {
			n.t.Fatalf("%d %v", status, err)
		}
		if v.State.Final() {
			return v
		}
	}
	n.t.Fatalf("approval %s does not end", id)
	return sqlgov.ApprovalView{}
}

// A gateway is killed at each step of the life of an approval. Another one then finds each statement in a state that tells
// the truth, and none is run twice, whatever is tried.
func TestKilledAtEachStep(t *testing.T) {
	n := newNodes(t)
	other := n.start("other", "")
	ran := 0
	for _, tc := range []struct {
		at    string
		state sqlgov.ApprovalState // that another gateway finds; "" if there is no approval
		ran   int
	}{
		{"before queue", "", 0},
		{"after queue", sqlgov.ApprovalPending, 0},
		{"before vote", sqlgov.ApprovalPending, 0},
		{"after vote", sqlgov.ApprovalDone, 1}, // the other one takes it up
		{"before claim", sqlgov.ApprovalDone, 1},
		{"after claim", sqlgov.ApprovalUnknown, 0},
		{"before intent", sqlgov.ApprovalUnknown, 0},
		{"after intent", sqlgov.ApprovalUnknown, 0},
		{"before run", sqlgov.ApprovalUnknown, 0},
		{"before commit", sqlgov.ApprovalUnknown, 0},
		{"after commit", sqlgov.ApprovalUnknown, 1},
		{"before outcome", sqlgov.ApprovalUnknown, 1},
		{"after outcome", sqlgov.ApprovalDone, 1},
	} {
		before := len(n.all(other))
		victim := n.start(strings.ReplaceAll(tc.at, " ", "-"), tc.at)
		err := n.hold(victim, 1)
		views := n.all(other)
		if tc.state == "" {
			if err == nil || len(views) != before {
				t.Errorf("%s: %v, %d approvals", tc.at, err, len(views)-before)
			}
			continue
		}
		if len(views) != before+1 {
			t.Fatalf("%s: %v, %d approvals", tc.at, err, len(views)-before)
		}
		id := views[0].ID
		if err := os.WriteFile(filepath.Join(n.dir, asleep), nil, 0o600); err != nil { // it is the victim that runs it
			t.Fatal(err)
		}
		if tc.at != "after queue" {
			_, _ = n.call(victim, "POST", "/"+id+"/approve", nil) // its answer is lost
		}
		stuck := time.AfterFunc(time.Minute, func() {
			t.Errorf("%s: the gateway lives", tc.at)
			_ = victim.cmd.Process.Kill()
		})
		_ = victim.cmd.Wait()
		stuck.Stop()
		if err := os.Remove(filepath.Join(n.dir, asleep)); err != nil {
			t.Fatal(err)
		}
		var v sqlgov.ApprovalView
		if tc.state == sqlgov.ApprovalPending {
			v = n.all(other)[0]
			if _, err := n.call(other, "POST", "/"+id+"/reject", nil); err != nil {
				t.Fatal(err)
			}
		} else {
			v = n.awaitFinal(other, id)
		}
		if v.State != tc.state {
			t.Errorf("%s: the approval is %s, want %s", tc.at, v.State, tc.state)
		}
		ran += tc.ran
		again := n.start(strings.ReplaceAll(tc.at, " ", "-"), "") // the same node comes back
		if status, err := n.call(again, "POST", "/"+id+"/approve", nil); err != nil || status != http.StatusConflict {
			t.Errorf("%s: approved again: %d %v", tc.at, status, err)
		}
		again.kill()
		if rows := n.rows(); rows != ran {
			t.Errorf("%s: %d rows, want %d", tc.at, rows, ran)
			ran = rows
		}
	}
}
