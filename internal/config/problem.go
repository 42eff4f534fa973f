package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`   // 0: the problem is with the file as a whole
	Column  int    `json:"column,omitempty"` // in characters, from 1
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Problems is the error of Load and LoadGovernance for a file that could be read: all that is wrong with it, in the
// order of the file.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return p
}

// at reports if there is a problem at a place already.
func (p Problems) at(line, column int) bool {
	return slices.ContainsFunc(p, func(one Problem) bool { return one.Line == line && one.Column == column })
}
