package gateway_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/internal/config"
	"interlock/internal/gatewaytest"
)

// The endpoint hears of every change in order, signed, without a value, and again when it did not take one.
func TestWebhookOfApprovals(t *testing.T) {
	type call struct{ signature, body string }
	calls := make(chan call, 100)
	var received atomic.Int32
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if received.Add(1) <= 2 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		calls <- call{r.Header.Get("InterLock-Signature"), string(body)}
	}))
	defer endpoint.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: heldDocument, Setup: []string{"create table ran (i text)"},
		Configure: func(c *config.Config) {
			c.Approvals.Webhook = config.Webhook{URL: endpoint.URL, Secret: "file:" + secret}
		}})
	conn, err := pgx.Connect(t.Context(), g.DSN("ana", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "insert into ran values ($1)", "hunter2"); err == nil {
		t.Fatal("not held")
	}
	n := &nodes{t: t, dora: g.Key("dora")}
	at := &node{admin: g.AdminURL()}
	id := n.all(at)[0].ID
	if status, err := n.call(at, "POST", "/"+id+"/approve", nil); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	var events []string
	for len(events) < 5 {
		select {
		case <-time.After(time.Minute):
			t.Fatalf("only %q", events)
		case c := <-calls:
			var said struct {
				Event    string
				Approval string `json:"approval_id"`
			}
			if err := json.Unmarshal([]byte(c.body), &said); err != nil || said.Approval != id || strings.Contains(c.body, "hunter2") {
				t.Errorf("%s: %v", c.body, err)
			}
			events = append(events, said.Event)
			when, _, _ := strings.Cut(strings.TrimPrefix(c.signature, "t="), ",")
			mac := hmac.New(sha256.New, []byte("s3cret"))
			mac.Write([]byte(when + "." + c.body))
			if want := "t=" + when + ",v1=" + hex.EncodeToString(mac.Sum(nil)); c.signature != want {
				t.Errorf("signature %s, want %s", c.signature, want)
			}
		}
	}
	if want := []string{"approval.queued", "approval.vote", "approval.approved", "approval.claimed", "approval.executed"}; !slices.Equal(events, want) {
		t.Errorf("%q", events)
	}
}
