package auditship

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// authority signs certificates of servers.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var der []byte
	der, a.key = a.sign(template, template, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// server returns a certificate for an address that is valid until a time.
func (a *authority) server(ip string, until time.Time) *tls.Certificate {
	a.t.Helper()
	der, key := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: until, IPAddresses: []net.IP{net.ParseIP(ip)}}, a.cert, a.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) trusted() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool}
}

// tlsReceiver is a server whose certificate can be changed. It keeps what comes.
type tlsReceiver struct {
	tls.Config
	cert    atomic.Pointer[tls.Certificate]
	refused atomic.Int64 // handshakes that the client has broken off

	mu  sync.Mutex // protects the following
	got bytes.Buffer
}

func newReceiver(cert *tls.Certificate) *tlsReceiver {
	r := &tlsReceiver{}
	r.cert.Store(cert)
	r.Config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return r.cert.Load(), nil }
	return r
}

// syslog serves syslog over TLS until the test ends.
func (r *tlsReceiver) syslog(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.take(tls.Server(c, &r.Config)) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

func (r *tlsReceiver) take(c *tls.Conn) {
	defer c.Close()
	if err := c.Handshake(); err != nil {
		r.refused.Add(1)
		return
	}
	in := bufio.NewReader(c)
	for {
		part, err := in.Peek(1)
		if err == nil {
			part, err = in.Peek(in.Buffered())
		}
		r.mu.Lock()
		r.got.Write(part)
		r.mu.Unlock()
		if _, err2 := in.Discard(len(part)); errors.Join(err, err2) != nil {
			if !errors.Is(err, io.EOF) {
				r.refused.Add(1) // in TLS 1.3 the client may say so behind the handshake
			}
			return
		}
	}
}

func (r *tlsReceiver) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.String()
}

// start runs a shipper until the test ends.
func (s *shipped) start(t *testing.T, name string, sink Sink) *Shipper {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	x := &Shipper{Name: name, Node: "n1", Dir: s.cfg.Dir, Positions: filepath.Join(s.dir, "positions"), Sink: sink,
		Limit: func() uint64 { return s.log.Stats().Synced }, Log: zerolog.Nop()}
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return x
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// octetCounted takes messages out of a stream by RFC 5425, 4.3: MSG-LEN SP SYSLOG-MSG, nothing in between and a length
// without leading zeros.
func octetCounted(t *testing.T, stream string) (messages []string) {
	t.Helper()
	for stream != "" {
		digits, rest, ok := strings.Cut(stream, " ")
		var n int
		if _, err := fmt.Sscan(digits, &n); err != nil || !ok || digits != fmt.Sprint(n) || n > len(rest) {
			t.Fatalf("no frame: %.60q", stream)
		}
		messages, stream = append(messages, rest[:n]), rest[n:]
	}
	return messages
}

// TestSyslogOverTLS: somebody who stands in the way of the syslog server has a certificate of his own, one for another host
// or an old one. He gets nothing, and the server gets everything afterwards.
func TestSyslogOverTLS(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	tomorrow := time.Now().Add(24 * time.Hour)
	s := newShipped(t)
	s.write(t, 20)
	for what, cert := range map[string]*tls.Certificate{
		"of another authority": other.server("127.0.0.1", tomorrow),
		"for another host":     ours.server("127.0.0.2", tomorrow),
		"that has expired":     ours.server("127.0.0.1", time.Now().Add(-time.Hour)),
	} {
		r := newReceiver(cert)
		x := s.start(t, what, &Syslog{Address: "tls://" + r.syslog(t), Host: "n1", TLS: ours.trusted()})
		await(t, "a certificate "+what+" is refused", func() bool { return r.refused.Load() > 0 && x.Status().Err != "" })
		if x.Status().Sent != 0 || r.text() != "" {
			t.Errorf("a server with a certificate %s has %.60q", what, r.text())
		}
		r.cert.Store(ours.server("127.0.0.1", tomorrow))
		s.write(t, 5)
		s.checkMessages(t, x, r)
	}
}

// checkMessages waits until a receiver has all of the log, and reads the messages.
func (s *shipped) checkMessages(t *testing.T, x *Shipper, r *tlsReceiver) {
	t.Helper()
	last := s.log.Stats().Seq
	await(t, "everything is sent", func() bool { return x.Status().Sent >= last })
	await(t, "everything has come", func() bool {
		text := r.text()
		return strings.Contains(text, fmt.Sprintf(`{"v":1,"seq":%d,`, last)) && strings.HasSuffix(text, `"}`)
	})
	messages := octetCounted(t, r.text())
	for i, m := range messages {
		if !strings.HasPrefix(m, "<109>1 20") || !strings.Contains(m, fmt.Sprintf(` [interlock@32473 node="n1" seq="%d"`, i+1)) {
			t.Fatalf("message %d: %s", i+1, m)
		}
	}
	if len(messages) < int(last) {
		t.Errorf("%d messages of %d", len(messages), last)
	}
}

// TestHTTPSinkVerifies the certificate of its receiver.
func TestHTTPSinkVerifies(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	tomorrow := time.Now().Add(24 * time.Hour)
	r := newReceiver(other.server("127.0.0.1", tomorrow))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got.Write(body)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Listener = tls.NewListener(server.Listener, &r.Config)
	server.Start()
	defer server.Close()
	s := newShipped(t)
	s.write(t, 10)
	x := s.start(t, "https", &HTTP{URL: "https://" + server.Listener.Addr().String(), TLS: ours.trusted()})
	await(t, "the certificate is refused", func() bool { return x.Status().Err != "" })
	if text := r.text(); text != "" {
		t.Errorf("a stranger has %.60q", text)
	}
	r.cert.Store(ours.server("127.0.0.1", tomorrow))
	last := s.log.Stats().Seq
	await(t, "everything is sent", func() bool { return x.Status().Sent >= last })
	s.checkOnce(t, r.text())
}
