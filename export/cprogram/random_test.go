package cprogram_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	hardware "qwb/kernels/cpu"
	"qwb/kernels/kerneltest"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// number reads an environment variable.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// drawn lowers the random network of a seed for a random target under a random profile that can express it; nil for none.
func drawn(t *testing.T, seed uint64, samples int) *lower.Program {
	r := rand.New(rand.NewPCG(seed, 2))
	tg := lowertest.RandomTarget(seed)
	g, set, _ := lowertest.ConfiguredFor(t, lowertest.Random(seed, samples), &tg)
	if r.IntN(4) != 0 {
		lowertest.Disturb(t, seed, g, set)
	}
	profiles := inC()
	for _, i := range r.Perm(len(profiles)) {
		if p, err := lower.Compile(g, set, &tg, profiles[i]); err == nil {
			return p
		}
	}
	return nil
}

// Random networks with random shapes, encodings and extreme zero points, on inputs of the size that was calibrated, on small ones and
// on such that saturate: every integer of every step is the same on the reference, on the CPU's kernels and in C.
//
// QWB_RANDOM_PROGRAMS says how many networks, QWB_RANDOM_INTEGERS how many integers have to be compared at least, QWB_RANDOM_SAMPLES
// and QWB_RANDOM_INPUTS how large a run is and how many there are of a network, QWB_RANDOM_FIRST the first seed.
func TestRandomPrograms(t *testing.T) {
	compiler(t)
	programs, least := number("QWB_RANDOM_PROGRAMS", 16), number("QWB_RANDOM_INTEGERS", 0)
	if !longtest.Wanted(t) {
		programs = 4
	}
	first, samples, inputs := number("QWB_RANDOM_FIRST", 0), number("QWB_RANDOM_SAMPLES", 0), number("QWB_RANDOM_INPUTS", 3)
	tables := kerneltest.IntegerTables(hardware.Detect())
	delete(tables, "saturating") // it has sums of its own
	var list []program.Backend
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		list = append(list, cpu.With(tables[name]))
	}
	made, onCPU, inC := 0, 0, 0
	under := map[string]int{}
	for seed := uint64(first); made < programs || inC < least; seed++ {
		require.Less(t, int(seed), first+3*(programs+10)+least, "too few networks have a program")
		p := drawn(t, seed, samples)
		if p == nil {
			continue
		}
		made++
		under[p.Profile.Name]++
		ok := t.Run(strconv.FormatUint(seed, 10)+"/"+p.Profile.Name, func(t *testing.T) {
			c, b := threeWays(t, p, list[int(seed)%len(list)], seed, inputs)
			onCPU, inC = onCPU+c, inC+b
		})
		if !ok {
			t.Fatalf("%s\n%s", lowertest.Random(seed, samples), lower.Format(p))
		}
		if made%50 == 0 {
			t.Logf("%d programs: %d integers on the CPU, %d in C", made, onCPU, inC)
		}
	}
	t.Logf("programs by profile: %v", under)
	t.Logf("%d programs, 0 different: %d integers of the reference = CPU kernels, %d integers of the reference = generated C",
		made, onCPU, inC)
}

// threeWays runs a program on the reference, a backend and as C, and returns how many integers were the same on the backend and in C.
func threeWays(t *testing.T, p *lower.Program, b program.Backend, seed uint64, inputs int) (onBackend, inC int) {
	all := observed(p)
	binary := generated(t, all, nil, strict)
	reference, err := program.New(all, program.Reference, 1)
	require.NoError(t, err)
	other, err := program.New(all, b, 1+int(seed)%3)
	require.NoError(t, err)
	ctx := context.Background()
	for k := range inputs {
		in := map[string]*tensor.Tensor{}
		for _, id := range p.Inputs {
			x := graphtest.Normal(seed<<8+uint64(k), staticShape(t, p, id)...)
			for i := range x.F32() {
				x.F32()[i] *= []float32{1, 0.1, 30}[k%3]
			}
			in[p.Tensors[id].Name] = x
		}
		want, err := reference.Run(ctx, in, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			got, err := other.RunStep(ctx, s.ID, in)
			for k, id := range s.Outputs {
				if err == nil && id != lower.NoTensor && p.Tensors[id].Quantized() {
					if !tensor.Equal(out[k], got[k]) {
						return nil, fmt.Errorf("different on the CPU: %s", lower.FormatStep(p, s.ID))
					}
					onBackend += out[k].Len()
				}
			}
			return nil, err
		})
		require.NoError(t, err)
		inC += same(t, all, want, execute(t, binary, all, in))
	}
	return onBackend, inC
}

// staticShape is the shape of a tensor that depends on nothing.
func staticShape(t *testing.T, p *lower.Program, id lower.TensorID) []int {
	t.Helper()
	shape, ok := p.Tensors[id].Shape.Ints()
	require.True(t, ok)
	return shape
}
