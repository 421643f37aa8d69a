package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"qwb/internal/longtest"
)

// dataUnset begins the reason of every test that needs trained models and real data.
const dataUnset = "QWB_TESTDATA is not set"

// notApplies begins the reason of a combination (of a network and a target, for one) that has nothing to test, on any machine.
const notApplies = "does not apply: "

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string

	Elapsed float64 // seconds of a test or package that ended
}

// testName is a test of a package, a subtest by its whole name.
type testName struct{ pkg, name string }

// tally prints what go test prints without -v, and counts.
type tally struct {
	out     io.Writer
	said    map[testName][]string // output of tests that have not ended, and of packages
	passed  int
	skipped map[testName]string // reasons
	left    map[testName]bool   // tests of packages, no subtests, that left out what takes long
	took    map[testName]float64
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, said: map[testName][]string{}, skipped: map[testName]string{}, left: map[testName]bool{},
		took: map[testName]float64{}}
}

func (t *tally) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) == nil {
			t.add(&e)
		} else if len(line) > 0 {
			fmt.Fprintf(t.out, "%s", line) // of the go command itself
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) add(e *event) {
	n := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "output":
		t.said[n] = append(t.said[n], e.Output)
		if strings.Contains(e.Output, longtest.Unset) {
			top, _, _ := strings.Cut(e.Test, "/")
			t.left[testName{e.Package, top}] = true
		}
	case "pass", "fail", "skip":
		t.end(n, e.Action)
		if e.Test != "" && !strings.Contains(e.Test, "/") {
			t.took[n] = e.Elapsed
		}
	}
}

// longest lists the n tests of packages that took longest, with their seconds: those of parallel tests include waiting for a processor.
func (t *tally) longest(n int) string {
	names := slices.SortedFunc(maps.Keys(t.took), func(a, b testName) int {
		return cmp.Or(cmp.Compare(t.took[b], t.took[a]), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	})
	var lines strings.Builder
	for _, name := range names[:min(n, len(names))] {
		fmt.Fprintf(&lines, "%7.1f s  %s %s\n", t.took[name], name.pkg, name.name)
	}
	return lines.String()
}

// end prints the output of what failed, and the last line of every package.
func (t *tally) end(n testName, action string) {
	said := t.said[n]
	delete(t.said, n)
	switch {
	case n.name == "" && action == "fail":
		fmt.Fprint(t.out, strings.Join(said, ""))
	case n.name == "":
		for _, line := range said {
			if strings.HasPrefix(line, "ok  ") || strings.HasPrefix(line, "?   ") {
				fmt.Fprint(t.out, line)
			}
		}
	case action == "fail":
		fmt.Fprint(t.out, strings.Join(said, ""))
	case action == "pass":
		t.passed++
	default:
		t.skipped[n] = reason(said)
	}
}

// place is where in a source file a line of a test's log comes from.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason is what a skipped test said last.
func reason(said []string) string {
	for _, line := range slices.Backward(said) {
		if at := place.FindString(line); at != "" {
			return strings.TrimSpace(line[len(at):])
		}
	}
	return "no reason"
}

// summary says in one line what passed and what was left out.
func (t *tally) summary() string {
	data, long, none, others := 0, 0, 0, 0
	for _, why := range t.skipped {
		switch {
		case strings.HasPrefix(why, dataUnset):
			data++
		case strings.HasPrefix(why, longtest.Unset):
			long++
		case strings.HasPrefix(why, notApplies):
			none++
		default:
			others++
		}
	}
	return fmt.Sprintf("%d tests passed; %d need QWB_TESTDATA, %d are left out or shorter without QWB_LONG=1, "+
		"%d combinations have nothing to test, %d skipped for other reasons", t.passed, data, max(long, len(t.left)), none, others)
}

// unexpected lists skips that nobody expects, where the test data are there.
func (t *tally) unexpected(e expected) error {
	if os.Getenv("QWB_TESTDATA") == "" {
		return nil
	}
	var list []string
	for n, why := range t.skipped {
		if !e.has(n.pkg, why) {
			list = append(list, fmt.Sprintf("%s %s was skipped: %s", n.pkg, n.name, why))
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return fmt.Errorf("%d tests were skipped that nobody expects to be\n%s", len(list), strings.Join(list, "\n"))
}
