package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat (sysconf(_SC_CLK_TCK), which Linux has at 100 on every architecture that Go knows).
const tick = time.Second / 100

// process is what /proc/PID/stat tells of one.
type process struct {
	id, parent int
	used       time.Duration // processor time, with that of children that have ended
}

// family returns a proxy's process and all that it has started; none for the direct way.
func (t *target) family() ([]process, error) {
	if t.cmd == nil {
		return nil, nil
	}
	all, err := processes()
	if err != nil {
		return nil, err
	}
	in := map[int]bool{t.cmd.Process.Pid: true}
	for grown := true; grown; {
		grown = false
		for _, one := range all {
			if in[one.parent] && !in[one.id] {
				in[one.id], grown = true, true
			}
		}
	}
	var family []process
	for _, one := range all {
		if in[one.id] {
			family = append(family, one)
		}
	}
	return family, nil
}

func processes() (all []process, err error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		one, err := readStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// readStat reads /proc/PID/stat. The second field is the command's name in brackets, the fourth the parent; utime, stime, cutime and cstime
// are the 14th to 17th (proc(5)).
func readStat(text string) (p process, err error) {
	id, _, _ := strings.Cut(text, " ")
	if p.id, err = strconv.Atoi(id); err != nil {
		return p, err
	}
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return p, fmt.Errorf("only %d fields", len(fields))
	}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return p, err
	}
	for _, f := range fields[11:15] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return p, err
		}
		p.used += time.Duration(n) * tick
	}
	return p, nil
}

// processorTime is what the proxy has used so far; 0 for the direct way.
func (t *target) processorTime() (used time.Duration, err error) {
	family, err := t.family()
	for _, one := range family {
		used += one.used
	}
	return used, err
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that the proxy has held since it was last asked: the sum of what each of its processes has held at most. Pages
// that they share count in each of them.
func (t *target) peakMemory() (sum int64, err error) {
	family, err := t.family()
	if err != nil {
		return 0, err
	}
	for _, one := range family {
		peak, err := resetPeak(one.id)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		sum += peak
	}
	return sum, nil
}

func resetPeak(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	m := peakLine.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("/proc/%d/status has no peak", pid)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return 0, err
	}
	// Writing 5 resets the peak (proc(5), clear_refs).
	return kb << 10, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}
