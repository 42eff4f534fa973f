package pgwire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestKeysAreOfTheirSession(t *testing.T) {
	var k keyring
	a, b := &relaySession{}, &relaySession{}
	pidA, keyA := k.add(version30, a)
	pidB, keyB := k.add(version32, b)
	if len(keyA) != 4 || len(keyB) != 32 || pidA == pidB || int32(pidA) <= 0 || int32(pidB) <= 0 {
		t.Fatalf("%d %x, %d %x", pidA, keyA, pidB, keyB)
	}
	for _, c := range []struct {
		pid  uint32
		key  []byte
		want Session
	}{
		{pidA, keyA, a}, {pidB, keyB, b}, {pidA, keyB, nil}, {pidB, keyA, nil}, {pidB, keyB[:4], nil}, {pidB, keyB[:31], nil},
		{pidA, nil, nil}, {pidA, append(bytes.Clone(keyA), 0), nil}, {pidA ^ 1<<20, keyA, nil}, {0, nil, nil},
	} {
		if got := k.find(c.pid, c.key); got != c.want {
			t.Errorf("find(%d, %x) = %v", c.pid, c.key, got)
		}
	}
	k.remove(pidA)
	if k.find(pidA, keyA) != nil {
		t.Error("a session that is over can be cancelled")
	}
}

func cancelPacket(pid uint32, key []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, cancelRequest)
	return packet(append(binary.BigEndian.AppendUint32(b, pid), key...))
}

// A cancel ends the statement of the session whose key it shows, and no other.
func TestCancelIsAimed(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t))
	victim, other := connectPgx(t, d, "sslmode=require").PgConn(), connectPgx(t, d, "sslmode=disable").PgConn()
	var running sync.WaitGroup
	errs := make([]error, 2)
	for i, conn := range []*pgconn.PgConn{victim, other} {
		running.Go(func() { _, errs[i] = conn.Exec(context.Background(), "select pg_sleep(3)").ReadAll() })
	}
	awaitRunning(t, "select pg_sleep(3)", 2)
	wrong := bytes.Clone(victim.SecretKey())
	wrong[0]++
	exchange(t, d.addr, cancelPacket(victim.PID(), wrong))
	exchange(t, d.addr, cancelPacket(victim.PID(), victim.SecretKey()))
	running.Wait()
	var pg *pgconn.PgError
	if !errors.As(errs[0], &pg) || pg.Code != "57014" {
		t.Errorf("victim: %v", errs[0])
	}
	if errs[1] != nil {
		t.Errorf("other: %v", errs[1])
	}
}

func TestCancelFlood(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	conn := connectPgx(t, d, "sslmode=disable").PgConn()
	var flood sync.WaitGroup
	for range 8 {
		flood.Go(func() {
			for range 25 {
				c, err := net.Dial("tcp", d.addr)
				if err != nil {
					continue
				}
				c.Write(cancelPacket(conn.PID(), conn.SecretKey()))
				c.Close()
			}
		})
	}
	done := make(chan struct{})
	go func() { flood.Wait(); close(done) }()
	for n, over := 0, false; !over; n++ {
		select {
		case <-done:
			over = true
		default:
		}
		r := conn.ExecParams(t.Context(), fmt.Sprintf("select %d", n), nil, nil, nil, nil).Read()
		var pg *pgconn.PgError
		switch {
		case errors.As(r.Err, &pg) && pg.Code == "57014":
		case r.Err != nil:
			t.Fatal(r.Err)
		case string(r.Rows[0][0]) != fmt.Sprint(n):
			t.Fatalf("query %d got the result %s", n, r.Rows[0][0])
		}
	}
}
