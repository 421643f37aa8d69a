package cuda_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/cudatest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
	"qwb/kernels/cuda/driver"
	"qwb/kernels/cuda/emulate"
	"qwb/kernels/qmath"
	"qwb/kernels/ref"
)

// warpgroupTiles runs a test for each tile that only compute capability 9.0 has, on an interpreted device of it and on a GPU that has
// it. Other tests do without the former: what its other kernels compute they see on that of 8.0.
func warpgroupTiles(t *testing.T, test func(t *testing.T, d *cuda.Device, tile cuda.Tile)) {
	t.Helper()
	cudatest.On(t, []int{90}, func(t *testing.T, d *cuda.Device) {
		if d.Arch != 90 {
			t.Skipf("does not apply: compute capability %d", d.Arch)
		}
		n := 0
		for _, tile := range cuda.Tiles() {
			if !tile.On(80) {
				n++
				t.Run(tile.Name, func(t *testing.T) { test(t, d, tile) })
			}
		}
		require.Equal(t, 4, n)
	})
}

// TestWarpgroupTiles multiplies matrices of sizes around those of the tiles, of short and long sums, in one slice and in several.
func TestWarpgroupTiles(t *testing.T) {
	warpgroupTiles(t, func(t *testing.T, d *cuda.Device, tile cuda.Tile) {
		r := rand.New(rand.NewPCG(21, 22))
		for i, c := range []struct{ m, n, k, splits int }{
			{1, 1, 16, 1}, {tile.M, tile.N, 64, 1}, {tile.M + 1, tile.N + 1, 80, 1}, {3, 20, 768, 3}, {tile.M - 3, 2*tile.N - 4, 144, 2},
			{100, 200, 1040, 1}, {70, 300, 128, 1}, {2*tile.M + 5, 12, 256, 1}, {130, 130, 1296, 1}, {5, 33, 640, 1}, {64, 129, 512, 4},
		} {
			if c.m*c.n*c.k > 1<<24 && cudatest.Omissions == nil && !longtest.Wanted(t) {
				continue // a second each on an interpreted device
			}
			op := cuda.LinearOp{Left: rowMajor(nil, c.m, c.k), Right: rowMajor(nil, c.k, c.n), Method: "product", Tile: tile.Name, Splits: c.splits}
			op.X = someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8}[i%2])
			randomWeights(r, &op, c.k*c.n, c.n, i%4)
			outputs(r, t, &op, named(t, []string{"ort", "tflite2"}[i/2%2]), []cuda.Element{cuda.Uint8, cuda.Int8}[i%2])
			l := check(t, d, r, op, fmt.Sprintf("%s, %+v", tile.Name, c))
			assert.True(t, strings.HasPrefix(l.Method(), "product "+tile.Name), l.Method())
			assert.Equal(t, c.splits > 1, strings.Contains(l.Method(), "slices"), l.Method())
		}
	})
}

// TestWarpgroupExtremes: the largest sums of codes of all types, so that a wrong sign is seen.
func TestWarpgroupExtremes(t *testing.T) {
	warpgroupTiles(t, func(t *testing.T, d *cuda.Device, tile cuda.Tile) {
		r := rand.New(rand.NewPCG(23, 24))
		for _, e := range []cuda.Element{cuda.Int8, cuda.Uint8} {
			for _, w := range []int32{-128, 127} {
				op := cuda.LinearOp{Left: rowMajor(nil, 3, 2048), Right: rowMajor(nil, 2048, 5), Method: "product", Tile: tile.Name}
				lo, hi := limits(e)
				op.X = cuda.Codes{Type: e, Zero: []int32{lo, hi}[r.IntN(2)]}
				for range 2048 * 5 {
					op.Weights = append(op.Weights, w)
				}
				outputs(r, t, &op, named(t, "ort"), cuda.Float32)
				op.Outputs[0].RealLo, op.Outputs[0].RealHi = -1e9, 1e9
				check(t, d, r, op, fmt.Sprintf("%s by %d", e, w))
			}
		}
	})
}

// TestWarpgroupWindows: convolutions with padding, strides, dilation, groups and three axes, with residuals and several outputs.
func TestWarpgroupWindows(t *testing.T) {
	warpgroupTiles(t, func(t *testing.T, d *cuda.Device, tile cuda.Tile) {
		r := rand.New(rand.NewPCG(25, 26))
		for i, s := range []ref.ConvShape{
			{N: 2, H: 5, W: 6, C: 16, M: 20, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 6},
			{N: 1, H: 9, W: 7, C: 32, M: 8, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 4},
			{N: 2, H: 4, W: 4, C: 48, M: 12, KH: 1, KW: 1, OutH: 4, OutW: 4},
			{N: 1, H: 6, W: 6, C: 30, M: 9, KH: 2, KW: 3, DilH: 2, DilW: 2, PadTop: 1, PadLeft: 2, OutH: 5, OutW: 5},
			{N: 1, D: 4, H: 4, W: 3, C: 16, M: 8, KD: 2, KH: 3, KW: 2, StrideD: 2, PadFront: 1, PadTop: 1, OutD: 2, OutH: 3, OutW: 2},
			{N: 1, H: 5, W: 5, C: 32, M: 32, Group: 2, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 5, OutW: 5},
			{N: 3, H: 12, W: 11, C: 64, M: 132, KH: 3, KW: 3, PadTop: 1, PadLeft: 1, OutH: 12, OutW: 11},
			{N: 1, H: 7, W: 7, C: 128, M: 260, KH: 1, KW: 1, StrideH: 2, StrideW: 2, OutH: 4, OutW: 4},
		} {
			if i >= 6 && cudatest.Omissions == nil && !longtest.Wanted(t) {
				continue // of several tiles: a second each on an interpreted device
			}
			for k := range 2 {
				full := s.Full()
				op := cuda.LinearOp{Window: &s, Method: "product", Tile: tile.Name, Splits: 1 + i%2*k}
				op.X = someCodes(r, []cuda.Element{cuda.Uint8, cuda.Int8}[(i+k)%2])
				randomWeights(r, &op, full.WeightLen(), full.M, (i+2*k)%4)
				types := [][]cuda.Element{{cuda.Int8}, {cuda.Uint8}, {cuda.Float32}, {cuda.Int8, cuda.Float32}}[(i+k)%4]
				profile := named(t, []string{"ort", "trt", "onnx", "tflite2"}[i%4])
				if profile.FusesAdd() {
					op.Adds, op.Residual = true, []cuda.Element{cuda.Uint8, cuda.Int8}[k]
				}
				outputs(r, t, &op, profile, types...)
				check(t, d, r, op, fmt.Sprintf("window %d, %d", i, k))
			}
		}
	})
}

// TestWarpgroupStacks: matrices of a stack, and a right factor that is a tensor and packed on the device.
func TestWarpgroupStacks(t *testing.T) {
	warpgroupTiles(t, func(t *testing.T, d *cuda.Device, tile cuda.Tile) {
		r := rand.New(rand.NewPCG(27, 28))
		for i, c := range []struct{ stack, m, k, n int }{{1, 40, 96, 70}, {3, 17, 64, 33}, {2, tile.M + 2, 160, tile.N + 3}} {
			op := cuda.LinearOp{Left: rowMajor([]int{c.stack}, c.m, c.k), Right: rowMajor([]int{c.stack}, c.k, c.n), Method: "product",
				Tile: tile.Name}
			op.X = someCodes(r, []cuda.Element{cuda.Int8, cuda.Uint8}[i%2])
			op.Y = someCodes(r, []cuda.Element{cuda.Uint8, cuda.Int8}[i%2])
			outputs(r, t, &op, named(t, "ort"), cuda.Int8)
			check(t, d, r, op, fmt.Sprintf("%+v", c))
		}
	})
}

// oldDriver does not know PTX of version 8.4.
type oldDriver struct{ *emulate.Driver }

func (d oldDriver) ModuleLoad(c driver.Context, ptx []byte) (driver.Module, error) {
	if bytes.Contains(ptx, []byte("\n.version 8.4\n")) {
		return 0, &driver.Result{Code: driver.UnsupportedPTX, Call: "cuModuleLoadDataEx"}
	}
	return d.Driver.ModuleLoad(c, ptx)
}

// TestWarpgroupTilesAreChosen: what is large is computed so, and nothing else, and nothing where the driver cannot.
func TestWarpgroupTilesAreChosen(t *testing.T) {
	d := cudatest.Device(t, 90)
	r := rand.New(rand.NewPCG(29, 30))
	method := func(m, n, k int) string {
		t.Helper()
		op := cuda.LinearOp{Left: rowMajor(nil, m, k), Right: rowMajor(nil, k, n), X: someCodes(r, cuda.Int8)}
		randomWeights(r, &op, k*n, n, 0)
		outputs(r, t, &op, named(t, "ort"), cuda.Int8)
		l, err := d.NewLinear(op)
		require.NoError(t, err)
		return l.Method()
	}
	assert.Equal(t, "product wgmma_192x256 plain", method(8192, 512, 1024))
	assert.Equal(t, "product wgmma_256x128 plain", method(16384, 128, 1024))
	for _, c := range [][3]int{{1, 1024, 1024}, {8192, 32, 512}, {8192, 256, 16}} {
		assert.NotContains(t, method(c[0], c[1], c[2]), "wgmma", c)
	}
	var err error
	d, err = cuda.OpenOn(oldDriver{emulate.New(90)}, 0)
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close()) }()
	assert.Equal(t, "product 256x128 plain", method(8192, 512, 1024))
	_, err = d.NewLinear(cuda.LinearOp{Left: rowMajor(nil, 1, 16), Right: rowMajor(nil, 16, 1), Weights: make([]int32, 16), Method: "product",
		Tile: "wgmma_256x128", Outputs: []cuda.LinearOut{{Type: cuda.Float32, Channels: make([]qmath.Channel, 1)}}})
	assert.ErrorContains(t, err, "cuModuleLoadDataEx", "asked for by name")
}

// changingDriver loads other PTX than it is given, and says whether it did.
type changingDriver struct {
	*emulate.Driver
	old, fresh string
	changed    *bool
}

func (d changingDriver) ModuleLoad(c driver.Context, ptx []byte) (driver.Module, error) {
	if bytes.Contains(ptx, []byte("wgmma")) && bytes.Contains(ptx, []byte(d.old)) {
		*d.changed = true
		ptx = bytes.ReplaceAll(ptx, []byte(d.old), []byte(d.fresh))
	}
	return d.Driver.ModuleLoad(c, ptx)
}

// TestWarpgroupKernelsNeedEverything: without any of their fences, waits and barriers the kernels are found to be wrong, by a fault or
// by their sums.
func TestWarpgroupKernelsNeedEverything(t *testing.T) {
	const m, n, k = 40, 30, 1024
	r := rand.New(rand.NewPCG(31, 32))
	op := cuda.LinearOp{Left: rowMajor(nil, m, k), Right: rowMajor(nil, k, n), X: cuda.Codes{Type: cuda.Int8}, Method: "product", Splits: 1}
	randomWeights(r, &op, k*n, n, 0)
	outputs(r, t, &op, named(t, "ort"), cuda.Float32)
	op.Outputs[0].RealLo, op.Outputs[0].RealHi = -1e9, 1e9
	x := rawCodes(cuda.Int8, randomCodes(r, cuda.Int8, m*k))
	run := func(tile, old, fresh string) (out []byte, changed bool, err error) {
		d, err := cuda.OpenOn(changingDriver{emulate.New(90), old, fresh, &changed}, 0)
		require.NoError(t, err)
		defer func() { _ = d.Close() }() // it fails again where the kernel did
		op.Tile = tile
		l, err := d.NewLinear(op)
		require.NoError(t, err)
		s, err := d.NewStream()
		require.NoError(t, err)
		put := func(b []byte) cuda.Buffer {
			buf, err := d.Alloc(max(len(b), 1))
			require.NoError(t, err)
			require.NoError(t, s.Upload(buf, b))
			return buf
		}
		out = make([]byte, 4*m*n)
		a := cuda.LinearArgs{X: put(x), Constants: put(l.Constants()), Workspace: put(make([]byte, l.WorkspaceBytes())),
			Outputs: []cuda.Buffer{put(out)}}
		if err = l.Launch(s, a); err != nil {
			return nil, changed, err
		}
		require.NoError(t, s.Download(out, a.Outputs[0]))
		return out, changed, s.Synchronize()
	}
	for _, tile := range []string{"wgmma_192x256", "wgmma_128x256", "wgmma_256x128", "wgmma_128x128"} {
		right, _, err := run(tile, "", "")
		require.NoError(t, err)
		for _, c := range [][3]string{
			{"fence.proxy.async.shared::cta;", "", "with no fence.proxy.async"},
			{"wgmma.fence.sync.aligned;", "", "with no wgmma.fence"},
			{"cp.async.wait_group 1;", "cp.async.wait_group 2;", "that nothing has waited for"},
			{"bar.sync \t0;", "", "nothing has written"},
			{"wgmma.commit_group.sync.aligned;", "", ""},
			{"wgmma.wait_group.sync.aligned 1;", "", "while it was under way"},
			{"wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;", "ends a product that reads"},
			{"wgmma.wait_group.sync.aligned 0;", "", ""},
			{"m64n256k32.s32.s8.s8", "m64n256k32.s32.u8.s8", ""},
			{"m64n128k32.s32.s8.s8", "m64n128k32.s32.u8.s8", ""},
		} {
			got, changed, err := run(tile, c[0], c[1])
			if !changed {
				assert.Contains(t, c[0], "m64n", "%s has none", tile)
				continue
			}
			if c[2] != "" {
				assert.ErrorContains(t, err, c[2], "%s: %q is %q", tile, c[0], c[1])
				continue
			}
			if assert.NoError(t, err, "%s: %q is %q", tile, c[0], c[1]) {
				assert.NotEqual(t, right, got, "%s: %q is %q", tile, c[0], c[1])
			}
		}
	}
}
