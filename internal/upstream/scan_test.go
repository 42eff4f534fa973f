package upstream

import (
	"context"
	"testing"
	"time"

	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestQuick(t *testing.T) {
	dsn := pgtest.Attacks(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for range 4 {
		st := time.Now()
		s, err := Scan(t.Context(), conn, "x")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(st), s.Version, len(s.Relations), len(s.Functions), len(s.Types))
		st = time.Now()
		b, err := s.Encode()
		t.Log(time.Since(st), len(b), err)
	}
}
