package kernels

import (
	"slices"
	"sync"

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

// Op is an inner operation, of which there is a row for every instruction set that has one.
type Op uint8

const (
	OpGemm      Op = iota // sums of products over k: products, dense and grouped convolutions
	OpDepthwise           // sums of products over a window, channel by channel
	OpMaxWindow           // the largest value of a window
	OpSumWindow           // the sum of a window
	OpAdd
	OpSub
	OpMul
	OpDiv
	OpLimit // Limits
	OpFake  // FakeQuantize
	OpMinMax
	OpChannelMinMax
	OpBins // Meter.Count
	OpExp
	OpSigmoid
	OpTanh
	OpErf
	OpSwish
	OpGelu
	OpGeluTanh
	OpHardSigmoid
	OpHardSwish
	OpSqrt
	OpRound
	OpAddScalar
	OpMulScalar
	OpDivScalar
	OpScalarSub
	OpScalarDiv
	OpRowMax
	OpRowSum
	OpRowSquares // sum of squares
	OpRowExp     // exponentials and their sum
	OpNormalize
	OpGemmU8S8      // integer sums of products over k
	OpDepthwiseU8S8 // integer sums of products over a window, channel by channel
	OpScaleU8       // integer sums to codes by Scale
	OpScaleF32      // integer sums to float32 by Scale
	OpShiftU8       // integer sums to codes by Shift
	OpAddCodes      // AddCodes
	OpAddFused      // AddCodes where Fused
	OpToCodes       // float32 to codes
	OpToCodesAway   // the same, ties away from zero
	OpFromCodes     // codes to float32
	OpMaxCodes      // MaxCodes
	OpGroups8       // products of groups of int8
	OpGroups4       // products of groups of 4 bits
	OpGroupsFloat8  // products of groups of int8 and floats
	OpGroupsFloat4  // products of groups of 4 bits and floats
	OpQuantizeGroups
	OpCombine
	OpGram  // sums of products of columns
	OpUnits // AddUnits
	opCount
)

var opNames = [opCount]string{"gemm", "depthwise", "max-window", "sum-window", "add", "sub", "mul", "div", "limit", "fake", "min-max",
	"channel-min-max", "bins", "exp", "sigmoid", "tanh", "erf", "swish", "gelu", "gelu-tanh", "hard-sigmoid", "hard-swish",
	"sqrt", "round", "add-scalar", "mul-scalar", "div-scalar", "scalar-sub", "scalar-div",
	"row-max", "row-sum", "row-squares", "row-exp", "normalize",
	"gemm-u8s8", "depthwise-u8s8", "scale-u8", "scale-f32", "shift-u8",
	"add-codes", "add-fused", "to-codes", "to-codes-away", "from-codes", "max-codes",
	"groups8", "groups4", "groups-float8", "groups-float4", "quantize-groups", "combine", "gram", "units"}

func (op Op) String() string { return opNames[op] }

// Row is one implementation of one inner operation.
type Row struct {
	Name  string // op-isa-tile, for example "gemm-avx512-14x32"
	Op    Op
	ISA   string // "go", "avx2", "avx512", "avxvnni", "avx512vnni", "amx", "neon", "neondot" or "saturating"
	Arith Arith  // of its sums; operations without float sums give the same bits in every row
	MR    int    // rows of the tile: positions
	NR    int    // columns of the tile: channels; also the width of a packed panel. Elementwise: any number, 0; observing: of a vector

	runs  func(cpu.Features) bool
	sound func() bool // false: on this processor it computes something else, and is not selected; may be nil
	tile  func(*tile)

	// Integer operations.
	layout layout8
	tile8  func(*tile8)
	lines  func(rows, lda int) int // how many lines of so many rows tile8 takes at once; nil: one
	slide  [2]func(*tile8)         // depthwise tiles of 3x3 kernels by stride, for panels of slide8; may be nil
	store  func(*outTile)
	codes  func(*codes8)

	// Products of groups.
	groups   func(*groupTile)
	many     func(*groupTile)      // of up to manyRows rows of activations, each in one piece; may be nil
	quantize func(*groupQuantizer) // may be nil

	gram  func(*gramTile)  // nil for plain Go
	units func(*unitsTile) // nil for plain Go
}

// Runs reports whether a processor with features f can execute the row.
func (r Row) Runs(f cpu.Features) bool { return r.runs == nil || r.runs(f) }

// Rows lists the rows of this build, best first within each operation, plain Go last. A row that needs a feature the running
// processor lacks is listed too.
func Rows() []Row { return slices.Clone(rows()) }

// listed is the list, made once: a table is selected for each tensor that is observed.
var listed struct {
	sync.Once
	rows []Row
}

func rows() []Row {
	listed.Do(func() {
		listed.rows = slices.Concat(vectorRows(), vectorMathRows(), vectorInt8Rows(), vectorCodesRows(), vectorGroupsRows(), vectorGramRows(),
			vectorUnitsRows(), goRows, goMathRows, goRowRows, goInt8Rows, goCodesRows, goGroupsRows, goGramRows, goUnitsRows)
	})
	return listed.rows
}

var goRows = []Row{
	{Name: "gemm-go-4x4", Op: OpGemm, ISA: "go", Arith: ref.Float32, MR: 4, NR: 4, tile: one(goGemm)},
	{Name: "depthwise-go-8x4", Op: OpDepthwise, ISA: "go", Arith: ref.Float32, MR: 8, NR: 4, tile: columns(4, goDepthwise)},
	{Name: "max-window-go-8x16", Op: OpMaxWindow, ISA: "go", Arith: ref.Float32, MR: 8, NR: 16, tile: goMaxWindow},
	{Name: "sum-window-go-8x16", Op: OpSumWindow, ISA: "go", Arith: ref.Float32, MR: 8, NR: 16, tile: goSumWindow},
	{Name: "add-go", Op: OpAdd, ISA: "go", Arith: ref.Float32, tile: goAdd},
	{Name: "sub-go", Op: OpSub, ISA: "go", Arith: ref.Float32, tile: goSub},
	{Name: "mul-go", Op: OpMul, ISA: "go", Arith: ref.Float32, tile: goMul},
	{Name: "div-go", Op: OpDiv, ISA: "go", Arith: ref.Float32, tile: goDiv},
	{Name: "limit-go", Op: OpLimit, ISA: "go", Arith: ref.Float32, tile: goLimit},
	{Name: "fake-go", Op: OpFake, ISA: "go", Arith: ref.Float32, tile: goFake},
	{Name: "min-max-go", Op: OpMinMax, ISA: "go", Arith: ref.Float32, NR: 1, tile: goMinMax},
	{Name: "channel-min-max-go", Op: OpChannelMinMax, ISA: "go", Arith: ref.Float32, NR: 1, tile: goChannelMinMax},
	{Name: "bins-go", Op: OpBins, ISA: "go", Arith: ref.Float32, tile: goBins},
}

// Table is a choice of one row for every operation. It is immutable and may be shared.
type Table struct {
	rows   [opCount]Row
	jobs   *jobs
	pools8 *pools8
	spare  *sync.Pool // of *rowArgs
}

// Select returns the fastest rows that a processor with features f executes. The sums of products of one table all have the
// same arithmetic, that of Arith.
func Select(f cpu.Features) *Table {
	t := &Table{jobs: new(jobs), pools8: new(pools8), spare: new(sync.Pool)}
	for _, r := range rows() {
		if t.rows[r.Op].Name == "" && r.Runs(f) && (r.sound == nil || r.sound()) {
			t.rows[r.Op] = r
		}
	}
	return t
}

// Float64 returns the table whose sums are accumulated in float64 and rounded once per output element. It is slow and serves
// comparisons.
func Float64() *Table {
	t := Select(cpu.Features{})
	t.rows[OpGemm] = Row{Name: "gemm-go64-4x4", Op: OpGemm, ISA: "go", Arith: ref.Float64, MR: 4, NR: 4, tile: one(goGemm64)}
	t.rows[OpDepthwise] = Row{Name: "depthwise-go64-8x4", Op: OpDepthwise, ISA: "go", Arith: ref.Float64, MR: 8, NR: 4,
		tile: columns(4, goDepthwise64)}
	return t
}

// With returns the table that has r in place of the row of its operation, to compare rows. The arithmetic of its sums may then
// differ from operation to operation.
func (t *Table) With(r Row) *Table {
	other := *t
	other.rows[r.Op] = r
	return &other
}

// Rows lists the rows of the table in the order of the operations.
func (t *Table) Rows() []Row { return t.rows[:] }

// Arith returns the arithmetic of the table's sums of products. Average pools add in float64 too where it is Float64.
func (t *Table) Arith() Arith { return t.rows[OpGemm].Arith }
