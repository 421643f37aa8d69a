package device_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/internal/graphtest"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/cuda"
	"qwb/kernels/ref"
)

// both runs a graph on a device and on the CPU and compares all values that nodes compute, bit for bit, and outputs without taps.
func both(t *testing.T, d *cuda.Device, g *graph.Graph, feeds map[string]*tensor.Tensor) *device.Plan {
	t.Helper()
	needFMA(t)
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	want, err := s.NewRunner().RunAll(context.Background(), feeds, nil, nil)
	require.NoError(t, err)
	outs, err := s.NewRunner().Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	on, err := device.New(g, d, device.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, on.Close()) }()
	runs := 2 // the second in memory that the first has left
	if len(g.Nodes()) > 60 {
		runs = 1 // which takes long
	}
	for range runs {
		got, err := on.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		require.Len(t, got, len(outs))
		for i := range got {
			same(t, outs[i], got[i], "output "+g.Value(g.Outputs[i]).Name)
		}
	}
	seen := 0
	_, err = on.Run(context.Background(), feeds, &device.Taps{Tap: func(s *cuda.Stream, v device.Value) error {
		x, err := v.Download(s)
		if err != nil {
			return err
		}
		if want[v.ID] != nil {
			same(t, want[v.ID].ToRowMajor(), x.ToRowMajor(), "value "+g.Value(v.ID).Name)
			seen++
		}
		return nil
	}})
	require.NoError(t, err)
	require.Positive(t, seen)
	types := map[string]device.Type{}
	for name, f := range feeds {
		types[name] = device.Type{DType: f.DType, Shape: f.Shape}
	}
	p, err := on.Prepare(context.Background(), types, nil)
	require.NoError(t, err)
	return p
}

// oneDevice returns a GPU where there is one that QWB_GPU does not forbid, else an interpreted device: for tests that take long.
func oneDevice(t *testing.T) *cuda.Device {
	t.Helper()
	mode := os.Getenv("QWB_GPU")
	if mode == "off" {
		return cudatest.Device(t, 80)
	}
	d, err := cuda.Open()
	if err != nil {
		require.NotEqual(t, "only", mode, err)
		return cudatest.Device(t, 80)
	}
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// needFMA skips a test where the CPU's executor computes other last bits than the device.
func needFMA(t *testing.T) {
	t.Helper()
	if a := kernels.Select(cpu.Detect()).Arith(); a != ref.FMA32 {
		t.Skipf("the processor's kernels compute in %s: their last bits are others", a)
	}
}

func same(t *testing.T, want, got *tensor.Tensor, what string) {
	t.Helper()
	require.Empty(t, different(want, got), what)
}

// different says how two tensors differ in type or bits, "" if they do not; NaNs may have any payload.
func different(want, got *tensor.Tensor) string {
	if want.Type() != got.Type() {
		return fmt.Sprintf("want %s, got %s", want.Type(), got.Type())
	}
	if want.DType != tensor.Float32 {
		if w, g := fmt.Sprint(want.Data), fmt.Sprint(got.Data); w != g {
			return fmt.Sprintf("want %s, got %s", w, g)
		}
		return ""
	}
	a, b := want.F32(), got.F32()
	bad, first := 0, 0
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]) {
			if bad == 0 {
				first = i
			}
			bad++
		}
	}
	if bad == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d differ, the first at %d: want %g, got %g", bad, len(a), first, a[first], b[first])
}

// weighted fills the float constants of a graph whose names begin with w with numbers.
func weighted(t *testing.T, text string) *graph.Graph {
	t.Helper()
	g := graphtest.Parse(t, "graph g\nopset 17\n"+text)
	for _, v := range g.Values() {
		if val := g.Value(v); val.Const != nil && val.Name[0] == 'w' {
			g.SetConst(v, graphtest.Normal(uint64(v), val.Const.Shape...))
		}
	}
	return g
}

// Graphs whose operators are computed together, or whose values change layout on the way.
func TestGraphs(t *testing.T) {
	x, y := graphtest.Normal(1, 2, 6, 9, 7), graphtest.Normal(2, 2, 6, 9, 7)
	feeds := map[string]*tensor.Tensor{"x": x, "y": y}
	for name, text := range map[string]string{
		"convolution, sum and bound": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const w: f32[6,6,3,3] = fill(0); const wb: f32[6] = fill(0)
			c = Conv(x, w, wb) {pads=[1, 1, 1, 1]}
			s = Add(y, c)
			r = Relu(s)
			output r`,
		"the sum is also an output": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const w: f32[6,6,1,1] = fill(0)
			c = Conv(x, w)
			s = Add(c, y)
			r = Relu(s)
			output r; output s`,
		"a sum that comes too late": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const w: f32[6,6,1,1] = fill(0); const w2: f32[6,1,3,3] = fill(0)
			c = Conv(x, w)
			d = Conv(y, w2) {group=6, pads=[1, 1, 1, 1]}
			s = Add(c, d)
			r = Clip(s)
			q = Sigmoid(r)
			output q`,
		"sums without bias take a column": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const w: f32[5,6,1,1] = fill(0); const wb: f32[1,5,1,1] = fill(0)
			const zero: f32[] = [0]; const six: f32[] = [6]
			c = Conv(x, w)
			s = Add(c, wb)
			r = Clip(s, zero, six)
			m = Max(y, x)
			output r; output m`,
		"layouts": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const w: f32[6,6,3,3] = fill(0)
			c = Conv(x, w) {pads=[1, 1, 1, 1]}
			n = Transpose(c) {perm=[0, 2, 3, 1]}
			p = MaxPool(c) {kernel_shape=[2, 2], strides=[2, 2]}
			a = Add(c, y)
			j = Concat(a, c, x) {axis=1}
			g = GlobalAveragePool(j)
			m = ReduceMean(c) {axes=[1, 2, 3]}
			output n; output p; output j; output g; output m`,
		"products": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const w: f32[7,5] = fill(0); const wb: f32[5] = fill(0); const wc: f32[6,5,7] = fill(0)
			m = MatMul(x, w)
			a = Add(wb, m)
			r = Relu(a)
			n = MatMul(r, wc)
			s = Add(n, y)
			o = Relu(s)
			q = Softmax(o) {axis=1}
			output q`,
		"shapes are known": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const zero: i64[] = [0]; const rest: i64[1] = [-1]; const axis: i64[1] = [0]
			s = Shape(x)
			n = Gather(s, zero)
			u = Unsqueeze(n, axis)
			k = Concat(u, rest) {axis=0}
			r = Reshape(y, k)
			output r; output s`,
		"outputs that are inputs, constants, one value twice": `
			input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
			const w: f32[3] = fill(0)
			i = Identity(x)
			n = Neg(y)
			m = Identity(n)
			output x; output w; output i; output n; output m`,
	} {
		t.Run(name, func(t *testing.T) {
			g := weighted(t, text)
			cudatest.Each(t, func(t *testing.T, d *cuda.Device) { require.Empty(t, both(t, d, g, feeds).OnHost()) })
		})
	}
}

// Elementwise operators that follow each other are one kernel.
func TestChains(t *testing.T) {
	g := weighted(t, `
		input x: f32[2,6,9,7]; input y: f32[2,6,9,7]
		const wc: f32[6,1,1] = fill(0); const wr: f32[7] = fill(0)
		const zero: f32[] = [0]; const six: f32[] = [6]; const two: f32[] = [2]
		a = Sub(wc, x)
		b = Div(a, six)
		c = Clip(b, zero, six)
		d = Mul(y, c)
		e = Add(wr, d)
		f = Tanh(e)
		g = Pow(f, two)
		output g`)
	feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(1, 2, 6, 9, 7), "y": graphtest.Normal(2, 2, 6, 9, 7)}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) { require.Equal(t, 1, both(t, d, g, feeds).Steps()) })
	g.Outputs = append(g.Outputs, g.Node(g.Producer(g.Outputs[0])).Inputs[0]) // f is wanted as well
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) { require.Equal(t, 2, both(t, d, g, feeds).Steps()) })
}

// Operators without kernels run on the host between those on the device; If reads values around it.
func TestHostOperators(t *testing.T) {
	g := weighted(t, `
		input x: f32[2,3,4,4]; input go: bool[]
		const w: f32[3,3,1,1] = fill(0)
		c = Conv(x, w)
		e = Elu(c)
		d = Conv(e, w)
		s = Softplus(d)
		i = If(go) {then_branch=graph {
			p = Neg(d)
			output p: f32[2,3,4,4]
		}, else_branch=graph {
			q = Exp(e)
			output q: f32[2,3,4,4]
		}}
		z = Add(i, s)
		output z; output s; output e`)
	for _, yes := range []bool{false, true} {
		feeds := map[string]*tensor.Tensor{"x": graphtest.Normal(1, 2, 3, 4, 4), "go": {DType: tensor.Bool, Shape: []int{}, Data: []bool{yes}}}
		cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
			p := both(t, d, g, feeds)
			var ops []string
			for _, h := range p.OnHost() {
				require.NotEmpty(t, h.Why)
				require.Len(t, h.Nodes, 1)
				ops = append(ops, h.Op)
			}
			require.ElementsMatch(t, []string{"Elu", "Softplus", "If"}, ops)
			s, err := d.NewStream()
			require.NoError(t, err)
			require.ErrorContains(t, p.Launch(s, nil, nil), "is computed on the host: no kernel")
		})
	}
}

// island is a plan with everything around it that a caller of Launch needs.
func island(t *testing.T, d *cuda.Device, g *graph.Graph, types map[string]device.Type) (*device.Session, *device.Plan, *cuda.Stream) {
	t.Helper()
	s, err := device.New(g, d, device.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	p, err := s.Prepare(context.Background(), types, nil)
	require.NoError(t, err)
	require.Empty(t, p.OnHost())
	st, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return s, p, st
}

func TestLaunchOnBuffersOfTheCaller(t *testing.T) {
	needFMA(t)
	g := weighted(t, `
		input x: f32[2,3,5,5]
		const w: f32[4,3,3,3] = fill(0)
		c = Conv(x, w) {pads=[1, 1, 1, 1]}
		r = Gelu(c)
		n = Softmax(r) {axis=1}
		output n; output c`)
	g.Opsets[0].Version = 20
	s, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		_, p, st := island(t, d, g, map[string]device.Type{"x": {DType: tensor.Float32, Shape: []int{2, 3, 5, 5}}})
		require.Equal(t, []int{2, 3, 5, 5}, p.Inputs()[0].Shape)
		in, err := d.Alloc(p.Inputs()[0].Buffer.Bytes)
		require.NoError(t, err)
		out, err := d.Alloc(p.Outputs()[0].Buffer.Bytes)
		require.NoError(t, err)
		upload := func(seed uint64) map[string]*tensor.Tensor {
			x := graphtest.Normal(seed, 2, 3, 5, 5)
			raw := make([]byte, 4*x.Len())
			for i, v := range x.F32() {
				binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
			}
			require.NoError(t, st.Upload(in, raw))
			return map[string]*tensor.Tensor{"x": x}
		}
		check := func(feeds map[string]*tensor.Tensor) {
			t.Helper()
			require.NoError(t, p.Fault(st))
			want, err := s.NewRunner().Run(context.Background(), feeds, nil)
			require.NoError(t, err)
			for i, v := range p.Outputs() {
				if i == 0 {
					v.Buffer = out
				}
				got, err := v.Download(st)
				require.NoError(t, err)
				same(t, want[i], got, "output")
			}
		}
		feeds := upload(1)
		require.NoError(t, p.Launch(st, []cuda.Buffer{in}, []cuda.Buffer{out, {}}))
		check(feeds)
		captured, err := st.Capture(func() error { return p.Launch(st, []cuda.Buffer{in}, []cuda.Buffer{out, {}}) })
		require.NoError(t, err)
		for seed := range uint64(2) {
			feeds = upload(2 + seed)
			require.NoError(t, captured.Launch(st))
			check(feeds)
		}
		require.NoError(t, captured.Close())
		require.ErrorContains(t, p.Launch(st, []cuda.Buffer{in, in}, nil), "2 buffers for 1 inputs")
		require.ErrorContains(t, p.Launch(st, []cuda.Buffer{in.Slice(0, 8)}, nil), `a buffer of 8 bytes for input "x" of 600`)
	})
}

// An index outside of its axis reads what is there, and is reported.
func TestIndices(t *testing.T) {
	g := weighted(t, `
		input i: i64[3]
		const w: f32[5,4] = fill(0)
		y = Gather(w, i)
		output y`)
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		require.Empty(t, both(t, d, g, map[string]*tensor.Tensor{"i": tensor.FromI64([]int64{4, -5, 0}, 3)}).OnHost())
		s, err := device.New(g, d, device.Options{})
		require.NoError(t, err)
		for _, bad := range []int64{5, -6, 1 << 40} {
			_, err = s.Run(context.Background(), map[string]*tensor.Tensor{"i": tensor.FromI64([]int64{4, bad, 0}, 3)}, nil)
			require.ErrorContains(t, err, "an index is outside of its axis")
		}
		_, err = s.Run(context.Background(), map[string]*tensor.Tensor{"i": tensor.FromI64([]int64{4, 3, 0}, 3)}, nil)
		require.NoError(t, err, "the fault is forgotten")
		require.NoError(t, s.Close())
	})
}

func TestTapsSeeWhatTheyWant(t *testing.T) {
	g := weighted(t, `
		input x: f32[1,3,4,4]
		const w: f32[4,3,1,1] = fill(0); const w2: f32[4,1,1] = fill(0)
		c = Conv(x, w)
		r = Relu(c)
		t = Tanh(r)
		k = Exp(w2)
		m = Add(t, k)
		output m`)
	d := oneDevice(t)
	s, err := device.New(g, d, device.Options{})
	require.NoError(t, err)
	x := graphtest.Normal(1, 1, 3, 4, 4)
	run := func(names ...string) (seen []string) {
		_, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": x}, &device.Taps{
			Wants: func(v graph.ValueID) bool { return slices.Contains(names, g.Value(v).Name) },
			Tap: func(_ *cuda.Stream, v device.Value) error {
				seen = append(seen, g.Value(v.ID).Name)
				require.GreaterOrEqual(t, v.Buffer.Bytes, 4*v.Len())
				if name := seen[len(seen)-1]; name == "c" || name == "r" {
					require.Equal(t, tensor.ChannelsLast, v.Layout)
				}
				return nil
			}})
		require.NoError(t, err)
		return seen
	}
	require.Equal(t, []string{"x", "c", "r", "t", "k", "m"}, run("x", "c", "r", "t", "k", "m"))
	require.Equal(t, []string{"r"}, run("r"), "which is computed with c")
	require.Equal(t, []string{"c"}, run("c"))
	require.Empty(t, run())
	wrong := errors.New("wrong")
	_, err = s.Run(context.Background(), map[string]*tensor.Tensor{"x": x}, &device.Taps{Tap: func(*cuda.Stream, device.Value) error {
		return wrong
	}})
	require.ErrorIs(t, err, wrong)
}

func TestErrors(t *testing.T) {
	d := oneDevice(t)
	open := func(text string) *device.Session {
		s, err := device.New(graphtest.Parse(t, "graph g\nopset 17\n"+text), d, device.Options{})
		require.NoError(t, err)
		return s
	}
	x := graphtest.Normal(1, 2, 3)
	run := func(s *device.Session, feeds map[string]*tensor.Tensor) error {
		_, err := s.Run(context.Background(), feeds, nil)
		return err
	}
	s := open("input x: f32[2,N]; input y: f32[2,3]; z = Add(x, y); output z")
	require.EqualError(t, run(s, map[string]*tensor.Tensor{"x": x}), `input "y" is missing`)
	require.EqualError(t, run(s, map[string]*tensor.Tensor{"x": x, "y": x, "q": x}), `the graph has no input "q"`)
	require.ErrorContains(t, run(s, map[string]*tensor.Tensor{"x": x, "y": tensor.FromI64([]int64{1}, 1)}), `input "y" is i64[1]`)
	require.ErrorContains(t, run(s, map[string]*tensor.Tensor{"x": x, "y": graphtest.Normal(1, 2, 5)}),
		`prepare: node "z" (Add, f32[2,3], f32[2,5])`)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Run(cancelled, map[string]*tensor.Tensor{"x": x, "y": x}, nil)
	require.ErrorIs(t, err, context.Canceled)

	s = open("input x: f32[N]; z = NonZero(x); output z")
	require.ErrorIs(t, run(s, map[string]*tensor.Tensor{"x": graphtest.Normal(1, 3)}), device.ErrShape)
	_, err = device.New(graphtest.Parse(t, "graph g\nopset 17\nopset com.example 1\n input x: f32[2]; y = com.example.Odd(x); output y"), d,
		device.Options{})
	var unsupported *exec.UnsupportedError
	require.ErrorAs(t, err, &unsupported)

	// What the host refuses is reported with the node.
	s = open("input x: i32[2]; input y: i32[2]; z = Div(x, y); output z")
	zero := &tensor.Tensor{DType: tensor.Int32, Shape: []int{2}, Data: []int32{0, 1}}
	require.ErrorContains(t, run(s, map[string]*tensor.Tensor{"x": zero, "y": zero}), "integer division by zero")
}

// Plans are made once per set of shapes, and memory comes back.
func TestPlans(t *testing.T) {
	d := oneDevice(t)
	g := weighted(t, `
		input x: f32[N,3,4,4]
		const w: f32[4,3,1,1] = fill(0)
		c = Conv(x, w)
		r = Sigmoid(c)
		output r`)
	before := d.PoolStats()
	s, err := device.New(g, d, device.Options{})
	require.NoError(t, err)
	types := func(n int) map[string]device.Type {
		return map[string]device.Type{"x": {DType: tensor.Float32, Shape: []int{n, 3, 4, 4}}}
	}
	first, err := s.Prepare(context.Background(), types(1), nil)
	require.NoError(t, err)
	again, err := s.Prepare(context.Background(), types(1), nil)
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Positive(t, first.Bytes())
	require.Equal(t, 4, first.Steps(), "a change of layout, the convolution, the function, the layout back")
	for n := 2; n < 12; n++ {
		_, err := s.Run(context.Background(), map[string]*tensor.Tensor{"x": graphtest.Normal(1, n, 3, 4, 4)}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	require.Equal(t, before.Allocated, d.PoolStats().Allocated)
}
