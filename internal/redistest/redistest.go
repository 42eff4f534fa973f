// Package redistest gives tests a real Redis that they can kill and start again.
//
//	r := redistest.Start(t)
//	client := redis.NewClient(&redis.Options{Addr: r.Addr})
//
// It ends with the test, or with the process, whatever ends that.
package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"
)

// Server is a Redis on a port of its own. It keeps nothing on disk: when it is started again, it is empty.
type Server struct {
	Addr string // host:port

	t    testing.TB
	dir  string
	hold io.Closer // closing it ends the server
	cmd  *exec.Cmd
}

// watch runs Redis until its own standard input ends, which it does with the process that has the other end.
const watch = `redis-server --bind 127.0.0.1 --port "$1" --dir "$2" --save '' --appendonly no --loglevel warning --logfile "$2/redis.log" </dev/null & pid=$!; read -r _; kill -9 $pid; wait $pid`

// Start starts a server. A machine without Redis fails the test: nothing is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := &Server{Addr: l.Addr().String(), t: t, dir: t.TempDir()}
	_ = l.Close()
	t.Cleanup(s.Kill)
	s.Restart()
	return s
}

// URL is the address as clients take it.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Kill ends the server at once. It may be called when it has been killed already.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.hold.Close()
	_ = s.cmd.Wait() // it was killed
	s.cmd = nil
}

// Restart starts the server, which must not be running, on the same port, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		s.t.Fatalf("redistest: %v; .ci/setup installs it", err)
	}
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	cmd := exec.Command("sh", "-c", watch, "sh", port, s.dir)
	if s.hold, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.cmd = cmd
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = ping(s.Addr); err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("redistest: redis-server does not answer: %v", err)
		}
	}
}

func ping(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" {
		err = errors.New("it answered " + answer)
	}
	return err
}
