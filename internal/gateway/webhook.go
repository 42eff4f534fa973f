package gateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"interlock/internal/config"
	"interlock/internal/store"
)

// webhook tells an endpoint of every change of an approval, in order and at least once. What it has still to tell is in
// the control store, so nothing is lost with a process, and nothing is kept in memory.
type webhook struct {
	conf   config.Webhook
	store  *store.Store
	node   string
	log    zerolog.Logger
	client *http.Client

	begun   bool // what comes from now on is noted for the endpoint
	failing atomic.Bool
}

const (
	webhookTimeout = 10 * time.Second
	// webhookLease is for how long a node is the one that tells; it outlasts a batch of calls that all take their time.
	webhookLease = 30 * time.Second
	// webhookPause is the longest time between two tries.
	webhookPause = time.Minute
	// webhookAge is for how long a change is tried to be told.
	webhookAge = 24 * time.Hour
)

func newWebhook(conf config.Webhook, st *store.Store, node string, log zerolog.Logger) *webhook {
	return &webhook{conf: conf, store: st, node: node, log: log, client: &http.Client{Timeout: webhookTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// run tells until ctx ends. After a failure it waits longer and longer.
func (w *webhook) run(ctx context.Context) {
	pause := watchInterval
	for {
		err := w.tell(ctx)
		w.failing.Store(err != nil)
		if err == nil {
			pause = watchInterval
		} else if ctx.Err() == nil {
			w.log.Error().Err(err).Msg("webhook of approvals")
			pause = min(2*pause, webhookPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// tell tells all that waits, if this node is the one to do so.
func (w *webhook) tell(ctx context.Context) error {
	const follower, changes = "approvals.webhook", "approval."
	for {
		acts, err := w.store.FollowedActs(ctx, follower, changes)
		if err != nil || len(acts) == 0 && w.begun {
			return err // and nothing is written while nothing happens
		}
		mine, err := w.store.Follow(ctx, follower, w.node, time.Now().Add(webhookLease))
		if err != nil || !mine {
			return err
		}
		w.begun = true
		if acts, err = w.store.FollowedActs(ctx, follower, changes); err != nil || len(acts) == 0 {
			return err
		}
		begun := time.Now()
		for i := range acts {
			if time.Since(begun) > webhookLease/3 {
				break // renew first
			}
			if err := w.post(ctx, &acts[i]); err != nil && (ctx.Err() != nil || time.Since(acts[i].At) < webhookAge) {
				return err
			}
			if err := w.store.ConfirmActs(ctx, follower, acts[i].Number); err != nil {
				return err
			}
		}
	}
}

// change is the body of a call. It has no value of the statement and no word of a person.
type change struct {
	ID        string `json:"id"` // of the change: a receiver that has seen it can forget it
	Event     string `json:"event"`
	At        string `json:"at"`
	Approval  string `json:"approval_id"`
	Requester string `json:"requester,omitempty"`
	Source    string `json:"source,omitempty"`
	By        string `json:"by,omitempty"`
	Vote      string `json:"vote,omitempty"`
	Rows      string `json:"rows,omitempty"`
	Run       string `json:"run,omitempty"`
}

// post makes one call. The header InterLock-Signature has the time of the call in seconds and HMAC-SHA-256, under the
// secret, of that time, a dot and the body: t=1767225600,v1=<hex>.
func (w *webhook) post(ctx context.Context, a *store.Act) error {
	body, err := json.Marshal(change{ID: a.ID, Event: a.Name, At: a.At.Format(time.RFC3339Nano), Approval: a.Attributes["approval"],
		Requester: a.Attributes["requester"], Source: a.Attributes["source"], By: a.Actor, Vote: a.Attributes["vote"],
		Rows: a.Attributes["rows"], Run: a.Attributes["run"]})
	if err != nil {
		return err
	}
	secret, err := config.Resolve(w.conf.Secret)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.conf.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("InterLock-Signature", "t="+at+",v1="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("the endpoint answers %s", resp.Status)
	}
	return nil
}
