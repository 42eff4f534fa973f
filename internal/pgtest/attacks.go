package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Attacks returns the superuser's DSN of the database gov, laid out by testdata/attacks/setup.sql: the schema that the cases of
// testdata/attacks/cases.jsonl attack. It is made once for the test binary, so tests that write to it undo what they did. The
// cases run as gov_svc: see Server.As.
func Attacks(t testing.TB) string {
	t.Helper()
	s := Start(t)
	if err := attacks(s); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s.DSN("gov")
}

var (
	attacksOnce sync.Once
	attacksErr  error
)

func attacks(s *Server) error {
	attacksOnce.Do(func() { attacksErr = layOutAttacks(s) })
	return attacksErr
}

func layOutAttacks(s *Server) error {
	path, err := File("testdata/attacks/setup.sql")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the attack schema: %w", err)
	}
	roles, rest, _ := strings.Cut(string(text), "\n")
	if err := execute(s.DSN("postgres"), roles); err != nil {
		return err
	}
	if _, err := s.create("gov_remote", []string{`
		create schema app; create table app.customers (id int, ssn text); insert into app.customers values (1, '078-05-1120')`}); err != nil {
		return err
	}
	// psql's own commands are for people who run the file by hand; its port is that of one machine.
	rest = strings.Replace(rest, `\set ON_ERROR_STOP on`, "", 1)
	rest = strings.Replace(rest, "port '55471'", "port '"+strconv.Itoa(s.Port())+"'", 1)
	if _, err := s.create("gov", []string{rest}); err != nil {
		if strings.Contains(err.Error(), "extension control file") || strings.Contains(err.Error(), "is not available") {
			return fmt.Errorf("PostgreSQL's contrib extensions are missing (Debian: they are in postgresql-15; others: postgresql-contrib): %w", err)
		}
		return err
	}
	return nil
}

// File returns the path of a file of the repository, for tests of any package.
func File(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, name), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("looking for %s: no go.mod above the working directory", name)
		}
	}
}
