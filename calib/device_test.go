package calib_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/calib/gpu"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/passes"
	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/internal/demo"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
	"qwb/quantizer/tqc"
)

// requireSame requires the statistics of a run on a device to be those of the processor, and the check to say so.
func requireSame(t *testing.T, d *cuda.Device, g *graph.Graph, samples []*exec.Sample, cfg calib.Config) {
	t.Helper()
	want := run(t, g, samples, cfg)
	var check calib.Check
	cfg.Device, cfg.Check = gpu.On(d), &check
	before := d.PoolStats().Buffers
	got := run(t, g, samples, cfg)
	require.Equal(t, before, d.PoolStats().Buffers, "all memory was given back")
	require.Equal(t, calib.Check{Sample: samples[0].Name, Tensors: len(want.Names()), Equal: len(want.Names()),
		Different: []calib.Difference{}}, check)
	for _, name := range want.Names() {
		require.NotNil(t, got.Tensor(name), name)
		a, _ := want.Tensor(name).State.MarshalBinary()
		b, _ := got.Tensor(name).State.MarshalBinary()
		require.True(t, bytes.Equal(a, b), "%s: %v and %v", name, want.Tensor(name).State.Extent(), got.Tensor(name).State.Extent())
		require.Equal(t, want.Tensor(name).Halves, got.Tensor(name).Halves, name)
	}
	require.True(t, bytes.Equal(encoded(t, want), encoded(t, got)))
	require.Equal(t, want.HasSums(), got.HasSums())
}

// Statistics of a device are those of the processor, every byte, in batches or not.
func TestDevice(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		g, samples := parse(t, network), images(12, 9)
		for _, cfg := range []calib.Config{{}, {Batch: 3, Model: "m"}, {MinMaxOnly: true}, {MinMaxOnly: true, Batch: 2, Threads: 2}} {
			requireSame(t, d, g, samples, cfg)
			summed := 0
			for _, id := range g.Nodes() {
				if run(t, g, samples, cfg).Sums(g.Node(id).Name) != nil {
					summed++
				}
			}
			require.Equal(t, cfg.MinMaxOnly, summed == 0, "sums are among what is compared")
		}
	})
}

// Whatever rows, channels and values are like.
func TestDeviceShapes(t *testing.T) {
	inf := float32(math.Inf(1))
	wild := func(seed uint64, shape ...int) []*exec.Sample {
		r := rand.New(rand.NewPCG(seed, 7))
		var list []*exec.Sample
		for i := range 3 {
			x := graphtest.Normal(seed+uint64(i), shape...).F32()
			for k := range x {
				x[k] *= float32(math.Ldexp(1, 8*i))
				switch r.IntN(9) {
				case 0:
					x[k] = []float32{0, float32(math.Copysign(0, -1)), 1e-40, -1e-41, 1e-30}[r.IntN(5)]
				case 1:
					x[k] = []float32{inf, -inf, math.MaxFloat32, 6}[r.IntN(4)]
				}
			}
			list = append(list, sampleOf(fmt.Sprint(i), x, shape...))
		}
		return list
	}
	normal := func(seed uint64, shape ...int) (list []*exec.Sample) {
		for i := range 4 {
			list = append(list, sampleOf(fmt.Sprint(i), graphtest.Normal(seed+uint64(i), shape...).F32(), shape...))
		}
		return list
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for name, c := range map[string]struct {
			text    string
			samples []*exec.Sample
			cfg     calib.Config
		}{
			"values of all kinds": {"opset 17\ninput x: f32[1,5,7]\ny = Relu(x)\nz = Clip(y, lo, hi)\nconst lo: f32[] = 0\nconst hi: f32[] = 6\n" +
				"output z", wild(1, 1, 5, 7), calib.Config{}},
			"vectors": {"opset 17\ninput x: f32[N]\ny = Relu(x)\noutput y", wild(2, 33), calib.Config{}},
			"rows that are the whole": {"opset 11\ninput x: f32[1,4,3,2]\ny = Softmax(x) {axis=1}\noutput y", normal(3, 1, 4, 3, 2),
				calib.Config{Batch: 2}},
			"flattened rows": {"opset 11\ninput x: f32[2,4,3,2]\ny = Softmax(x) {axis=2}\noutput y", normal(4, 2, 4, 3, 2),
				calib.Config{}},
			"rows of channels": {"opset 17\ninput x: f32[1,4,3,2]\ny = Softmax(x) {axis=1}\noutput y", normal(5, 1, 4, 3, 2),
				calib.Config{}},
			"rows behind a convolution":   {softmaxOf(17, "axis=1"), normal(6, 1, 3, 5, 5), calib.Config{Batch: 2}},
			"flattened behind one":        {softmaxOf(11, "axis=2"), normal(7, 1, 3, 5, 5), calib.Config{}},
			"the last axis behind one":    {softmaxOf(17, "axis=-1"), normal(8, 1, 3, 5, 5), calib.Config{}},
			"more channels than are kept": {"opset 17\ninput x: f32[1,8200]\ny = Relu(x)\noutput y", normal(9, 1, 8200), calib.Config{}},
			"channels that are not always as many": {"opset 17\ninput x: f32[1,C,3]\ny = Relu(x)\noutput y",
				append(normal(10, 1, 4, 3), normal(20, 1, 5, 3)...), calib.Config{}},
			"shapes that are not always the same": {"opset 17\ninput x: f32[1,2,L]\ny = Relu(x)\noutput y",
				append(normal(11, 1, 2, 3), normal(21, 1, 2, 70)...), calib.Config{}},
			"no rows to tell": {"opset 17\ninput x: f32[4,1]\ny = Softmax(x)\noutput y", normal(12, 4, 1), calib.Config{}},
			"integers beside": {"opset 17\ninput x: f32[1,6]\ni = Shape(x)\nf = Cast(i) {to=1}\ny = Mul(x, m)\nm = ReduceMax(f) {axes=[0]}\n" +
				"output y", normal(13, 1, 6), calib.Config{}},
		} {
			t.Run(name, func(t *testing.T) { requireSame(t, d, parse(t, c.text), c.samples, c.cfg) })
		}
	})
}

func softmaxOf(opset int, attributes string) string {
	return fmt.Sprintf(`
opset %d
input x: f32[N,3,5,5]
const w: f32[4,3,3,3] = normal(seed=1, std=0.2)
c = Conv(x, w)
y = Softmax(c) {%s}
m = MaxPool(y) {kernel_shape=[2, 2]}
output m
`, opset, attributes)
}

// Splitting, order and interruptions leave no trace, whichever part ran where.
func TestDeviceAndProcessorShareAStatistics(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		g, samples := parse(t, network), images(12, 6)
		host := calib.Config{Model: "m", Preprocess: "p"}
		dev := host
		dev.Device = gpu.On(d)
		want := encoded(t, run(t, g, samples, host))
		ab, _, err := calib.Merge(run(t, g, samples[:2], host), run(t, g, samples[2:], dev))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, encoded(t, ab)))

		for _, at := range []int{0, 1, 5} {
			ctx, cancel := context.WithCancel(context.Background())
			part, err := calib.Run(ctx, g, &list{samples: samples, stop: func(i int) {
				if i == at {
					cancel()
				}
			}}, dev)
			cancel()
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, at, part.Samples(), "samples that have begun are finished")
			for _, cfg := range []calib.Config{host, dev} {
				cfg.Resume = part
				require.True(t, bytes.Equal(want, encoded(t, run(t, g, samples, cfg))), "interrupted at %d", at)
			}
		}
	})
}

// What ends a run on the processor ends it on a device, with the same words.
func TestDeviceErrors(t *testing.T) {
	good := sampleOf("fine.png", []float32{1, 2, 3, 4}, 1, 4)
	bad := sampleOf("bad.png", []float32{1, -2, -3, 4}, 1, 4)
	root := "input x: f32[N,4]\nr = Sqrt(x) \"root\"\ny = Relu(r)\noutput y"
	infinite := "input x: f32[N,4]\nconst w: f32[4] = [1, inf, 1, 1]\ny = Mul(x, w) \"scale\"\nz = Sub(y, y) \"minus\"\noutput z"
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for name, c := range map[string]struct {
			text    string
			samples []*exec.Sample
			batch   int
		}{
			"a result":              {root, []*exec.Sample{good, bad}, 1},
			"the second of a batch": {root, []*exec.Sample{good, good, good, bad}, 2},
			"an input":              {root, []*exec.Sample{sampleOf("in.npy", []float32{1, nan, 0, 0}, 1, 4)}, 1},
			"a parameter":           {infinite, []*exec.Sample{good}, 1},
		} {
			t.Run(name, func(t *testing.T) {
				g := parse(t, c.text)
				_, want := calib.Run(context.Background(), g, &list{samples: c.samples}, calib.Config{Batch: c.batch})
				require.Error(t, want)
				before := d.PoolStats().Buffers
				stats, err := calib.Run(context.Background(), g, &list{samples: c.samples},
					calib.Config{Batch: c.batch, Device: gpu.On(d), Check: new(calib.Check)})
				require.Nil(t, stats)
				require.EqualError(t, err, want.Error())
				require.Equal(t, before, d.PoolStats().Buffers)
			})
		}
	})
}

// A graph that mixes the samples of a batch is found out on the device too.
func TestDeviceTakesNoBatchThatMixes(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		text := "opset 13\ninput x: f32[N,6]\nm = ReduceMean(x) {axes=[0], keepdims=1}\ny = Sub(x, m)\noutput y\n"
		want, _ := bytesOf(t, text, []int{1, 6}, calib.Config{})
		got, warned := bytesOf(t, text, []int{1, 6}, calib.Config{Batch: 4, Device: gpu.On(d)})
		require.Len(t, warned, 1)
		require.Contains(t, warned[0].Text, "one at a time")
		require.True(t, bytes.Equal(want, got))
	})
}

// The memory that a device needs does not grow with the data.
func TestDeviceMemory(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		g := parse(t, network)
		peak := func(n int) int64 {
			most := int64(0)
			run(t, g, images(13, n), calib.Config{Device: gpu.On(d), Progress: func(int, int) { most = max(most, d.PoolStats().Allocated) }})
			return most
		}
		few := peak(2)
		require.Positive(t, few)
		require.Equal(t, few, peak(12))
	})
}

// Real networks: a sample of numbers like theirs.
func TestDeviceRealModels(t *testing.T) {
	longtest.Need(t, "trained networks on an interpreted device")
	for _, model := range [][]string{{"mnist", "mnist-8.onnx"}, {"mnist", "cnn_mnist_pytorch.onnx"}, {"mlperf-tiny", "pretrainedResnet.onnx"},
		{"mlperf-tiny", "kws_dequant_fp32.onnx"}, {"mlperf-tiny", "vww_96_float.onnx"}, {"mlperf-tiny", "ad01_fp32.onnx"},
		{"mlperf-tiny", "str_ww_dequant_fp32.onnx"}} {
		m, _, err := onnx.Open(testdata(t, append([]string{"models"}, model...)...))
		require.NoError(t, err)
		g := m.Graph
		_, err = passes.Run(context.Background(), g, passes.Normalize)
		require.NoError(t, err)
		s := &exec.Sample{Name: "normal", Feeds: map[string]*tensor.Tensor{}}
		for i, v := range g.Inputs {
			if g.Const(v) != nil {
				continue
			}
			var shape []int
			for _, d := range g.Value(v).Shape {
				shape = append(shape, max(int(d.N), 1))
			}
			s.Feeds[g.Value(v).Name] = graphtest.Normal(uint64(i), shape...)
		}
		t.Run(model[1], func(t *testing.T) {
			cudatest.Each(t, func(t *testing.T, d *cuda.Device) { requireSame(t, d, g, []*exec.Sample{s}, calib.Config{}) })
		})
	}
}

// The demo's network on the demo's pictures.
func TestDeviceDemo(t *testing.T) {
	m, _, err := onnx.Read(bytes.NewReader(demo.Model), int64(len(demo.Model)), nil)
	require.NoError(t, err)
	_, err = passes.Run(context.Background(), m.Graph, passes.Normalize)
	require.NoError(t, err)
	camera := demo.NewCamera()
	var samples []*exec.Sample
	for i := range 3 {
		shot, _ := camera.Shot(demo.Calibration, 1, i)
		s := sampleOf(fmt.Sprint(i), shot, 1, 1, demo.Size, demo.Size)
		s.Feeds = map[string]*tensor.Tensor{"image": s.Feeds["x"]}
		samples = append(samples, s)
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) { requireSame(t, d, m.Graph, samples, calib.Config{Batch: 2}) })
}

// A device that computes something else is found out on the first sample: here it runs another graph.
func TestCheckFindsAnotherForward(t *testing.T) {
	of := func(w string) *graph.Graph {
		return parse(t, "opset 17\ninput x: f32[1,4]\nconst w: f32[4] = "+w+"\ny = Mul(x, w) \"scale\"\nr = Relu(x)\noutput y\noutput r")
	}
	other := anotherGraph{gpu.On(cudatest.Device(t, 80)), of("[1, 1, 1, 1.25]")}
	var warned []tqc.Warning
	check := new(calib.Check)
	samples := []*exec.Sample{sampleOf("one", []float32{-2, 1, 2, 4}, 1, 4)}
	run(t, of("[1, 1, 1, 1]"), samples, calib.Config{Device: other, Check: check, Warn: func(w tqc.Warning) { warned = append(warned, w) }})
	require.Equal(t, &calib.Check{Sample: "one", Tensors: 3, Equal: 2,
		Different: []calib.Difference{{Tensor: "y", Extremes: 0.2, Moved: 0.25}}}, check)
	require.Len(t, warned, 1)
	require.Equal(t, "y", warned[0].Node)
	require.Equal(t, "the device's statistics of 1 of 3 tensors differ from the processor's on the first sample; here, the most: "+
		"0.2 of the largest magnitude in the extremes, 0.25 of the values in other bins", warned[0].Text)
}

// anotherGraph is a device that runs another graph than it is given.
type anotherGraph struct {
	calib.Device
	g *graph.Graph
}

func (d anotherGraph) OpenGraph(_ *graph.Graph, threads int) (calib.DeviceGraph, error) {
	return d.Device.OpenGraph(d.g, threads)
}

// gramNet reads rows in all ways: windows with padding, strides, dilation and groups, one per channel, transposed ones, matrices.
const gramNet = `opset 13
input x: f32[1,4,H,11]
const w1: f32[6,4,3,3] = normal(seed=1, std=0.2)
const w2: f32[6,1,3,5] = normal(seed=2, std=0.2)
const w3: f32[8,6,1,1] = normal(seed=3, std=0.2)
const w4: f32[4,4,2,3] = normal(seed=4, std=0.2)
const w5: f32[4,3,3,2] = normal(seed=5, std=0.2)
const w6: f32[9,7] = normal(seed=6, std=0.2)
const w7: f32[11,5] = normal(seed=7, std=0.2)
const shape: i64[2] = [9, -1]
c1 = Conv(x, w1) {pads=[1,1,1,1]} "c1"
r1 = Relu(c1)
c2 = Conv(r1, w2) {pads=[2,1,0,3], strides=[2,1], group=6} "c2"
c3 = Conv(r1, w3) {strides=[2,2]} "c3"
c4 = Conv(c3, w4) {dilations=[1,2], pads=[0,2,1,2], group=2} "c4"
t = ConvTranspose(c4, w5) {strides=[2,3], pads=[1,0,1,1]} "t"
q = MatMul(x, w7) "m"
f = Reshape(c1, shape)
g = Gemm(f, w6) {transA=1} "g"
output c2, t, q, g
`

// Gram statistics of a device are those of the processor, every byte: of inputs of several shapes, of some that are not finite, and however
// often the run is stopped and goes on.
func TestDeviceGrams(t *testing.T) {
	g := parse(t, gramNet)
	stats := func(samples []*exec.Sample) *calib.Stats { return run(t, g, samples, calib.Config{MinMaxOnly: true}) }
	sample := func(seed uint64, height int, odd float32) *exec.Sample {
		x := graphtest.Normal(seed, 1, 4, height, 11).F32()
		if odd != 0 {
			x[len(x)/2] = odd
		}
		s := sampleOf(fmt.Sprint(seed), x, 1, 4, height, 11)
		s.Hash[len(s.Hash)-1] = 0
		for exec.HeldOut(s.Hash) {
			s.Hash[len(s.Hash)-1]++
		}
		return s
	}
	var samples []*exec.Sample
	for i := range uint64(4) {
		samples = append(samples, sample(i, 9, 0))
	}
	ranges := stats(samples[:2]) // others have limited elements
	samples = append(samples, sample(4, 18, 0), sample(5, 9, float32(math.Inf(1))), sample(6, 9, 100))
	grams := func(t *testing.T, dev calib.Device, cuts ...int) map[string][]byte {
		passes, left, err := calib.GramPasses(g, ranges, 1<<30, 1, func(string) bool { return false })
		require.NoError(t, err)
		require.Empty(t, left)
		require.Len(t, passes, 1)
		var done calib.GramSamples
		for _, cut := range append(cuts, len(samples)) {
			done, err = calib.RunGrams(context.Background(), g, passes[0], &list{samples: samples[:cut]}, done, dev, 1, nil)
			require.NoError(t, err)
			require.Len(t, done.Summed, cut)
			done.Seen = 0
		}
		all := map[string][]byte{}
		limited, skipped := uint64(0), uint64(0)
		for _, op := range passes[0] {
			all[op.Node], err = op.Gram.MarshalBinary()
			require.NoError(t, err)
			limited, skipped = limited+op.Gram.Limited, skipped+op.Gram.Skipped
		}
		require.Positive(t, limited)
		require.Positive(t, skipped)
		return all
	}
	want := grams(t, nil)
	require.Len(t, want, 7)
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		before := d.PoolStats().Buffers
		require.Equal(t, want, grams(t, gpu.On(d)))
		require.Equal(t, want, grams(t, gpu.On(d), 2, 5))
		require.Equal(t, before, d.PoolStats().Buffers, "all memory was given back")
	})
}
