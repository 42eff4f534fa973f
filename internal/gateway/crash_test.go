package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/gatewaytest"
	"interlock/internal/identity"
	"interlock/internal/pgtest"
)

// serveUntilKilled is the process that TestKilledGateway kills. It prints the address of its PostgreSQL door.
func serveUntilKilled(file string) {
	cfg, err := config.Load(file)
	if err == nil {
		var g *gateway.Gateway
		if g, err = gateway.Start(context.Background(), cfg, "test", zerolog.Nop()); err == nil {
			for g.Catalogs.Index("shop") == nil {
				time.Sleep(time.Millisecond)
			}
			fmt.Println(g.PGAddr())
			select {}
		}
	}
	fmt.Println("error:", err)
	os.Exit(1)
}

// TestKilledGateway kills a gateway under load again and again (INTERLOCK_KILLS times, five if it is not set): every result
// that a client received has its record, and the log verifies.
func TestKilledGateway(t *testing.T) {
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv("INTERLOCK_KILLS")); err == nil {
		rounds = n
	}
	k := newKilled(t)
	torn, last := 0, ""
	for round := range rounds {
		received := k.round(t, round)
		total := 0
		for app, n := range received {
			total += n
			done := 0
			err := audit.Search(t.Context(), k.audit.Dir, audit.Filter{Application: app, Text: "counted", Status: audit.OK}, func(audit.View) bool {
				done++
				return true
			})
			if err != nil || done < n {
				t.Fatalf("round %d: %s received %d results, %d are on record, %v", round, app, n, done, err)
			}
		}
		if total == 0 {
			t.Errorf("round %d: nothing was received", round)
		}
		report, err := audit.Verify(t.Context(), k.audit, nil)
		if err != nil || !report.OK() {
			t.Fatalf("round %d: %v, %v", round, report.Problems, err)
		}
		for _, n := range report.Notes {
			if strings.Contains(n, "without a line feed") {
				torn++
			}
		}
		if len(report.Notes) > 0 {
			last = report.Notes[len(report.Notes)-1]
		}
	}
	t.Logf("%d kills, %d torn ends; last note: %s", rounds, torn, last)
}

type killed struct {
	file, key string
	audit     audit.Config
}

func newKilled(t *testing.T) *killed {
	dir := t.TempDir()
	dsn := pgtest.Start(t).Database(t, countedTable)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	governance := strings.NewReplacer("HOST", u.Hostname(), "PORT", u.Port(), "DATABASE", strings.TrimPrefix(u.Path, "/"),
		"USER", pgtest.Superuser).Replace(gatewaytest.AllowAll)
	k := &killed{file: filepath.Join(dir, "interlock.yaml")}
	conf := "governance: governance.yaml\ndata_dir: data\naudit: {segment_bytes: 64KiB, checkpoint_interval: 1s}\n" +
		"listeners: {pgwire: {address: \"127.0.0.1:0\"}, mcp: {disabled: true}, admin: {disabled: true}}\n"
	for name, text := range map[string]string{k.file: conf, filepath.Join(dir, "governance.yaml"): governance} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(k.file)
	if err != nil {
		t.Fatal(err)
	}
	st, keys, err := gateway.OpenControl(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if k.key, _, err = keys.Create(t.Context(), "ana", identity.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.audit = gateway.AuditConfig(cfg)
	return k
}

// round runs a gateway under load, kills it, and returns how many results each client received.
func (k *killed) round(t *testing.T, round int) map[string]int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GATEWAY_TEST_CONFIG="+k.file)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(address, "error") {
		_ = cmd.Process.Kill()
		t.Fatalf("round %d: %s%v", round, address, err)
	}
	var wait sync.WaitGroup
	var all atomic.Int64
	received := map[string]int{}
	var mu sync.Mutex
	for c := range 4 {
		app := fmt.Sprintf("round%d-%d", round, c)
		wait.Go(func() {
			n := k.client(t.Context(), strings.TrimSpace(address), app, &all)
			mu.Lock()
			received[app] = n
			mu.Unlock()
		})
	}
	for begun := time.Now(); all.Load() < int64(20+7*round%90) && time.Since(begun) < 10*time.Second; {
		time.Sleep(time.Millisecond)
	}
	_ = cmd.Process.Kill()
	wait.Wait()
	_ = cmd.Wait()
	return received
}

// client runs statements until the connection breaks and returns how many results it received whole.
func (k *killed) client(ctx context.Context, address, app string, all *atomic.Int64) (received int) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://ana:%s@%s/shop?sslmode=disable&application_name=%s", k.key, address, app))
	if err != nil {
		return 0
	}
	defer conn.Close(ctx)
	for {
		var n int
		if err := conn.QueryRow(ctx, "select count(*) from counted where id > $1", received%50).Scan(&n); err != nil {
			return received
		}
		received++
		all.Add(1)
	}
}
