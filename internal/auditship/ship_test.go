package auditship

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"interlock/audit"
)

// shipped is a log and the way to its sinks.
type shipped struct {
	log *audit.Log
	cfg audit.Config
	dir string
}

func newShipped(t *testing.T) *shipped {
	t.Helper()
	s := &shipped{dir: t.TempDir()}
	s.cfg = audit.Config{Dir: filepath.Join(s.dir, "audit"), Node: "n1", SegmentBytes: 4096, Compress: true}
	var err error
	if s.cfg.SigningKey, err = audit.LoadSigningKey(filepath.Join(s.dir, "key")); err != nil {
		t.Fatal(err)
	}
	if s.log, err = audit.Open(s.cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.log.Close() })
	return s
}

func (s *shipped) write(t *testing.T, n int) {
	t.Helper()
	for range n {
		rec := &audit.Record{ID: audit.NewID(), Time: time.Now(), Identity: "ana", Judgement: &audit.Judgement{Statement: "select 1", Verdict: "allow"}}
		if err := errors.Join(s.log.Intent(t.Context(), rec), s.log.Outcome(t.Context(), &audit.Outcome{ID: rec.ID, Time: time.Now(), Status: audit.OK})); err != nil {
			t.Fatal(err)
		}
	}
}

// run ships until the sink has everything, and stops.
func (s *shipped) run(t *testing.T, name string, sink Sink) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	x := &Shipper{Name: name, Node: "n1", Dir: s.cfg.Dir, Positions: filepath.Join(s.dir, "positions"), Sink: sink,
		Limit: func() uint64 { return s.log.Stats().Synced }, Log: zerolog.Nop()}
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	for deadline := time.Now().Add(20 * time.Second); x.Status().Sent < s.log.Stats().Seq; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v behind %d", x.Status(), s.log.Stats().Seq)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

var seqs = regexp.MustCompile(`\{"v":1,"seq":(\d+),`)

// checkOnce checks that a text has every entry of the log once and in order.
func (s *shipped) checkOnce(t *testing.T, text string) {
	t.Helper()
	for i, m := range seqs.FindAllStringSubmatch(text, -1) {
		if m[1] != fmt.Sprint(i+1) {
			t.Fatalf("entry %s where %d is expected", m[1], i+1)
		}
	}
	if n := strings.Count(text, `{"v":1,"seq":`); n < int(s.log.Stats().Seq)-3 {
		t.Errorf("%d entries of %d", n, s.log.Stats().Seq)
	}
}

// TestFileSink goes on after a restart and after a torn write, and the copy verifies as a log.
func TestFileSink(t *testing.T) {
	s := newShipped(t)
	path := filepath.Join(s.dir, "copy.jsonl")
	s.write(t, 30)
	s.run(t, "copy", &File{Path: path})
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"v":1,"se`)
	f.Close()
	s.write(t, 30)
	s.run(t, "copy", &File{Path: path})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s.checkOnce(t, string(text))
	cs, err := audit.ReadCheckpoints(bytes.NewReader(text))
	if err != nil || len(cs) == 0 {
		t.Errorf("checkpoints in the copy: %v, %v", cs, err)
	}
	if sent, err := Sent(filepath.Join(s.dir, "positions"), "copy"); err != nil || sent == 0 {
		t.Errorf("%d, %v", sent, err)
	}
}

// TestHTTPSink: a receiver that fails, and one that takes a batch and loses the answer. What comes twice is marked.
func TestHTTPSink(t *testing.T) {
	s := newShipped(t)
	s.write(t, 40)
	var mu sync.Mutex
	var once strings.Builder
	calls, again := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("InterLock-Node") != "n1" {
			t.Errorf("%v", r.Header)
		}
		calls++
		if r.Header.Get("InterLock-Again") != "" {
			again++
		} else if calls > 1 && calls < 4 {
			t.Error("a batch came again without a mark")
		}
		switch calls {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			panic(http.ErrAbortHandler) // taken, and the answer is lost
		default:
			once.Write(body)
		}
	}))
	defer server.Close()
	s.run(t, "http", &HTTP{URL: server.URL, Token: func() (string, error) { return "secret", nil }})
	if again < 2 {
		t.Errorf("%d batches were marked, want 2 at least", again)
	}
	s.checkOnce(t, once.String())
}

// TestSyslogSink reads messages as RFC 6587 frames them.
func TestSyslogSink(t *testing.T) {
	s := newShipped(t)
	s.write(t, 20)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 1)
	go func() {
		var all strings.Builder
		c, err := l.Accept()
		for r := bufio.NewReader(c); err == nil; {
			var n int
			if _, err = fmt.Fscanf(r, "%d ", &n); err == nil {
				msg := make([]byte, n)
				_, err = io.ReadFull(r, msg)
				if !bytes.HasPrefix(msg, []byte("<109>1 20")) || !bytes.Contains(msg, []byte(` [interlock@32473 node="n1" seq="`)) {
					t.Errorf("%s", msg)
				}
				all.Write(msg)
			}
		}
		got <- all.String()
	}()
	s.run(t, "syslog", &Syslog{Address: "tcp://" + l.Addr().String(), Host: "n1"})
	s.checkOnce(t, <-got)
}
