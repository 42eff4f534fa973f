package auditship

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// File appends entries to a file, one a line, and brings each batch to the disk. A torn batch is cut off before the next.
type File struct {
	Path string

	size int64 // up to the last whole batch; -1 is not known
	file *os.File
}

// Send implements Sink. A batch that may be there already is written again behind a line that says so.
func (f *File) Send(_ context.Context, b *Batch) error {
	if f.file == nil {
		var err error
		if f.file, err = os.OpenFile(f.Path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
		if f.size, err = wholeLines(f.file); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	var text bytes.Buffer
	if b.Again {
		fmt.Fprintf(&text, `{"again":true,"node":%q,"first":%d,"last":%d}`+"\n", b.Node, b.First, b.Last)
	}
	for _, e := range b.Entries {
		text.Write(e.Text)
		text.WriteByte('\n')
	}
	_, err := f.file.WriteAt(text.Bytes(), f.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return errors.Join(err, f.file.Truncate(f.size))
	}
	f.size += int64(text.Len())
	return nil
}

// wholeLines returns the offset behind the last line feed, and cuts off what follows.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := info.Size()
	block := make([]byte, 64<<10)
	for end > 0 {
		n := min(end, int64(len(block)))
		if _, err := f.ReadAt(block[:n], end-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 {
			end = end - n + int64(i) + 1
			break
		}
		end -= n
	}
	return end, f.Truncate(end)
}

// Close implements Sink.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// HTTP posts each batch as JSON Lines. Any status of the 2xx class confirms it. The headers InterLock-Node,
// InterLock-First, InterLock-Last and, for a batch that may have been received before, InterLock-Again describe it.
type HTTP struct {
	URL string
	// Token returns the bearer token; "" sends none.
	Token func() (string, error)
	TLS   *tls.Config // for https://; nil: the system's authorities

	client *http.Client // made when it is needed
}

// Send implements Sink.
func (h *HTTP) Send(ctx context.Context, b *Batch) error {
	var body bytes.Buffer
	for _, e := range b.Entries {
		body.Write(e.Text)
		body.WriteByte('\n')
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("InterLock-Node", b.Node)
	req.Header.Set("InterLock-First", strconv.FormatUint(b.First, 10))
	req.Header.Set("InterLock-Last", strconv.FormatUint(b.Last, 10))
	if b.Again {
		req.Header.Set("InterLock-Again", "true")
	}
	if h.Token != nil {
		token, err := h.Token()
		if err != nil {
			return err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	resp, err := h.connections().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return nil
}

func (h *HTTP) connections() *http.Client {
	if h.client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = h.TLS
		h.client = &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token is for this receiver alone
		}}
	}
	return h.client
}

// Close implements Sink.
func (h *HTTP) Close() error {
	h.connections().CloseIdleConnections()
	return nil
}

// Syslog sends each entry as an RFC 5424 message: in datagrams (RFC 5426), or over a stream with octet counting (RFC 6587,
// RFC 5425 for TLS). Syslog has no confirmation: a batch counts as received when the system has taken it.
type Syslog struct {
	Address string      // udp://, tcp:// or tls:// with host:port, or unix:// with a path
	Host    string      // HOSTNAME of the messages
	TLS     *tls.Config // for tls://; nil: the system's authorities

	conn   net.Conn
	stream bool
}

const syslogTimeout = 10 * time.Second

// Send implements Sink.
func (s *Syslog) Send(ctx context.Context, b *Batch) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	err := s.conn.SetWriteDeadline(time.Now().Add(syslogTimeout))
	for _, e := range b.Entries {
		if err != nil {
			break
		}
		again := ""
		if b.Again {
			again = ` again="true"`
		}
		// Facility 13 (log audit), severity 5 (notice); 32473 is the enterprise number for documentation.
		msg := fmt.Sprintf("<109>1 %s %s interlock %d %s [interlock@32473 node=\"%s\" seq=\"%d\"%s] \xEF\xBB\xBF%s",
			e.Time.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), syslogName(s.Host), os.Getpid(), e.Type, syslogParam(b.Node), e.Seq, again, e.Text)
		if s.stream {
			msg = strconv.Itoa(len(msg)) + " " + msg
		}
		_, err = io.WriteString(s.conn, msg)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

func syslogName(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
}

func syslogParam(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`).Replace(s)
}

func (s *Syslog) connect(ctx context.Context) (err error) {
	if s.conn != nil {
		return nil
	}
	scheme, address, _ := strings.Cut(s.Address, "://")
	dialer := &net.Dialer{Timeout: syslogTimeout}
	switch scheme {
	case "udp":
		s.stream = false
		s.conn, err = dialer.DialContext(ctx, "udp", address)
	case "unix":
		s.stream = false
		s.conn, err = dialer.DialContext(ctx, "unixgram", address)
	case "tcp":
		s.stream = true
		s.conn, err = dialer.DialContext(ctx, "tcp", address)
	case "tls":
		s.stream = true
		s.conn, err = (&tls.Dialer{NetDialer: dialer, Config: s.TLS}).DialContext(ctx, "tcp", address)
	default:
		err = fmt.Errorf("%q is no syslog address", s.Address)
	}
	return err
}

// Close implements Sink.
func (s *Syslog) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
