package verify

import (
	"context"
	"fmt"
	"math"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// islandULP is how many units in the last place a float island of two backends may differ.
const islandULP = 4

// sameAsReference makes the hook of a backend's run: rule (a). What the reference computed takes the place of an island's results,
// and of any that differ, so that each tensor's differences are those of its own step. same becomes false where any bit does.
func (r *runner) sameAsReference(x *inspection, same *bool) program.Hook {
	return func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return r.sameStep(x, s, out, same)
	}
}

func (r *runner) sameStep(x *inspection, s *lower.Step, out []*tensor.Tensor, same *bool) ([]*tensor.Tensor, error) {
	kept := x.kept[s.ID]
	_, isIsland := s.Op.(*lower.Island)
	replace := isIsland || isSimulated(s)
	for k, want := range kept {
		t := x.tallies[s.ID][k]
		if want == nil || t == nil {
			continue
		}
		if k >= len(out) || out[k] == nil || out[k].DType != want.DType || out[k].Len() != want.Len() {
			return nil, fmt.Errorf("backend %s: output %d is not %s", r.cfg.Backend.Name, k, want.Type())
		}
		ulps := 0
		if isIsland {
			ulps = islandULP
		}
		got := out[k].ToRowMajor()
		if tensor.Equal(want, got) {
			t.holds(want)
			continue
		}
		*same = false
		replace = !t.hold(want, got, ulps) || replace
	}
	if !replace {
		return nil, nil
	}
	other := make([]*tensor.Tensor, len(out))
	copy(other, kept)
	return other, nil
}

// sameBackend runs the backend, if there is one, step by step, and then as its users do, without anybody looking on: backends may take
// other ways then. The second run repeats the first, which may have been the one that prepares.
func (r *runner) sameBackend(ctx context.Context, x *inspection, want []*tensor.Tensor) error {
	if r.backend == nil {
		return nil
	}
	same := true
	got, err := r.backend.Run(ctx, x.feeds, r.sameAsReference(x, &same))
	if err != nil {
		return fmt.Errorf("backend %s: %w", r.cfg.Backend.Name, err)
	}
	if err := r.sameOutputs(want, got, "is not what its last step wrote"); err != nil {
		return err
	}
	for same { // else what comes behind the difference is another computation
		if got, err = r.backend.Run(ctx, x.feeds, nil); err != nil {
			return fmt.Errorf("backend %s: %w", r.cfg.Backend.Name, err)
		}
		if err := r.sameOutputs(want, got, "of a run without a hook is not the reference's, though every step's is"); err != nil {
			return err
		}
		if r.whole++; r.whole > 1 {
			break
		}
	}
	return nil
}

// holds counts what two backends computed alike, bit for bit.
func (t *tally) holds(x *tensor.Tensor) {
	switch x.Data.(type) {
	case []int8, []uint8, []int16, []int32:
		t.held += int64(x.Len())
	case []uint16:
		if x.DType == tensor.Uint16 { // else the bits of floats
			t.held += int64(x.Len())
		}
	}
}

// hold compares what two backends computed; false where they differ.
func (t *tally) hold(want, got *tensor.Tensor, ulps int) bool {
	same := true
	differs := func(i int, a, b float64) {
		same = false
		t.backend++
		t.most = max(t.most, int64(min(math.Abs(a-b), 1<<40)))
		if t.firstBackend == nil {
			d := t.layer.divergence(t.output)
			d.What, d.Index, d.Expected, d.Got, d.ExpectedBy = "integer", i, analysis.Number(a), analysis.Number(b), "reference"
			t.firstBackend = &d
		}
	}
	if x := want.F32(); x != nil {
		for i, v := range got.F32() {
			if !close32(x[i], v, ulps) {
				differs(i, float64(x[i]), float64(v))
			}
		}
		return same
	}
	codes := want.Integers()
	if codes == nil {
		if !tensor.Equal(want, got) {
			differs(0, 0, 1)
		}
		return same
	}
	t.held += int64(len(codes))
	for i, q := range got.Integers() {
		if q != codes[i] {
			differs(i, float64(codes[i]), float64(q))
		}
	}
	return same
}

// close32 reports whether two numbers are within so many units in the last place; NaN equals NaN.
func close32(a, b float32, ulps int) bool {
	if a == b || a != a && b != b {
		return true
	}
	ordered := func(x float32) int64 {
		n := int64(math.Float32bits(x))
		if n >= 1<<31 {
			n = 1<<31 - n
		}
		return n
	}
	d := ordered(a) - ordered(b)
	return max(d, -d) <= int64(ulps)
}

// sameOutputs checks the outputs of two runs, which no hook sees.
func (r *runner) sameOutputs(want, got []*tensor.Tensor, wrong string) error {
	for k, id := range r.program.Outputs {
		name := r.program.Tensors[id].Name
		if len(got) != len(want) || !tensor.Equal(want[k], got[k]) {
			return fmt.Errorf("backend %s: output %q %s", r.cfg.Backend.Name, name, wrong)
		}
	}
	return nil
}
