package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// TestTiles: every tile multiplies matrices of sizes around its own, in one slice and in several.
func TestTiles(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, tile := range cuda.Tiles() {
			if !tile.On(d.Arch) {
				continue
			}
			for i, c := range []struct{ m, n, k, splits int }{
				{1, 1, 16, 1}, {tile.M, tile.N, 64, 1}, {tile.M + 1, tile.N + 1, 80, 1}, {3, 20, 768, 3}, {2, 24, 1536, 12},
				{tile.M - 3, 2*tile.N - 4, 144, 2},
			} {
				op := cuda.LinearOp{Left: rowMajor(nil, c.m, c.k), Right: rowMajor(nil, c.k, c.n), Method: "product", Tile: tile.Name, Splits: c.splits}
				op.X = someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8}[i%2])
				randomWeights(r, &op, c.k*c.n, c.n, 0)
				outputs(r, t, &op, named(t, []string{"ort", "tflite2"}[i/2%2]), []cuda.Element{cuda.Uint8, cuda.Int8}[i%2])
				check(t, d, r, op, fmt.Sprintf("%s, %+v", tile.Name, c))
			}
		}
	})
}

// TestWindows: convolutions of many kinds, by every way that can do them.
func TestWindows(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(3, 4))
		for i, c := range []struct {
			ref.ConvShape
			method, tile string
			splits       int
		}{
			{ConvShape: ref.ConvShape{N: 2, H: 5, W: 6, C: 16, M: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 6}},
			{ConvShape: ref.ConvShape{N: 1, H: 9, W: 7, C: 32, M: 8, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 4},
				splits: 2},
			{ConvShape: ref.ConvShape{N: 1, H: 12, W: 12, C: 3, M: 17, KH: 7, KW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3,
				OutH: 6, OutW: 6}},
			{ConvShape: ref.ConvShape{N: 1, H: 8, W: 8, C: 1, M: 4, KH: 5, KW: 5, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 2, H: 4, W: 4, C: 24, M: 12, KH: 1, KW: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 2, H: 4, W: 4, C: 48, M: 12, KH: 1, KW: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 1, H: 6, W: 6, C: 30, M: 9, KH: 2, KW: 3, DilH: 2, DilW: 2, PadTop: 1, PadLeft: 2, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 1, W: 40, C: 16, M: 16, KH: 1, KW: 5, StrideW: 3, PadLeft: 2, OutH: 1, OutW: 13}},
			{ConvShape: ref.ConvShape{N: 1, D: 4, H: 4, W: 3, C: 16, M: 8, KD: 2, KH: 3, KW: 2, StrideD: 2, PadFront: 1, PadTop: 1, OutD: 2,
				OutH: 3, OutW: 2}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 5, C: 32, M: 32, Group: 2, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 5, C: 24, M: 30, Group: 3, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 5, C: 12, M: 8, Group: 4, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 2, H: 6, W: 5, C: 20, M: 20, Group: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 2, H: 7, W: 9, C: 12, M: 12, Group: 12, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1,
				OutH: 4, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 3, W: 2, C: 4, M: 4, Group: 4, KH: 3, KW: 3, PadTop: 3, PadLeft: 2, OutH: 6, OutW: 7}},
			{ConvShape: ref.ConvShape{N: 1, H: 7, W: 6, C: 4, M: 4, Group: 4, KH: 3, KW: 3, DilH: 2, DilW: 2, PadTop: 1, PadLeft: 2,
				OutH: 5, OutW: 6}},
			{ConvShape: ref.ConvShape{N: 1, H: 4, W: 9, C: 8, M: 8, Group: 8, KH: 3, KW: 3, StrideH: 1, StrideW: 2, PadTop: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 1, H: 9, W: 9, C: 8, M: 8, Group: 8, KH: 5, KW: 5, StrideH: 2, StrideW: 2, PadTop: 2, PadLeft: 2,
				OutH: 5, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 6, W: 5, C: 8, M: 8, Group: 8, KH: 7, KW: 7, PadTop: 3, PadLeft: 3, OutH: 6, OutW: 5}},
			{ConvShape: ref.ConvShape{N: 1, H: 4, W: 5, C: 6, M: 6, Group: 6, KH: 3, KW: 2, PadTop: 1, OutH: 4, OutW: 4}},
			{ConvShape: ref.ConvShape{N: 1, H: 5, W: 6, C: 16, M: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 6}, method: "direct"},
			{ConvShape: ref.ConvShape{N: 1, H: 2, W: 2, C: 16, M: 5, KH: 3, KW: 3, PadTop: 4, PadLeft: 4, OutH: 8, OutW: 8}},
		} {
			for k := range 4 {
				s := c.Full()
				op := cuda.LinearOp{Window: &c.ConvShape, Method: c.method, Tile: c.tile, Splits: c.splits}
				op.X = someCodes(r, []cuda.Element{cuda.Uint8, cuda.Int8}[(i+k)%2])
				randomWeights(r, &op, s.WeightLen(), s.M, k)
				profile := named(t, []string{"ort", "trt", "tflite2", "onnx"}[(i+k)%4])
				if k == 3 && profile.FusesAdd() {
					op.Adds, op.Residual = true, cuda.Uint8
				}
				outputs(r, t, &op, profile, []cuda.Element{cuda.Int8, cuda.Uint8}[k%2])
				check(t, d, r, op, fmt.Sprintf("window %d, weights %d", i, k))
			}
		}
	})
}

// TestTransposedWindows: what only the direct kernel does.
func TestTransposedWindows(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(5, 6))
		for i, s := range []ref.ConvShape{
			{N: 2, H: 3, W: 4, C: 4, M: 3, KH: 3, KW: 2, StrideH: 2, StrideW: 3, OutH: 7, OutW: 11},
			{N: 1, H: 4, W: 4, C: 6, M: 4, Group: 2, KH: 4, KW: 4, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 8, OutW: 8},
			{N: 1, D: 2, H: 2, W: 3, C: 2, M: 2, KD: 2, KH: 2, KW: 2, StrideD: 2, DilW: 2, OutD: 4, OutH: 3, OutW: 5},
		} {
			for _, e := range []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Int16, cuda.Uint16} {
				full := s.Full()
				op := cuda.LinearOp{Window: &s, Transposed: true, X: someCodes(r, e), Wide: e.Size() == 2 && i == 1}
				randomWeights(r, &op, full.C*full.M/full.Group*full.KD*full.KH*full.KW, s.M, i+1)
				outputs(r, t, &op, named(t, []string{"tflite2", "trt", "pow2"}[i]), e)
				check(t, d, r, op, fmt.Sprintf("window %d of %s", i, e))
			}
		}
	})
}

// TestWideSums: activations of 16 bits, for every profile.
func TestWideSums(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(7, 8))
		for i, profile := range qmath.Profiles() {
			e := []cuda.Element{cuda.Int16, cuda.Uint16}[i%2]
			s := ref.ConvShape{N: 1, H: 4, W: 3, C: 10, M: 6, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 4, OutW: 3}
			op := cuda.LinearOp{Window: &s, X: someCodes(r, e), Wide: i%3 != 0}
			if profile.FusesAdd() {
				op.Adds, op.Residual = true, e
			}
			randomWeights(r, &op, s.WeightLen(), s.M, i%4)
			outputs(r, t, &op, profile, e)
			check(t, d, r, op, profile.Name)
		}
	})
}

// TestSaturatingSums: pairs of products in int16.
func TestSaturatingSums(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(9, 10))
		profile := named(t, "avx2-saturating")
		for i, s := range []ref.ConvShape{
			{N: 1, H: 4, W: 5, C: 3, M: 7, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 4, OutW: 5},
			{N: 1, H: 4, W: 5, C: 16, M: 8, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 4, OutW: 5},
			{N: 1, H: 4, W: 5, C: 16, M: 8, Group: 2, KH: 1, KW: 1, OutH: 4, OutW: 5},
		} {
			op := cuda.LinearOp{Window: &s, X: someCodes(r, []cuda.Element{cuda.Uint8, cuda.Int8}[i%2]), Saturating: true}
			randomWeights(r, &op, s.WeightLen(), s.M, 0)
			outputs(r, t, &op, profile, op.X.Type)
			check(t, d, r, op, fmt.Sprintf("window %d", i))
		}
		op := cuda.LinearOp{Left: rowMajor(nil, 5, 33), Right: rowMajor(nil, 33, 9), X: someCodes(r, cuda.Uint8), Saturating: true}
		randomWeights(r, &op, 33*9, 9, 0)
		outputs(r, t, &op, profile, cuda.Uint8)
		check(t, d, r, op, "matrices")
	})
}

// More products than a launch takes are refused before anything is put on the device.
func TestTooManyProducts(t *testing.T) {
	d := cudatest.Device(t, 80)
	op := cuda.LinearOp{Left: rowMajor([]int{70000}, 1, 4), Right: rowMajor([]int{70000}, 4, 1), X: cuda.Codes{Type: cuda.Int8},
		Y:       cuda.Codes{Type: cuda.Int8},
		Outputs: []cuda.LinearOut{{Type: cuda.Int32}}}
	_, err := d.NewLinear(op)
	require.ErrorContains(t, err, "70000 products of matrices are too many for one step")
}

// Tiles that are chosen by measuring compute the same.
func TestMeasureTiles(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		d.MeasureTiles = true
		r := rand.New(rand.NewPCG(21, 22))
		op := cuda.LinearOp{Left: rowMajor(nil, 40, 64), Right: rowMajor(nil, 64, 24), X: someCodes(r, cuda.Int8)}
		randomWeights(r, &op, 64*24, 24, 1)
		outputs(r, t, &op, qmath.Profiles()[0], cuda.Int8)
		check(t, d, r, op, "measured")
	})
}

// TestStacks: products of two tensors, with stacks that broadcast, either side transposed.
func TestStacks(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(11, 12))
		for i, c := range []struct {
			left, right    []int
			m, k, n        int
			transA, transB bool
			constant       bool
			x, y           cuda.Element
			method         string
		}{
			{left: []int{2, 3}, right: []int{2, 3}, m: 20, k: 32, n: 20},
			{left: []int{2, 3}, right: []int{2, 3}, m: 20, k: 32, n: 20, transB: true, x: cuda.Uint8, y: cuda.Uint8},
			{left: []int{2, 3}, right: []int{3}, m: 7, k: 30, n: 9, y: cuda.Uint8},
			{left: []int{1, 3}, right: []int{2, 1}, m: 7, k: 36, n: 12, x: cuda.Uint8},
			{left: []int{4}, right: nil, m: 5, k: 17, n: 33},
			{left: []int{4}, right: nil, m: 5, k: 16, n: 8, constant: true},
			{left: []int{2}, right: []int{2}, m: 5, k: 48, n: 8, constant: true, x: cuda.Uint8},
			{left: nil, right: []int{3}, m: 5, k: 20, n: 8, constant: true, transB: true},
			{left: nil, right: nil, m: 19, k: 70, n: 8, transA: true, constant: true},
			{left: []int{2}, right: []int{2}, m: 6, k: 35, n: 10, transA: true, transB: true, y: cuda.Uint8},
			{left: nil, right: nil, m: 1, k: 100, n: 1, constant: true},
			{left: nil, right: nil, m: 130, k: 1, n: 3, constant: true},
			{left: []int{2}, right: []int{2}, m: 6, k: 35, n: 10, x: cuda.Int16, y: cuda.Int16},
			{left: []int{2}, right: []int{1}, m: 6, k: 35, n: 10, x: cuda.Uint16, y: cuda.Int8},
			{left: []int{2}, right: []int{2}, m: 6, k: 5, n: 10, x: cuda.Uint8, y: cuda.Uint8, method: "direct"},
			{left: nil, right: nil, m: 4, k: 0, n: 5, constant: true},
		} {
			op := cuda.LinearOp{Left: rowMajor(c.left, c.m, c.k), Right: rowMajor(c.right, c.k, c.n), X: someCodes(r, c.x), Method: c.method}
			if c.transA {
				op.Left.ByRow, op.Left.ByCol = 1, c.m
			}
			if c.transB {
				op.Right.ByRow, op.Right.ByCol = 1, c.k
			}
			if c.constant {
				stack := 1
				for _, n := range c.right {
					stack *= n
				}
				randomWeights(r, &op, stack*c.k*c.n, c.n, i%4)
				if op.Weights == nil {
					op.Weights = []int32{}
				}
			} else {
				op.Y = someCodes(r, c.y)
			}
			for k, profile := range []qmath.Profile{named(t, "ort"), named(t, "tflite1"), named(t, "onnx")} {
				op := op
				op.Outputs = nil
				outputs(r, t, &op, profile, [][]cuda.Element{{cuda.Int8}, {cuda.Uint8, cuda.Int16}, {cuda.Float32}}[k]...)
				check(t, d, r, op, fmt.Sprintf("stack %d, %s", i, profile.Name))
			}
		}
	})
}

// TestEpilogues: every profile, several outputs, real ones, residuals, rows that are further apart, with products in slices and not.
func TestEpilogues(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(13, 14))
		for i, profile := range qmath.Profiles() {
			for k, types := range [][]cuda.Element{{cuda.Uint8}, {cuda.Float32}, {cuda.Int8, cuda.Float32, cuda.Uint16}} {
				n := []int{24, 13, 8}[(i+k)%3]
				op := cuda.LinearOp{Left: rowMajor(nil, 33, 128), Right: rowMajor(nil, 128, n), X: someCodes(r, cuda.Uint8), Splits: 1 + (i+k)%2}
				randomWeights(r, &op, 128*n, n, (i+k)%4)
				if profile.FusesAdd() && k != 1 {
					op.Adds, op.Residual = true, []cuda.Element{cuda.Uint8, cuda.Int8, cuda.Int16}[i%3]
				}
				outputs(r, t, &op, profile, types...)
				if i%2 == 0 {
					op.Outputs[0].Stride = n + 8
				}
				check(t, d, r, op, fmt.Sprintf("%s, %v", profile.Name, types))
			}
		}
	})
}

func TestLinearErrors(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(15, 16))
		good := func() cuda.LinearOp {
			op := cuda.LinearOp{Left: rowMajor(nil, 2, 16), Right: rowMajor(nil, 16, 4)}
			randomWeights(r, &op, 64, 4, 0)
			outputs(r, t, &op, named(t, "ort"), cuda.Int8)
			return op
		}
		for name, spoil := range map[string]func(op *cuda.LinearOp){
			"cannot be multiplied": func(op *cuda.LinearOp) { op.Left.Cols = 15 },
			"weights for":          func(op *cuda.LinearOp) { op.Weights = op.Weights[1:] },
			"without outputs":      func(op *cuda.LinearOp) { op.Outputs = nil },
			"type float32":         func(op *cuda.LinearOp) { op.X.Type = cuda.Float32 },
			"no tile":              func(op *cuda.LinearOp) { op.Tile = "1x1" },
			"no method":            func(op *cuda.LinearOp) { op.Method = "guess" },
			"wider than 8 bits":    func(op *cuda.LinearOp) { op.Weights[0] = 1000 },
			"no multipliers":       func(op *cuda.LinearOp) { op.Outputs[0].Multipliers = nil },
			"elements apart":       func(op *cuda.LinearOp) { op.Outputs[0].Stride = 3 },
			"depthwise":            func(op *cuda.LinearOp) { op.Method = "depthwise" },
		} {
			op := good()
			spoil(&op)
			_, err := d.NewLinear(op)
			assert.ErrorContains(t, err, name)
		}
		l, err := d.NewLinear(good())
		require.NoError(t, err)
		assert.Error(t, l.Launch(nil, cuda.LinearArgs{}))
	})
}

// TestRandomLinears: windows, matrices and outputs as chance has them.
func TestRandomLinears(t *testing.T) {
	count := 120
	if !longtest.Wanted(t) {
		count = 20
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		profiles := qmath.Profiles()
		for seed := range uint64(count) {
			r := rand.New(rand.NewPCG(seed, 17))
			profile := profiles[r.IntN(len(profiles))]
			op := cuda.LinearOp{X: someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Uint8, cuda.Int16}[r.IntN(4)])}
			if r.IntN(3) == 0 {
				randomMatrices(r, &op)
			} else {
				randomWindow(r, &op)
			}
			op.Wide = op.X.Type == cuda.Int16 && r.IntN(2) == 0
			op.Saturating = profile.Saturates && op.X.Type.Size() == 1 && op.Weights != nil && len(op.WeightZero) == 0 && !op.Transposed &&
				(op.Window == nil || op.Window.C == 1 || op.Window.Group != op.Window.C)
			if profile.FusesAdd() && r.IntN(2) == 0 {
				op.Adds, op.Residual = true, []cuda.Element{cuda.Int8, cuda.Uint8, cuda.Uint16}[r.IntN(3)]
			}
			types := []cuda.Element{[]cuda.Element{cuda.Int8, cuda.Uint8, cuda.Int16, cuda.Float32}[r.IntN(4)]}
			if r.IntN(4) == 0 {
				types = append(types, []cuda.Element{cuda.Uint16, cuda.Float32}[r.IntN(2)])
			}
			if r.IntN(3) == 0 {
				op.Splits = 1 + r.IntN(3)
			}
			outputs(r, t, &op, profile, types...)
			check(t, d, r, op, fmt.Sprintf("seed %d", seed))
		}
	})
}

func randomWindow(r *rand.Rand, op *cuda.LinearOp) {
	group := []int{1, 1, 1, 2, 3, 4, 8}[r.IntN(7)]
	s := ref.ConvShape{N: 1 + r.IntN(2), H: 1 + r.IntN(8), W: 1 + r.IntN(8), C: group * []int{1, 1, 2, 3, 4, 16, 32}[r.IntN(7)], Group: group,
		M: group * (1 + r.IntN(20)), KH: 1 + r.IntN(4), KW: 1 + r.IntN(4), StrideH: 1 + r.IntN(3), StrideW: 1 + r.IntN(2),
		DilH: 1 + r.IntN(2), DilW: 1 + r.IntN(2), PadTop: r.IntN(3), PadLeft: r.IntN(3)}
	if s.C == group && r.IntN(2) == 0 {
		s.M = group
	}
	s.OutH, s.OutW = 1+r.IntN(6), 1+r.IntN(6)
	op.Transposed = r.IntN(5) == 0
	full := s.Full()
	op.Window = &s
	randomWeights(r, op, full.M*full.C/full.Group*full.KD*full.KH*full.KW, s.M, r.IntN(4))
}

func randomMatrices(r *rand.Rand, op *cuda.LinearOp) {
	m, k, n := 1+r.IntN(70), 1+r.IntN(100), 1+r.IntN(70)
	if r.IntN(2) == 0 {
		k = multipleOf(k, 16)
	}
	stacks := [][2][]int{{nil, nil}, {{3}, nil}, {nil, {2}}, {{2, 2}, {2, 2}}, {{2, 1}, {3}}}[r.IntN(5)]
	op.Left, op.Right = rowMajor(stacks[0], m, k), rowMajor(stacks[1], k, n)
	if r.IntN(4) == 0 {
		op.Left.ByRow, op.Left.ByCol = 1, m
	}
	if r.IntN(2) == 0 {
		op.Right.ByRow, op.Right.ByCol = 1, k
	}
	if r.IntN(2) == 0 {
		op.Y = someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8}[r.IntN(2)])
		return
	}
	count := k * n
	for _, d := range stacks[1] {
		count *= d
	}
	randomWeights(r, op, count, n, r.IntN(4))
}

func multipleOf(n, to int) int { return (n + to - 1) / to * to }

// TestLargeLinears: products and windows of the sizes that networks have, where a GPU computes them; small ones on the interpreter.
func TestLargeLinears(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(19, 20))
		products := [][3]int{{2048, 1024, 1024}, {1000, 777, 2304}, {197, 3072, 768}, {1, 4096, 4096}}
		windows := []ref.ConvShape{
			{N: 2, H: 112, W: 112, C: 3, M: 64, KH: 7, KW: 7, StrideH: 2, StrideW: 2, PadTop: 3, PadLeft: 3, OutH: 56, OutW: 56},
			{N: 3, H: 56, W: 56, C: 64, M: 64, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 56, OutW: 56},
			{N: 3, H: 14, W: 14, C: 256, M: 256, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 14, OutW: 14},
			{N: 1, H: 7, W: 7, C: 512, M: 512, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 7, OutW: 7},
			{N: 2, H: 28, W: 28, C: 128, M: 128, Group: 32, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 28, OutW: 28},
			{N: 3, H: 56, W: 56, C: 144, M: 144, Group: 144, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 28, OutW: 28},
		}
		if d.Emulated {
			products = [][3]int{{150, 100, 208}}
			windows = []ref.ConvShape{{N: 1, H: 14, W: 14, C: 32, M: 64, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 14, OutW: 14}}
		}
		profile := named(t, "trt")
		for _, tile := range append(cuda.Tiles(), cuda.Tile{}) {
			if !tile.On(d.Arch) {
				continue
			}
			for i, p := range products {
				op := cuda.LinearOp{Left: rowMajor(nil, p[0], p[2]), Right: rowMajor(nil, p[2], p[1]), Tile: tile.Name, X: someCodes(r, cuda.Uint8)}
				randomWeights(r, &op, p[1]*p[2], p[1], i%4)
				op.Adds, op.Residual = i%2 == 0, cuda.Int8
				outputs(r, t, &op, profile, cuda.Int8)
				check(t, d, r, op, fmt.Sprintf("%s: %v", tile.Name, p))
			}
		}
		for i, s := range windows {
			op := cuda.LinearOp{Window: &s, X: someCodes(r, cuda.Int8), Adds: true, Residual: cuda.Uint8}
			randomWeights(r, &op, s.WeightLen(), s.M, i%2)
			outputs(r, t, &op, profile, cuda.Uint8)
			check(t, d, r, op, fmt.Sprintf("window %d", i))
		}
	})
}

// TestTune: a tile that was measured gives the same numbers; the same shapes are not measured again; what is no product in tiles
// stays as it is.
func TestTune(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(21, 22))
		s := ref.ConvShape{N: 1, H: 6, W: 6, C: 16, M: 24, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 6}
		window := cuda.LinearOp{Window: &s, X: someCodes(r, cuda.Uint8), Adds: true, Residual: cuda.Int8}
		randomWeights(r, &window, s.WeightLen(), s.M, 1)
		stack := cuda.LinearOp{Left: rowMajor([]int{2}, 9, 32), Right: rowMajor([]int{2}, 32, 20), X: someCodes(r, cuda.Int8),
			Y: someCodes(r, cuda.Uint8)}
		for i, op := range []cuda.LinearOp{window, stack} {
			outputs(r, t, &op, named(t, "trt"), cuda.Uint8)
			op.Outputs[0].Stride = 32
			best, err := d.Tune(op)
			require.NoError(t, err)
			assert.NotEmpty(t, best.Tile, i)
			assert.NotZero(t, best.Splits, i)
			check(t, d, r, best, fmt.Sprintf("tuned %d", i))
			again, err := d.Tune(op)
			require.NoError(t, err)
			assert.Equal(t, []any{best.Tile, best.Splits}, []any{again.Tile, again.Splits})
		}
		op := cuda.LinearOp{Left: rowMajor(nil, 4, 8), Right: rowMajor(nil, 8, 4), X: cuda.Codes{Type: cuda.Int16}}
		randomWeights(r, &op, 32, 4, 0)
		outputs(r, t, &op, named(t, "ort"), cuda.Int16)
		same, err := d.Tune(op)
		require.NoError(t, err)
		assert.Empty(t, same.Tile)
		op.Outputs = nil
		_, err = d.Tune(op)
		assert.Error(t, err)
	})
}

// TestTiledWindows: every tile with windows whose pixels have a multiple of 16 bytes, and with such that have one of 4, of both types of
// codes, with sums that take more steps than a ring has stages.
func TestTiledWindows(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		r := rand.New(rand.NewPCG(31, 32))
		for _, tile := range cuda.Tiles() {
			if !tile.On(d.Arch) || !tile.On(80) {
				continue
			}
			for _, s := range []ref.ConvShape{
				{N: 1, H: 6, W: 7, C: 48, M: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 6, OutW: 7},
				{N: 1, H: 6, W: 7, C: 12, M: 20, KH: 7, KW: 7, PadTop: 3, PadLeft: 3, OutH: 6, OutW: 7},
			} {
				if s.C%16 != 0 && (tile.M < 64 || tile.N > 64) {
					continue // such tiles have no kernels for it
				}
				for _, e := range []cuda.Element{cuda.Uint8, cuda.Int8} {
					op := cuda.LinearOp{Window: &s, Method: "product", Tile: tile.Name, Splits: 1}
					op.X = someCodes(r, e)
					randomWeights(r, &op, s.Full().WeightLen(), s.M, 1)
					outputs(r, t, &op, named(t, "ort"), cuda.Int8)
					l := check(t, d, r, op, fmt.Sprintf("%s, %d channels, type %d", tile.Name, s.C, e))
					assert.Contains(t, l.Method(), "product "+tile.Name)
				}
			}
		}
	})
}
