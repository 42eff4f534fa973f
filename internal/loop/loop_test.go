package loop

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// long is how long a test waits for what must happen; it is no measure of anything.
const long = time.Minute

func group(t *testing.T) *Group {
	t.Helper()
	g, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// pair is a TCP connection within this machine, whose one end can be attached.
func pair(t *testing.T) (here *Conn, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here = Wrap(c)
	t.Cleanup(func() { here.Close() })
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	return here, there
}

// task runs f as a task with the connection attached to the loop, reading and writing by it. The channel is closed when f is done.
func task(l *Loop, c *Conn, f func(t *Task)) <-chan struct{} {
	done := make(chan struct{})
	Go(func(t *Task) {
		defer close(done)
		c.Attach(l, t, t)
		f(t)
	})
	return done
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(long):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s: it does not end\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// echo sends back what it receives until the other end says that nothing more comes.
func echo(c *Conn) {
	_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
	_ = c.CloseWrite()
}

// Many tasks on a loop, each with more than fits into the sockets' buffers, so that reads and writes both have to wait.
func TestEcho(t *testing.T) {
	g := group(t)
	var all sync.WaitGroup
	for range 20 {
		here, there := pair(t)
		done := task(g.Pick(), here, func(*Task) { echo(here) })
		all.Go(func() {
			sent := make([]byte, 1<<20)
			_, _ = rand.Read(sent)
			go func() {
				_, _ = there.Write(sent)
				_ = there.(*net.TCPConn).CloseWrite()
			}()
			got, err := io.ReadAll(there)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d of %d bytes came back: %v", len(got), len(sent), err)
			}
			await(t, "echo", done)
		})
	}
	all.Wait()
}

// What arrived before a connection was attached, its end included, is not announced by the kernel again.
func TestArrivedBefore(t *testing.T) {
	g := group(t)
	for _, closed := range []bool{false, true} {
		here, there := pair(t)
		if _, err := there.Write([]byte("early")); err != nil {
			t.Fatal(err)
		}
		if closed {
			there.Close()
		}
		var got [5]byte
		var err, after error
		await(t, "reading", task(g.Pick(), here, func(*Task) {
			if _, err = io.ReadFull(here, got[:]); closed {
				_, after = here.Read(got[:])
			}
		}))
		if err != nil || string(got[:]) != "early" {
			t.Errorf("%q, %v", got, err)
		}
		if closed && after != io.EOF {
			t.Errorf("then %v, not the end", after)
		}
	}
}

// The end of a stream may come together with its last bytes.
func TestEndWithData(t *testing.T) {
	g := group(t)
	for range 200 {
		here, there := pair(t)
		var got []byte
		var err error
		done := task(g.Pick(), here, func(*Task) { got, err = io.ReadAll(struct{ io.Reader }{here}) })
		fmt.Fprint(there, "last words")
		there.Close()
		await(t, "reading to the end", done)
		if string(got) != "last words" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// A task that is blocked without having said so does not stop the others for ever.
func TestForgottenLeave(t *testing.T) {
	g := group(t)
	l := g.Pick()
	first, firstPeer := pair(t)
	second, secondPeer := pair(t)
	unblock := make(chan struct{})
	stuck := task(l, first, func(*Task) {
		var b [1]byte
		_, _ = first.Read(b[:])
		_, _ = first.Read(b[:]) // in the loop's goroutine for sure
		<-unblock
		_, _ = first.Write(b[:])
		echo(first)
	})
	other := task(l, second, func(*Task) {
		var b [1]byte
		_, _ = second.Read(b[:])
		_, _ = second.Write(b[:])
		close(unblock)
	})
	fmt.Fprint(firstPeer, "a")
	fmt.Fprint(firstPeer, "b")
	fmt.Fprint(secondPeer, "c")
	await(t, "the task beside it", other)
	var b [1]byte
	if _, err := io.ReadFull(firstPeer, b[:]); err != nil || b[0] != 'b' && b[0] != 'a' {
		t.Errorf("%q, %v", b, err)
	}
	firstPeer.Close()
	await(t, "the task that held up", stuck)
}

// A task that says so lets others go on while it waits for one of them, and comes back afterwards.
func TestLeave(t *testing.T) {
	g := group(t)
	l := g.Pick()
	const rounds = 300
	first, firstPeer := pair(t)
	second, secondPeer := pair(t)
	turn := make(chan struct{})
	waiting := task(l, first, func(t *Task) {
		ctx := With(context.Background(), t)
		var b [1]byte
		for range rounds {
			_, _ = first.Read(b[:])
			Leave(ctx)
			<-turn
			_, _ = first.Write(b[:])
		}
	})
	giving := task(l, second, func(t *Task) {
		var b [1]byte
		for range rounds {
			_, _ = second.Read(b[:])
			t.Leave()
			turn <- struct{}{}
		}
	})
	var b [1]byte
	for range rounds {
		fmt.Fprint(firstPeer, "x")
		fmt.Fprint(secondPeer, "y")
		if _, err := io.ReadFull(firstPeer, b[:]); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "who waits", waiting)
	await(t, "who gives", giving)
}

// Deadlines are those of net.Conn: one that has passed ends a read and those after it, until another is set.
func TestDeadlines(t *testing.T) {
	g := group(t)
	here, there := pair(t)
	reads := make(chan error)
	begin := make(chan func())
	done := task(g.Pick(), here, func(t *Task) {
		var b [1]byte
		for {
			t.Leave()
			set, more := <-begin
			if !more {
				return
			}
			set()
			_, err := here.Read(b[:])
			t.Leave()
			reads <- err
		}
	})
	read := func(set func()) chan error {
		begin <- set
		return reads
	}
	expired := func(what string, err error) {
		t.Helper()
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: %v", what, err)
		}
	}
	expired("in a moment", <-read(func() { here.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) }))
	expired("again", <-read(func() {}))
	expired("in the past", <-read(func() { here.SetDeadline(time.Unix(1, 0)) }))
	waits := read(func() { here.SetDeadline(time.Time{}) })
	here.SetReadDeadline(time.Unix(1, 0)) // by another goroutine, before the read or during it
	select {
	case err := <-waits:
		expired("from outside", err)
	case <-time.After(time.Second): // it was set before, and taken back
		here.SetReadDeadline(time.Unix(1, 0))
		expired("from outside", <-waits)
	}
	expired("moved to an earlier time", <-read(func() {
		here.SetReadDeadline(time.Now().Add(time.Hour))
		here.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	}))
	waits = read(func() {
		here.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		here.SetReadDeadline(time.Now().Add(time.Hour))
	})
	time.AfterFunc(60*time.Millisecond, func() { fmt.Fprint(there, "z") })
	if err := <-waits; err != nil {
		t.Errorf("a deadline that was moved to later: %v", err)
	}
	close(begin)
	await(t, "the task", done)
}

// A write that nobody takes ends by its deadline.
func TestWriteDeadline(t *testing.T) {
	g := group(t)
	here, _ := pair(t)
	var err error
	await(t, "the write", task(g.Pick(), here, func(*Task) {
		here.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = here.Write(make([]byte, 16<<20))
	}))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// Close ends a read that waits, and what is done afterwards.
func TestClose(t *testing.T) {
	g := group(t)
	here, there := pair(t)
	var during, after, write error
	entered := make(chan struct{})
	done := task(g.Pick(), here, func(*Task) {
		var b [1]byte
		_, _ = here.Read(b[:])
		close(entered)
		_, during = here.Read(b[:])
		_, after = here.Read(b[:])
		_, write = here.Write(b[:])
	})
	fmt.Fprint(there, "x")
	await(t, "the first read", entered)
	here.Close()
	await(t, "the task", done)
	for _, err := range []error{during, after, write} {
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	var b [1]byte
	if _, err := there.Read(b[:]); err != io.EOF {
		t.Errorf("the other end sees %v", err)
	}
	if err := here.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the second time: %v", err)
	}
}

// A connection that is taken from its task can be read by any goroutine, the task among them.
func TestRelease(t *testing.T) {
	g := group(t)
	here, there := pair(t)
	var mu sync.Mutex
	var got []byte
	read := func() {
		var b [1]byte
		for {
			n, err := here.Read(b[:])
			mu.Lock()
			got = append(got, b[:n]...)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}
	done := task(g.Pick(), here, func(*Task) { read() })
	fmt.Fprint(there, "one")
	here.Release()
	beside := make(chan struct{})
	go func() {
		defer close(beside)
		read()
	}()
	fmt.Fprint(there, "two")
	there.Close()
	await(t, "the task", done)
	await(t, "the goroutine", beside)
	if len(got) != len("onetwo") {
		t.Errorf("%q", got)
	}
}

// A connection whose task has ended is written to by another goroutine, and waits for who reads slowly.
func TestWriteAfterRelease(t *testing.T) {
	g := group(t)
	here, there := pair(t)
	await(t, "the task", task(g.Pick(), here, func(*Task) {}))
	here.Release()
	sent := make([]byte, 16<<20)
	_, _ = rand.Read(sent)
	written := make(chan struct{})
	go func() {
		defer close(written)
		if _, err := here.Write(sent); err != nil {
			t.Error(err)
		}
		here.Close()
	}()
	got, err := io.ReadAll(there)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes: %v", len(got), len(sent), err)
	}
	await(t, "the write", written)
}

// What no loop can watch stays as it is.
func TestNotAttached(t *testing.T) {
	a, b := net.Pipe()
	here := Wrap(a)
	defer here.Close()
	done := task(group(t).Pick(), here, func(*Task) { echo(here) })
	fmt.Fprint(b, "x")
	var got [1]byte
	if _, err := io.ReadFull(b, got[:]); err != nil || got[0] != 'x' {
		t.Errorf("%q, %v", got, err)
	}
	b.Close()
	await(t, "the task", done)
	var none *Group
	if none.Pick() != nil {
		t.Error("no group has a loop")
	}
}

// Nothing is left of connections and loops that are closed.
func TestNothingIsLeft(t *testing.T) {
	descriptors := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0 // not Linux
		}
		return len(names)
	}
	goroutines, files := runtime.NumGoroutine(), descriptors()
	g, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		here, there := pair(t)
		done := task(g.Pick(), here, func(*Task) { echo(here) })
		fmt.Fprint(there, "x")
		there.Close()
		await(t, "echo", done)
		here.Close()
	}
	g.Close()
	for until := time.Now().Add(long); runtime.NumGoroutine() > goroutines || descriptors() > files; {
		if time.Now().After(until) {
			t.Fatalf("%d goroutines and %d descriptors are left", runtime.NumGoroutine()-goroutines, descriptors()-files)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func BenchmarkEcho(b *testing.B) {
	for _, attached := range []bool{false, true} {
		b.Run(fmt.Sprintf("attached=%v", attached), func(b *testing.B) {
			g, err := New()
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			l := g.Pick()
			if !attached {
				l = nil
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer ln.Close()
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			here := Wrap(c)
			defer here.Close()
			there, err := ln.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer there.Close()
			done := task(l, here, func(*Task) { echo(here) })
			msg := make([]byte, 64)
			for b.Loop() {
				if _, err := there.Write(msg); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(there, msg); err != nil {
					b.Fatal(err)
				}
			}
			there.Close()
			<-done
		})
	}
}
