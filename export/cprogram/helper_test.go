package cprogram_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export/cprogram"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// strict is how every program is compiled: as C99, without a warning.
var strict = []string{"-std=c99", "-Wall", "-Wextra", "-Wsign-conversion", "-pedantic", "-Werror", "-O2", "-ffp-contract=off"}

// sanitized finds what C leaves undefined.
var sanitized = append([]string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-ffp-contract=off"},
	"-fsanitize=undefined,address", "-fno-sanitize-recover=all")

// compiler is the C compiler's path; without one the test is skipped.
func compiler(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no C compiler: none of cc, gcc, clang is installed")
	return ""
}

// generated writes p as C and compiles it; the result is the executable's path.
func generated(t testing.TB, p *lower.Program, sizes map[string]int64, flags []string) string {
	t.Helper()
	return generatedWith(t, p, cprogram.Options{Sizes: sizes, Title: t.Name()}, flags)
}

func generatedWith(t testing.TB, p *lower.Program, o cprogram.Options, flags []string) string {
	t.Helper()
	cc := compiler(t)
	var text bytes.Buffer
	_, err := cprogram.Write(&text, p, o)
	require.NoError(t, err, lower.Format(p))
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "program.c"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, text.Bytes(), 0o666))
	out, err := exec.Command(cc, append(append([]string(nil), flags...), "-o", binary, source)...).CombinedOutput()
	if err != nil {
		if dir := os.Getenv("QWB_KEEP_C"); dir != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "failed.c"), text.Bytes(), 0o666))
		}
	}
	require.NoError(t, err, "%s", out)
	return binary
}

// execute runs a compiled program on feeds.
func execute(t testing.TB, binary string, p *lower.Program, feeds map[string]*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	dir := t.TempDir()
	var args []string
	for i, id := range p.Inputs {
		path := filepath.Join(dir, "in"+string(rune('0'+i))+".npy")
		f, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, npy.Write(f, feeds[p.Tensors[id].Name]))
		require.NoError(t, f.Close())
		args = append(args, path)
	}
	for i := range p.Outputs {
		args = append(args, filepath.Join(dir, "out"+string(rune('0'+i))+".npy"))
	}
	text, err := exec.Command(binary, args...).CombinedOutput()
	require.NoError(t, err, "%s", text)
	var outs []*tensor.Tensor
	for _, path := range args[len(p.Inputs):] {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		x, err := npy.Read(bytes.NewReader(data))
		require.NoError(t, err)
		outs = append(outs, x)
	}
	return outs
}

// observed is a copy of p whose outputs are all integers that its steps compute, besides its own outputs: what is to be compared.
func observed(p *lower.Program) *lower.Program {
	q := *p
	q.Outputs = append([]lower.TensorID(nil), p.Outputs...)
	for _, s := range p.Steps {
		for _, id := range s.Outputs {
			if id != lower.NoTensor && p.Tensors[id].Quantized() {
				q.Outputs = append(q.Outputs, id)
			}
		}
	}
	return &q
}

// islandBound is how many numbers of float32 the results of float islands may be apart: sums are added in another order there.
const islandBound = 4

// compared runs p by the reference and as C and compares every integer, and every real output. It returns how many integers were
// compared.
func compared(t testing.TB, p *lower.Program, feeds map[string]*tensor.Tensor, sizes map[string]int64, flags []string) int {
	t.Helper()
	all := observed(p)
	e, err := program.New(all, program.Reference, 2)
	require.NoError(t, err)
	want, err := e.Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	return same(t, all, want, execute(t, generated(t, all, sizes, flags), all, feeds))
}

// same compares outputs: integers, and real numbers that no island has computed, must be equal.
func same(t testing.TB, p *lower.Program, want, got []*tensor.Tensor) int {
	t.Helper()
	bounds := map[lower.TensorID]int64{}
	for _, s := range p.Steps {
		if _, ok := s.Op.(*lower.Island); ok {
			for _, id := range s.Outputs {
				bounds[id] = islandBound
			}
		}
	}
	require.Len(t, got, len(want))
	n := 0
	for k, id := range p.Outputs {
		name := p.Tensors[id].Name
		require.Equal(t, want[k].Shape, got[k].Shape, name)
		if want[k].DType == tensor.Float32 {
			for i, x := range want[k].F32() {
				if y := got[k].F32()[i]; apart(x, y) > bounds[id] {
					require.Fail(t, "a real output differs", "%s[%d]: %g, not %g\n%s", name, i, y, x, lower.Format(p))
				}
			}
			continue
		}
		n += want[k].Len()
		if !tensor.Equal(want[k], got[k]) {
			a, b := want[k].Integers(), got[k].Integers()
			for i := range a {
				if a[i] != b[i] {
					require.Fail(t, "an integer differs", "%s[%d]: %d, not %d\n%s", name, i, b[i], a[i], lower.Format(p))
				}
			}
		}
	}
	return n
}

// apart is how many numbers of float32 lie between a and b.
func apart(a, b float32) int64 {
	order := func(x float32) int64 {
		if bits := int64(math.Float32bits(x)); bits&(1<<31) != 0 {
			return 1<<31 - bits
		} else {
			return bits
		}
	}
	d := order(a) - order(b)
	return max(d, -d)
}

// lowered compiles a graph for a target under a profile; not every profile can express every graph.
func lowered(g *graph.Graph, set *tqc.Set, tg *target.Target, profile string) (*lower.Program, error) {
	pr, err := qmath.ProfileNamed(profile)
	if err != nil {
		return nil, err
	}
	return lower.Compile(g, set, tg, pr)
}

// bound are sizes for open dimensions that fit the feeds.
func bound(g *graph.Graph, feeds map[string]*tensor.Tensor) map[string]int64 {
	sizes := map[string]int64{}
	for _, v := range g.Inputs {
		for a, d := range g.Value(v).Shape {
			if x := feeds[g.Value(v).Name]; x != nil && !d.Known() {
				sizes[strings.TrimSpace(d.Symbol)] = int64(x.Shape[a])
			}
		}
	}
	return sizes
}

// inC are the profiles whose programs have a form in C: all but those with factors of float64.
func inC() []qmath.Profile {
	return slices.DeleteFunc(qmath.Profiles(), func(p qmath.Profile) bool { return p.Double })
}
