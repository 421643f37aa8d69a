package bench

import (
	"math/rand/v2"
	"slices"

	"qwb/kernels"
)

// Kernel is one operation on one shape, to be timed on every row of the operation.
type Kernel struct {
	Op    kernels.Op
	Shape string
	Mode  string           // fp32 or int8
	Unit  Unit             // what its speed is told in
	Bound kernels.PeakKind // what it is measured against
	Ops   float64          // operations of one run, a multiply-add being two; elements for those that multiply nothing
	Bytes float64          // read and written at least
	// Prepare makes what runs the operation with the rows of t.
	Prepare func(t *kernels.Table) func(par kernels.Parallel)
}

// Unit is what the speed of a kernel is told in.
type Unit string

const (
	GOPS   Unit = "GOPS"
	GBps   Unit = "GB/s"
	GElems Unit = "Gelem/s"
)

// Name is the operation and its shape.
func (k Kernel) Name() string { return k.Op.String() + " " + k.Shape }

// Speed is the kernel's speed in its unit when one run takes that many seconds.
func (k Kernel) Speed(seconds float64) float64 {
	if k.Unit == GBps {
		return k.Bytes / seconds / 1e9
	}
	return k.Ops / seconds / 1e9
}

// slowOps is the work beyond which rows of plain Go are left out: they take a hundred times as long.
const slowOps = 1e9

// Takes reports whether a row is timed on k.
func (k Kernel) Takes(r kernels.Row) bool { return r.Op == k.Op && (r.ISA != "go" || k.Ops <= slowOps) }

// Kernels lists the cases. To add one, add a line to the list of its family.
func Kernels() []Kernel {
	return slices.Concat(productKernels(), gradientKernels(), poolKernels(), elementwiseKernels(), mathKernels(), observeKernels(),
		integerKernels(), codesKernels(), groupsKernels(), gramKernels())
}

// numbers makes n values between -1 and 1.
func numbers(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = 2*r.Float32() - 1
	}
	return x
}
