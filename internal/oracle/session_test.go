package oracle_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

// TestOracleSession lets psql run files against a server, with a recorder between them that has every SELECT, INSERT,
// UPDATE, DELETE and MERGE judged just before it runs, inside EXPLAIN too: by us, and by the server. It runs
// testdata/oracle/session, where nothing may be refused; ORACLE_REGRESS names the folder src/test/regress of PostgreSQL's source to run instead.
func TestOracleSession(t *testing.T) {
	dir, err := pgtest.File("testdata/oracle/session")
	if err != nil {
		t.Fatal(err)
	}
	minimum, own := 150, true
	if name := os.Getenv("ORACLE_REGRESS"); name != "" {
		dir, minimum, own = name, 10000, false
	}
	s := newStage(t, dir)
	start := time.Now()
	for _, name := range s.schedule(t) {
		s.play(t, name)
	}
	s.recorder.report(t, time.Since(start))
	if s.recorder.agreed < minimum {
		t.Errorf("only %d statements were compared and agree", s.recorder.agreed)
	}
	if own && len(s.recorder.refused) > 0 {
		t.Error("statements are refused that the server runs")
	}
}

// stage is a database that files are run in.
type stage struct {
	dir      string
	database string
	recorder *recorder
}

func newStage(t *testing.T, dir string) *stage {
	t.Helper()
	srv := pgtest.Start(t)
	// As pg_regress sets it up, but for a log that would grow without end.
	dsn := srv.Shared(t, "regression", `alter database regression set datestyle to 'Postgres, MDY'; alter database regression set timezone to 'PST8PDT';
		alter database regression set intervalstyle to 'postgres_verbose'; alter database regression set bytea_output to 'hex';
		alter database regression set extra_float_digits to 0; alter database regression set log_min_messages to panic`)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{dir: dir, database: config.Database, recorder: newRecorder(t, dsn)}
}

// schedule lists the files in the order in which pg_regress would run them.
func (s *stage) schedule(t *testing.T) []string {
	t.Helper()
	for _, name := range []string{"parallel_schedule", "schedule"} {
		text, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			continue
		}
		var all []string
		for _, line := range strings.Split(string(text), "\n") {
			if rest, ok := strings.CutPrefix(line, "test:"); ok {
				all = append(all, strings.Fields(rest)...)
			}
		}
		return all
	}
	t.Fatalf("no schedule in %s", s.dir)
	return nil
}

// play runs one file by psql. Errors of its statements are part of the play.
func (s *stage) play(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(s.dir, name+".sql")
	if _, err := os.Stat(file); err != nil {
		file = filepath.Join(s.dir, "sql", name+".sql")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	psql := exec.CommandContext(ctx, "psql", "-X", "-q", "-h", "127.0.0.1", "-p", s.recorder.port(), "-U", pgtest.Superuser, "-d", s.database,
		"-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on", "-f", file)
	psql.Env = append(os.Environ(), "PG_ABS_SRCDIR="+s.dir, "PG_ABS_BUILDDIR="+s.dir, "PG_LIBDIR="+s.dir, "PG_DLSUFFIX=.so", "PGSSLMODE=disable", "PGGSSENCMODE=disable")
	var out bytes.Buffer
	psql.Stdout, psql.Stderr = &out, &out
	s.recorder.file = name
	if err := psql.Run(); err != nil {
		t.Logf("%s: psql: %v: %.300s", name, err, out.String())
	}
	s.recorder.progress(t)
	if err := s.recorder.failure(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
