package kernels

import (
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

// The shapes, epilogues and arithmetics are those of the specification.
type (
	ConvShape  = ref.ConvShape
	Epilogue   = ref.Epilogue
	Activation = ref.Activation
	Arith      = ref.Arith
)

const (
	None = ref.None
	Relu = ref.Relu
	Clip = ref.Clip
)

// Row is one implementation of one inner operation.
type Row struct {
	Name  string // op-isa-tile, for example "gemm-avx512-14x32"
	Op    string // "gemm" or "depthwise"
	ISA   string // "go", "avx2" or "avx512"
	Arith Arith
	MR    int // rows of the tile: positions
	NR    int // columns of the tile: output channels; also the width of a packed panel

	runs func(cpu.Features) bool
	tile func(*tile)
}

// Runs reports whether a processor with features f can execute the row.
func (r Row) Runs(f cpu.Features) bool { return r.runs == nil || r.runs(f) }

// Rows lists the rows of this build, best first within each operation. The plain Go rows are always there; rows that need a
// feature the running processor lacks are listed too and must not be called on it.
func Rows() []Row {
	return append(vectorRows(),
		Row{Name: "gemm-go-4x4", Op: "gemm", ISA: "go", Arith: ref.Float32, MR: 4, NR: 4, tile: goGemm},
		Row{Name: "depthwise-go-1x4", Op: "depthwise", ISA: "go", Arith: ref.Float32, MR: 8, NR: 4, tile: goDepthwise},
	)
}

// Table is a choice of rows. It is immutable and may be shared.
type Table struct {
	gemm, depthwise Row
}

// Select returns the fastest rows that a processor with features f executes. All rows of one table have the same Arith.
func Select(f cpu.Features) *Table {
	t := new(Table)
	for _, r := range Rows() {
		if !r.Runs(f) {
			continue
		}
		if r.Op == "gemm" && t.gemm.tile == nil {
			t.gemm = r
		}
		if r.Op == "depthwise" && t.depthwise.tile == nil {
			t.depthwise = r
		}
	}
	return t
}

// Float64 returns the table whose sums are accumulated in float64 and rounded once per output element. It is slow and serves
// comparisons.
func Float64() *Table {
	return &Table{
		gemm:      Row{Name: "gemm-go64-4x4", Op: "gemm", ISA: "go", Arith: ref.Float64, MR: 4, NR: 4, tile: goGemm64},
		depthwise: Row{Name: "depthwise-go64-1x4", Op: "depthwise", ISA: "go", Arith: ref.Float64, MR: 8, NR: 4, tile: goDepthwise64},
	}
}

// Rows lists the rows of the table.
func (t *Table) Rows() []Row { return []Row{t.gemm, t.depthwise} }

// Arith returns the arithmetic of the table's sums.
func (t *Table) Arith() Arith { return t.gemm.Arith }
