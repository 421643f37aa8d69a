// Package kerneltest is one conformance suite for every row of package kernels. Each table is held to package ref bit for bit
// in its own arithmetic, so that rows with the same arithmetic are identical to each other, on ordinary, extreme and
// awkwardly sized input, for any number of threads, with memory around every slice that must not be touched.
//
// The suite takes a table and knows nothing of how it is made: a new row is tested by being listed in kernels.Rows.
//
// Unstable: it may change without notice.
package kerneltest

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels"
	"qwb/kernels/cpu"
)

// Tables returns one table for every instruction set that a processor with features f executes, and the float64 table, by
// name.
func Tables(f cpu.Features) map[string]*kernels.Table {
	tables := map[string]*kernels.Table{"go": kernels.Select(cpu.Features{}), "float64": kernels.Float64()}
	if f.AVX2 {
		tables["avx2"] = kernels.Select(cpu.Features{AVX2: true})
	}
	if f.AVX512 {
		tables["avx512"] = kernels.Select(f)
	}
	if f.NEON {
		tables["neon"] = kernels.Select(cpu.Features{NEON: true})
	}
	return tables
}

// Memory hands out the slices that kernels are called with. Contents are zero, length and capacity are n.
type Memory interface {
	New(n int) []float32
	NewBytes(n int) []byte
	// Check reports writes outside of the slices handed out since the last call, and forgets them.
	Check() error
}

// Suite is the suite for one table.
type Suite struct {
	Table  *kernels.Table
	Memory Memory
	Serial bool // run every case once, on one goroutine
	Short  bool // a shape of a convolution or pool sees one kind of values instead of all
}

// Run runs everything.
func (s Suite) Run(t *testing.T) {
	t.Run("gemm", s.gemm)
	t.Run("bound", s.bound)
	t.Run("conv", s.conv)
	t.Run("conv transpose", s.convTranspose)
	t.Run("pool", s.pool)
	t.Run("elementwise", s.elementwise)
	t.Run("broadcasts", s.broadcasts)
	t.Run("move", s.move)
	t.Run("math", s.math)
	t.Run("accuracy", s.accuracy)
	t.Run("rows", s.rows)
	t.Run("compare", s.compare)
	t.Run("observe", s.observe)
	t.Run("gram", s.gram)
	t.Run("units", s.units)
	t.Run("softmax bound", s.softmaxBound)
	t.Run("misuse", s.misuse)
}

// Threads returns a Parallel that runs n goroutines.
func Threads(n int) kernels.Parallel {
	return func(pieces int, body func(i int)) {
		work := make(chan int, pieces)
		for i := range pieces {
			work <- i
		}
		close(work)
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				for i := range work {
					body(i)
				}
			})
		}
		wg.Wait()
	}
}

// ways lists how every case is run; nil is serial.
func (s Suite) ways() []kernels.Parallel {
	if s.Serial {
		return []kernels.Parallel{nil}
	}
	return []kernels.Parallel{nil, Threads(1), Threads(2), Threads(7)}
}

// requireSame fails unless got equals want bit for bit, any NaN counting as the same.
func requireSame(t *testing.T, want, got []float32, format string, args ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if g := got[i]; math.Float32bits(w) != math.Float32bits(g) && (w == w || g == g) {
			t.Fatalf("%s: element %d of %d is %g (%08x), want %g (%08x)", fmt.Sprintf(format, args...), i, len(want), g, math.Float32bits(g), w,
				math.Float32bits(w))
		}
	}
}

// copyOf returns a slice of s.Memory with the elements of x.
func (s Suite) copyOf(x []float32) []float32 {
	y := s.Memory.New(len(x))
	copy(y, x)
	return y
}
