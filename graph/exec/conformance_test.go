package exec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// ONNX's tolerance for the results of its test vectors.
const (
	onnxRelative = 1e-3
	onnxAbsolute = 1e-7
)

// errWrong marks a result that differs from what is expected: worse than a refusal.
var errWrong = errors.New("wrong result")

// run executes a case and compares every output of every data set. Each is executed with one thread and with two, in memory
// filled with garbage, and twice, the second run being planned: all have to agree to the bit. see is called with the outputs.
func (c *vectorCase) run(g *graph.Graph, see func(got, want *tensor.Tensor)) error {
	var runners []*exec.Runner
	for _, threads := range []int{2, 1} {
		if c.folder == "light" && threads == 1 {
			continue // half a gigabyte of weights
		}
		s, err := exec.NewPoisoned(g, exec.Options{Threads: threads})
		if err != nil {
			return err
		}
		runners = append(runners, s.NewRunner())
	}
	for k, set := range c.sets {
		feeds, err := c.feeds(g, set)
		if err != nil {
			return fmt.Errorf("data set %d: %w", k, err)
		}
		wants, err := set.wants()
		if err != nil {
			return fmt.Errorf("data set %d: %w", k, err)
		}
		var first []*tensor.Tensor
		for i := range 2 * len(runners) {
			got, err := runners[i/2].Run(context.Background(), feeds, nil)
			if err != nil {
				return fmt.Errorf("data set %d: %w", k, err)
			}
			if first == nil {
				first = got
			}
			for _, at := range slices.Sorted(maps.Keys(wants)) {
				if err := near(got[at], wants[at], onnxRelative, onnxAbsolute); err != nil {
					return fmt.Errorf("%w: data set %d, output %d: %w", errWrong, k, at, err)
				}
				if !tensor.Equal(got[at], first[at]) {
					return fmt.Errorf("%w: data set %d, output %d: run %d differs from run 0", errWrong, k, at, i)
				}
				if i == 0 {
					see(got[at], wants[at])
				}
			}
		}
	}
	return nil
}

// outcome is what became of the cases of a folder.
type outcome struct {
	passed, gap, failed int
	kinds               map[gapKind]int
}

// judge runs a case. A case that passes has passed; one that is refused is a gap if its model says so, and failed otherwise. A
// wrong result and a panic are failures in any case.
func (c *vectorCase) judge(o *outcome, errs opErrors) (err error) {
	var kind gapKind
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v %s", p, debug.Stack())
		}
		switch {
		case err == nil:
			o.passed++
		case kind != "" && !errors.Is(err, errWrong):
			o.gap++
			o.kinds[kind]++
			err = nil
		default:
			o.failed++
		}
	}()
	m, err := c.read()
	if err != nil {
		return err
	}
	if kind = gapOf(m); kind == gapRandom {
		return errors.New("other numbers are as right as the expected ones")
	}
	op := operatorOf(m.Graph)
	return c.run(m.Graph, func(got, want *tensor.Tensor) { errs.add(op, c.name, got, want) })
}

// opErrors are the largest errors by operator.
type opErrors map[string]*opError

type opError struct {
	outputs, codes int // that are floats, and that are not
	worst          ulps
	name           string // of the case with the largest error in units of the largest element
}

func (e opErrors) add(op, name string, got, want *tensor.Tensor) {
	if op == "" {
		op = "(several operators)"
	}
	if e[op] == nil {
		e[op] = &opError{}
	}
	o := e[op]
	u, ok := errorOf(got, want)
	if !ok {
		o.codes++
		return
	}
	o.outputs++
	if u.largest > o.worst.largest {
		o.name = name
	}
	o.worst.own, o.worst.largest = max(o.worst.own, u.own), max(o.worst.largest, u.largest)
}

func (e opErrors) log(t *testing.T) {
	t.Logf("%-28s %7s %12s %12s   %-10s %s", "operator", "floats", "ULP", "ULP of max", "integers", "case of the largest of max")
	for _, op := range slices.Sorted(maps.Keys(e)) {
		o := e[op]
		line := fmt.Sprintf("%-28s %7d %12s %12s", op, o.outputs, "", "")
		if o.outputs > 0 {
			line = fmt.Sprintf("%-28s %7d %12.4g %12.4g", op, o.outputs, o.worst.own, o.worst.largest)
		}
		codes := ""
		if o.codes > 0 {
			codes = fmt.Sprintf("%d: 0 diff", o.codes)
		}
		t.Logf("%s   %-10s %s", line, codes, o.name)
	}
}

// TestConformance runs the ONNX backend tests. With -v it lists the gaps by kind and the largest error of every operator.
func TestConformance(t *testing.T) {
	results := map[string]*outcome{}
	errs := opErrors{}
	for _, c := range readCases(t) {
		if c.folder == "light" && !longtest.Wanted(t) {
			continue // takes about ten seconds
		}
		o := results[c.folder]
		if o == nil {
			o = &outcome{kinds: map[gapKind]int{}}
			results[c.folder] = o
		}
		if err := c.judge(o, errs); err != nil {
			t.Errorf("%s/%s: %v", c.folder, c.name, err)
		}
	}
	errs.log(t)
	for _, folder := range []string{"light", "pytorch-converted", "pytorch-operator", "simple", "node"} {
		o := results[folder]
		if o == nil {
			continue
		}
		for _, kind := range gapKinds {
			if o.kinds[kind] > 0 {
				t.Logf("%s gap, %s: %d", folder, kind, o.kinds[kind])
			}
		}
		t.Logf("onnx-%s passed=%d gap=%d failed=%d", folder, o.passed, o.gap, o.failed)
	}
	o := results["node"]
	assert.Equal(t, 1765, o.passed+o.gap+o.failed)
	assert.GreaterOrEqual(t, o.passed, 1521, "cases of plain operators count as gaps")
}

// TestConformanceCatches holds that a wrong number, and a refusal that no table explains, are failures.
func TestConformanceCatches(t *testing.T) {
	judged := func(name string, change func(c *vectorCase)) *outcome {
		o := &outcome{kinds: map[gapKind]int{}}
		for _, c := range readCases(t) {
			if c.folder == "node" && c.name == name {
				change(c)
				if err := c.judge(o, opErrors{}); err != nil {
					t.Log(err)
				}
			}
		}
		return o
	}
	nothing := func(*vectorCase) {}
	swapped := func(c *vectorCase) { c.sets[0].outputs[0] = c.sets[0].inputs[0] }
	renamed := func(c *vectorCase) { c.model = bytes.Replace(c.model, []byte("Relu"), []byte("Ruel"), 1) }
	assert.Equal(t, outcome{passed: 1, kinds: map[gapKind]int{}}, *judged("test_relu", nothing))
	assert.Equal(t, outcome{failed: 1, kinds: map[gapKind]int{}}, *judged("test_relu", swapped))
	assert.Equal(t, outcome{failed: 1, kinds: map[gapKind]int{}}, *judged("test_relu", renamed))
	assert.Equal(t, outcome{gap: 1, kinds: map[gapKind]int{gapTraining: 1}}, *judged("test_adam", nothing))
}

// TestOperatorsAreSpecified holds that package graph can infer the shapes of every operator that can be executed.
func TestOperatorsAreSpecified(t *testing.T) {
	seen := map[exec.Operator]bool{}
	for _, op := range exec.Operators() {
		assert.False(t, seen[op], "%v stands twice in the table", op)
		seen[op] = true
		assert.NotNil(t, graph.Spec(op.Domain, op.Op), "no OpSpec for %v", op)
	}
}
