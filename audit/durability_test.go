package audit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestCompressedSegmentsReadAlike(t *testing.T) {
	cfg := testConfig(t)
	cfg.Compress = true
	l := mustOpen(t, cfg)
	ids := run(t, l, 60)
	for i := 0; i < 500 && countFiles(t, cfg.Dir, zstdSuffix) == 0; i++ {
		l.keeper.wake()
		time.Sleep(10 * time.Millisecond)
	}
	// While a reader follows, segments change their form under it.
	mustClose(t, l)
	segs, err := segments(cfg.Dir)
	must(t, err)
	for _, s := range segs[:len(segs)-1] {
		if !s.compressed {
			must(t, compressSegment(cfg.Dir, s.name))
		}
	}
	if n := countFiles(t, cfg.Dir, zstdSuffix); n != len(segs)-1 {
		t.Errorf("%d of %d segments are compressed", n, len(segs))
	}
	verifyOK(t, cfg)
	for _, oldestFirst := range []bool{false, true} {
		n := 0
		must(t, Search(ctx, cfg.Dir, Filter{OldestFirst: oldestFirst}, func(View) bool { n++; return true }))
		if n != len(ids) {
			t.Errorf("%d requests, want %d", n, len(ids))
		}
	}
	if v, err := Find(ctx, cfg.Dir, ids[3]); err != nil || v.Status != OK {
		t.Errorf("%+v, %v", v, err)
	}
	n := 0
	must(t, Tail(ctx, cfg.Dir, 40, false, Filter{}, func(View) bool { n++; return true }))
	if n != 40 {
		t.Errorf("%d requests, want 40", n)
	}
	l = mustOpen(t, cfg)
	run(t, l, 1)
	mustClose(t, l)
	verifyOK(t, cfg)
	path := filepath.Join(cfg.Dir, segs[1].name+zstdSuffix)
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
	if r := verify(t, cfg); r.OK() {
		t.Error("a damaged compressed segment verifies")
	}
}

// TestCompressionWaitsForAQuietTime: closed segments stay as they are while entries come, within the bound, and are compressed
// when few do.
func TestCompressionWaitsForAQuietTime(t *testing.T) {
	cfg := testConfig(t)
	cfg.SegmentBytes = 64 << 10
	l := mustOpen(t, cfg)
	run(t, l, 2600)
	mustClose(t, l)
	l.cfg.Compress = true
	k := newKeeper(l) // one that does nothing by itself
	if k.quiet() {
		t.Error("the time is quiet after 5,200 entries")
	}
	k.compress(5 * cfg.SegmentBytes)
	if n := countFiles(t, cfg.Dir, segmentSuffix); n != 6 || countFiles(t, cfg.Dir, zstdSuffix) < 10 {
		t.Errorf("%d segments are plain, want 5 and the one in use", n)
	}
	if !k.quiet() {
		t.Error("the time is not quiet where nothing is written")
	}
	k.compress(0)
	if n := countFiles(t, cfg.Dir, segmentSuffix); n != 1 {
		t.Errorf("%d segments are plain, want the one in use", n)
	}
	verifyOK(t, cfg)
}

func countFiles(t *testing.T, dir, suffix string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	must(t, err)
	return len(files)
}

// TestZstdReadsOurs: the files are for everybody's tools.
func TestZstdReadsOurs(t *testing.T) {
	cfg := testConfig(t)
	cfg.SegmentBytes = 3 << 20
	l := mustOpen(t, cfg)
	run(t, l, 2500)
	mustClose(t, l)
	path := filepath.Join(cfg.Dir, segmentName(1))
	want, err := os.ReadFile(path)
	must(t, err)
	must(t, compressSegment(cfg.Dir, segmentName(1)))
	got, err := exec.Command("zstd", "-dcq", path+zstdSuffix).Output()
	if err != nil || string(got) != string(want) {
		t.Errorf("zstd: %d bytes, want %d, %v", len(got), len(want), err)
	}
	if info, _ := os.Stat(path + zstdSuffix); info.Size() > int64(len(want))/3 {
		t.Errorf("%d bytes of %d", info.Size(), len(want))
	}
}

// TestRelaxed: appends do not wait, all is written, and a disk that fails is noticed within the window.
func TestRelaxed(t *testing.T) {
	cfg := testConfig(t)
	cfg.Sync, cfg.RelaxedWindow, cfg.SegmentBytes = SyncRelaxed, 300*time.Millisecond, 1<<20
	var broken atomic.Bool
	cfg.fsync = func(f *os.File) error {
		if broken.Load() {
			return syscall.EIO
		}
		return f.Sync()
	}
	l := mustOpen(t, cfg)
	run(t, l, 200)
	mustClose(t, l)
	if r := verifyOK(t, cfg); r.Entries != 401 || r.UnfinishedCount != 0 {
		t.Errorf("%+v", r)
	}
	l = mustOpen(t, cfg)
	must(t, l.flush())
	broken.Store(true)
	taken, start := 0, time.Now()
	for {
		err := l.Intent(ctx, testRecord("ana"))
		if errors.Is(err, ErrUnavailable) {
			break
		}
		must(t, err)
		taken++
		time.Sleep(10 * time.Millisecond)
	}
	if d := time.Since(start); d < 200*time.Millisecond {
		t.Errorf("refused after %v", d)
	}
	if l.Stats().Err == nil {
		t.Error("the log must say that it is broken")
	}
	broken.Store(false)
	must(t, l.Intent(ctx, testRecord("ben")))
	mustClose(t, l)
	verifyOK(t, cfg)
	n := 0
	must(t, Search(ctx, cfg.Dir, Filter{Identity: "ana"}, func(View) bool { n++; return true }))
	if n != 200+taken {
		t.Errorf("%d requests, want %d: those that were taken while the disk was gone were lost", n, 200+taken)
	}
}

// TestFullFilesystem fills a real small filesystem: requests are refused, what runs is accounted for in the journal,
// and the log recovers by itself when there is space again.
func TestFullFilesystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Logf("no small filesystem can be mounted (%v): a limit on the size of files has to do", err)
		TestFullDisk(t)
		return
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, 0)) })
	cfg := Config{Dir: filepath.Join(dir, "audit"), Timeout: 2 * time.Second}
	l := mustOpen(t, cfg)
	running := testRecord("ana")
	must(t, l.Intent(ctx, running))
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	var err error
	for n := 0; err == nil && n < 10_000; n++ {
		err = l.Intent(ctx, testRecord("ana"))
	}
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, want ErrUnavailable", err)
	}
	if l.Stats().Err == nil {
		t.Error("the log must say that it is broken")
	}
	if err := l.Outcome(ctx, &Outcome{ID: running.ID, Time: time.Now(), Status: OK}); err != nil {
		t.Errorf("the outcome of what was running is lost: %v", err)
	}
	if err := l.Intent(ctx, testRecord("ana")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v: an intent was taken", err)
	}
	must(t, os.Remove(ballast))
	time.Sleep(150 * time.Millisecond)
	must(t, l.Intent(ctx, testRecord("ben")))
	if err := l.Stats().Err; err != nil {
		t.Error(err)
	}
	mustClose(t, l)
	verifyOK(t, cfg)
	if all := strings.Join(lines(t, cfg), "\n"); !strings.Contains(all, `"log.recovered"`) {
		t.Error("the log does not note its recovery")
	}
	if v, err := Find(ctx, cfg.Dir, running.ID); err != nil || v.Status != OK {
		t.Errorf("%v, %v", v.Status, err)
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for block := 64 << 10; block > 0; {
		if _, err := f.Write(make([]byte, block)); err != nil {
			block /= 2
		}
	}
}

// TestReadOnlyFilesystem: the filesystem becomes read-only under the log, and writable again.
func TestReadOnlyFilesystem(t *testing.T) {
	cfg := testConfig(t)
	var broken atomic.Bool
	cfg.fsync = func(f *os.File) error {
		if broken.Load() {
			return syscall.EROFS
		}
		return f.Sync()
	}
	l := mustOpen(t, cfg)
	run(t, l, 1)
	broken.Store(true)
	rec := testRecord("ana")
	rec.Judgement.Write = true
	if err := l.Intent(ctx, rec); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%v", err)
	}
	broken.Store(false)
	run(t, l, 1)
	mustClose(t, l)
	verifyOK(t, cfg)
}

// TestSlowDisk: waiting is bounded, and nobody waits for ever.
func TestSlowDisk(t *testing.T) {
	cfg := testConfig(t)
	cfg.Sync, cfg.Timeout = SyncAlways, 100*time.Millisecond
	var slow atomic.Bool
	cfg.fsync = func(f *os.File) error {
		if slow.Load() {
			time.Sleep(time.Second)
		}
		return f.Sync()
	}
	l := mustOpen(t, cfg)
	slow.Store(true)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			start := time.Now()
			err := l.Intent(ctx, testRecord("ana"))
			if d := time.Since(start); err == nil && d < time.Second/2 || d > 1500*time.Millisecond {
				t.Errorf("%v after %v", err, d)
			}
		})
	}
	wait.Wait()
	slow.Store(false)
	var err error
	for range 50 {
		if err = l.Intent(ctx, testRecord("ben")); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	must(t, err)
	mustClose(t, l)
	verifyOK(t, cfg)
}

// BenchmarkSaturation appends from many callers and reports records a second and bytes a record.
func BenchmarkSaturation(b *testing.B) {
	for _, mode := range []SyncMode{SyncGroup, SyncAlways, SyncRelaxed} {
		b.Run(string(mode), func(b *testing.B) {
			cfg := Config{Dir: filepath.Join(b.TempDir(), "audit"), Sync: mode}
			l := mustOpen(b, cfg)
			j := testJudgement()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					rec := testRecord("ana")
					rec.Judgement = j
					for l.Intent(ctx, rec) != nil {
						time.Sleep(time.Millisecond)
					}
					for l.Outcome(ctx, &Outcome{ID: rec.ID, Time: time.Now(), Status: OK, Rows: 1, Bytes: 40, Duration: time.Millisecond}) != nil {
						time.Sleep(time.Millisecond)
					}
				}
			})
			must(b, l.Close())
			b.StopTimer()
			var size int64
			files, _ := filepath.Glob(filepath.Join(cfg.Dir, segmentPrefix+"*"))
			for _, f := range files {
				info, err := os.Stat(f)
				must(b, err)
				size += info.Size()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(size)/float64(b.N), "bytes/record")
		})
	}
}
