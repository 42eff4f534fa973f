package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play the process that is killed, or the one whose disk is full.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AUDIT_TEST_WRITER"); dir != "" {
		writeUntilKilled(dir)
	}
	if dir := os.Getenv("AUDIT_TEST_FULL"); dir != "" {
		if err := writeToFullDisk(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeUntilKilled prints the id of every entry that was released.
func writeUntilKilled(dir string) {
	l, err := Open(Config{Dir: dir, SegmentBytes: 64 << 10, SyncInterval: time.Millisecond})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	for range 4 {
		go func() {
			for {
				rec := testRecord("ana")
				if err := l.Intent(ctx, rec); err != nil {
					fmt.Println("intent:", err)
				}
				fmt.Println(rec.ID)
				if err := l.Outcome(ctx, &Outcome{ID: rec.ID, Time: time.Now(), Status: OK}); err != nil {
					fmt.Println("outcome:", err)
				}
			}
		}()
	}
	select {}
}

func TestKilledWriterLosesNothing(t *testing.T) {
	cfg := Config{Dir: filepath.Join(t.TempDir(), "audit"), SegmentBytes: 64 << 10}
	released := map[string]bool{}
	for round := range 6 {
		killWriter(t, cfg.Dir, released)
		before := verifyOK(t, cfg)
		l := mustOpen(t, cfg)
		run(t, l, 1)
		mustClose(t, l)
		after := verifyOK(t, cfg)
		if after.Entries != before.Entries+3 {
			t.Fatalf("round %d: %d entries after a kill, %d after it was opened again", round, before.Entries, after.Entries)
		}
	}
	must(t, Search(ctx, cfg.Dir, Filter{}, func(v View) bool {
		delete(released, v.ID)
		return true
	}))
	if len(released) > 0 {
		t.Errorf("%d released entries are not in the log", len(released))
	}
}

func killWriter(t *testing.T, dir string, released map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "AUDIT_TEST_WRITER="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	n := 0
	for scan := bufio.NewScanner(out); scan.Scan(); n++ {
		if n == 0 {
			time.AfterFunc(20*time.Millisecond+rand.N(60*time.Millisecond), func() { _ = cmd.Process.Kill() })
		}
		if !validID(scan.Text()) {
			t.Errorf("writer: %s", scan.Text())
		} else if len(scan.Text()) == 26 { // the kill may cut the last
			released[scan.Text()] = true
		}
	}
	_ = cmd.Wait()
	if n == 0 {
		t.Fatal("the writer wrote nothing")
	}
}

// TestCrashAtAnyByte cuts the segment within and behind its last entries and restores the head of that time.
func TestCrashAtAnyByte(t *testing.T) {
	cfg := testConfig(t)
	cfg.SegmentBytes = 1 << 20
	l := mustOpen(t, cfg)
	run(t, l, 2)
	must(t, l.flush())
	head, err := os.ReadFile(filepath.Join(cfg.Dir+"-head", headName))
	must(t, err)
	whole := fileSize(t, cfg, 1)
	run(t, l, 1)
	mustClose(t, l)
	path := filepath.Join(cfg.Dir, segmentName(1))
	data, err := os.ReadFile(path)
	must(t, err)
	for size := whole; size <= int64(len(data)); size += 7 {
		must(t, os.WriteFile(path, data[:size], 0o600))
		must(t, os.WriteFile(filepath.Join(cfg.Dir+"-head", headName), head, 0o600))
		verifyOK(t, cfg)
		l := mustOpen(t, cfg)
		run(t, l, 1)
		mustClose(t, l)
		r := verifyOK(t, cfg)
		if kept := bytes.Count(data[:size], []byte{'\n'}); r.Entries != uint64(kept+3) {
			t.Fatalf("cut at %d: %d entries, want %d", size, r.Entries, kept+3)
		}
		if torn := size != whole && data[size-1] != '\n'; torn != (len(r.Notes) > 0) {
			t.Fatalf("cut at %d: torn %v, notes %q", size, torn, r.Notes)
		}
	}
}

func fileSize(t *testing.T, cfg Config, first uint64) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(cfg.Dir, segmentName(first)))
	must(t, err)
	return info.Size()
}

// TestCrashAfterRotation leaves an empty or torn new segment.
func TestCrashAfterRotation(t *testing.T) {
	for _, torn := range []string{"", `{"v":1,"se`} {
		cfg := testConfig(t)
		l := mustOpen(t, cfg)
		run(t, l, 20)
		last := l.Stats().Seq
		mustClose(t, l)
		must(t, os.WriteFile(filepath.Join(cfg.Dir, segmentName(last+1)), []byte(torn), 0o600))
		verifyOK(t, cfg)
		l = mustOpen(t, cfg)
		run(t, l, 1)
		mustClose(t, l)
		if r := verifyOK(t, cfg); r.Last != last+3 {
			t.Errorf("last entry %d, want %d", r.Last, last+3)
		}
	}
}

func TestCrashBeforeFirstEntry(t *testing.T) {
	cfg := testConfig(t)
	h, _, err := openHead(cfg.Dir + "-head")
	must(t, err)
	must(t, h.create())
	must(t, h.close())
	l := mustOpen(t, cfg)
	run(t, l, 1)
	mustClose(t, l)
	verifyOK(t, cfg)
}

// TestTornHeadWrite damages either slot: the other one counts.
func TestTornHeadWrite(t *testing.T) {
	for slot := range 2 {
		cfg := testConfig(t)
		l := mustOpen(t, cfg)
		run(t, l, 1)
		path := filepath.Join(cfg.Dir+"-head", headName)
		data, err := os.ReadFile(path)
		must(t, err)
		data[slot*slotSize+100] ^= 1
		must(t, os.WriteFile(path, data, 0o600))
		verifyOK(t, cfg)
		mustClose(t, l)
		verifyOK(t, cfg)
	}
}

// TestFsyncFailure: waiting writes are refused; the log goes on when the disk is well again, and says so.
func TestFsyncFailure(t *testing.T) {
	cfg := testConfig(t)
	sick := make(chan struct{})
	cfg.fsync = func(f *os.File) error {
		select {
		case <-sick:
			return f.Sync()
		default:
		}
		if strings.HasPrefix(filepath.Base(f.Name()), segmentPrefix) && fileHas(f, `"identity":"ana"`) {
			return syscall.EIO
		}
		return f.Sync()
	}
	l := mustOpen(t, cfg)
	rec := testRecord("ana")
	rec.Judgement.Write = true
	for range 3 {
		if err := l.Intent(ctx, rec); !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("%v, want ErrUnavailable", err)
		}
	}
	if l.Stats().Err == nil {
		t.Error("the log must say that it is broken")
	}
	close(sick)
	rec = testRecord("ben")
	rec.Judgement.Write = true
	must(t, l.Intent(ctx, rec))
	if err := l.Stats().Err; err != nil {
		t.Error(err)
	}
	mustClose(t, l)
	verifyOK(t, cfg)
	if all := strings.Join(lines(t, cfg), "\n"); !strings.Contains(all, `"log.recovered","attributes":{"cause":"syncing`) {
		t.Errorf("the log does not note its recovery:\n%s", all)
	}
}

func fileHas(f *os.File, text string) bool {
	data, err := os.ReadFile(f.Name())
	return err == nil && bytes.Contains(data, []byte(text))
}

// TestFullDisk runs in a child process whose files cannot grow beyond a limit.
func TestFullDisk(t *testing.T) {
	cfg := Config{Dir: filepath.Join(t.TempDir(), "audit")}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "AUDIT_TEST_FULL="+cfg.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	verifyOK(t, cfg)
	if all := strings.Join(lines(t, cfg), "\n"); !strings.Contains(all, `"log.recovered"`) || !strings.Contains(all, `"refused":"5"`) {
		t.Error("the log does not note its recovery")
	}
}

// writeToFullDisk fills a log until the limit, sees the refusals, lifts the limit and goes on.
func writeToFullDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	l, err := Open(Config{Dir: dir})
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10_000, Max: limit.Max}); err != nil {
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		err = l.Intent(ctx, testRecord("ana"))
	}
	for range 4 {
		err = l.Intent(ctx, testRecord("ben"))
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EFBIG) {
			return fmt.Errorf("full disk: %w, want ErrUnavailable", err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, segmentName(1))); err != nil || !bytes.HasSuffix(data, []byte("\"}\n")) {
		return fmt.Errorf("the torn entry was left: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := l.Intent(ctx, testRecord("ben")); err != nil {
		return fmt.Errorf("after space returned: %w", err)
	}
	if err := l.Stats().Err; err != nil {
		return err
	}
	return l.Close()
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 { // root writes everywhere but into what is no directory
		file := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(file, nil, 0o600))
		if _, err := Open(Config{Dir: filepath.Join(file, "audit")}); err == nil {
			t.Error("a log below a file was opened")
		}
		return
	}
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	if _, err := Open(Config{Dir: filepath.Join(dir, "audit")}); err == nil {
		t.Error("a log in a read-only directory was opened")
	}
}

// TestNoNewSegment: the directory is gone when a segment is full.
func TestNoNewSegment(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	run(t, l, 2)
	gone := cfg.Dir + "-gone"
	must(t, os.Rename(cfg.Dir, gone))
	var err error
	for i := 0; err == nil && i < 50; i++ {
		err = l.Intent(ctx, testRecord("ana"))
	}
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	must(t, os.Rename(gone, cfg.Dir))
	run(t, l, 1)
	mustClose(t, l)
	verifyOK(t, cfg)
}
