package gpu_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/internal/longtest"
	"qwb/internal/programtest"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/gpu"
)

// onDevice prepares a network of lowertest for a device, beside the reference.
func onDevice(t *testing.T, name string, d *cuda.Device) (e *deviceExecutor, reference *program.Executor, feeds map[string]*tensor.Tensor) {
	needFMA(t)
	g, set, feeds := lowertest.Configured(t, lowertest.Networks[name], "onnxruntime")
	reference = programtest.Compiled(t, g, set, "onnxruntime", "ort")
	e = newOn(t, reference.Program(), d, 2)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e, reference, feeds
}

// deviceExecutor is an executor with its engine, which tests look into.
type deviceExecutor struct {
	*program.Executor
	engine program.Engine
}

func newOn(t *testing.T, p *lower.Program, d *cuda.Device, threads int) *deviceExecutor {
	x := &deviceExecutor{}
	b := gpu.On(d)
	b.New = func(p *lower.Program, threads int) (_ program.Engine, err error) {
		x.engine, err = gpu.On(d).New(p, threads)
		return x.engine, err
	}
	var err error
	x.Executor, err = program.New(p, b, threads)
	require.NoError(t, err)
	return x
}

// other returns feeds of the same shapes with other elements.
func other(feeds map[string]*tensor.Tensor, k int) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, x := range feeds {
		x = x.Clone()
		for i := range x.F32() {
			x.F32()[i] *= float32((i+k)%5) - 1.5
		}
		out[name] = x
	}
	return out
}

// Inputs of a plan's shapes may have any elements, and outputs belong to the caller.
func TestCUDAReplays(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		e, reference, feeds := onDevice(t, "mobilenet", d)
		var kept, before []*tensor.Tensor
		for k := range 4 {
			some := other(feeds, k)
			want, err := reference.Run(context.Background(), some, nil)
			require.NoError(t, err)
			got, err := e.Run(context.Background(), some, nil)
			require.NoError(t, err)
			programtest.Same(t, want, got, k)
			if kept != nil {
				programtest.Same(t, before, kept)
			}
			kept, before = got, nil
			for _, x := range got {
				before = append(before, x.Clone())
			}
		}
		require.Equal(t, 1, gpu.DevicePlans(e.engine))
		require.Equal(t, 1, gpu.Segments(e.engine), "the whole run is one graph")
		require.Empty(t, e.Placement().Host)
	})
}

// Shapes may change from run to run; an engine keeps the plans of a few, and its memory does not grow.
func TestCUDAShapesChange(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		e, reference, feeds := onDevice(t, "dynamic", d)
		round := func() {
			for _, n := range []int{5, 5, 5, 3, 3, 2, 1, 4, 1, 5, 5} {
				some := map[string]*tensor.Tensor{}
				for name, x := range feeds {
					shape := slices.Clone(x.Shape)
					shape[0] = min(n, shape[0])
					some[name] = tensor.FromF32(x.F32()[:tensor.Count(shape)], shape...)
				}
				want, err := reference.Run(context.Background(), some, nil)
				require.NoError(t, err)
				got, err := e.Run(context.Background(), some, nil)
				require.NoError(t, err)
				programtest.Same(t, want, got, n)
				hooked, err := e.Run(context.Background(), some, func(*lower.Step, []*tensor.Tensor, []*tensor.Tensor) ([]*tensor.Tensor, error) {
					return nil, nil
				})
				require.NoError(t, err)
				programtest.Same(t, want, hooked, n)
			}
		}
		round()
		round()
		require.Equal(t, 4, gpu.DevicePlans(e.engine))
		before := d.PoolStats()
		round()
		after := d.PoolStats()
		require.Equal(t, before.Buffers, after.Buffers)
		require.Equal(t, before.Allocated, after.Allocated)
	})
}

// Steps without a kernel are computed on the host, between graphs.
func TestCUDAStepsOnHost(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for name := range lowertest.Networks {
			e, reference, feeds := onDevice(t, name, d)
			gpu.KeepOnHost(e.engine, func(s *lower.Step) bool { return s.ID%3 == 1 })
			for k := range 3 {
				some := other(feeds, k)
				want, err := reference.Run(context.Background(), some, nil)
				require.NoError(t, err)
				got, err := e.Run(context.Background(), some, nil)
				require.NoError(t, err)
				programtest.Same(t, want, got, name)
			}
			if n := len(e.Program().Steps); n > 4 {
				placed := e.Placement()
				require.NotEmpty(t, placed.Host)
				require.Equal(t, "a test wants it so", placed.Host[0].Reason)
				require.Equal(t, n, placed.OnDevice+placed.OnShapes+len(placed.Host))
				require.Greater(t, gpu.Segments(e.engine), 1)
			}
		}
	})
}

// What a hook returns is what the following steps read.
func TestCUDAHooksReplaceOutputs(t *testing.T) {
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		e, reference, feeds := onDevice(t, "squeezenet", d)
		run := func(e *program.Executor) []*tensor.Tensor {
			seen := 0
			out, err := e.Run(context.Background(), feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
				if _, ok := s.Op.(*lower.Linear); !ok || len(out) != 1 {
					return nil, nil
				}
				seen++
				other := out[0].Integers()
				for i := range other {
					other[i] = other[i]/2 + int32(seen)
				}
				return []*tensor.Tensor{out[0].WithIntegers(other)}, nil
			})
			require.NoError(t, err)
			require.Positive(t, seen)
			return out
		}
		want := run(reference)
		programtest.Same(t, want, run(e.Executor))
		programtest.Same(t, want, run(e.Executor))
		plain, err := e.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		require.False(t, tensor.Equal(want[0], plain[0]))
	})
}

// A step whose shapes depend on the elements of the inputs is no obstacle: runs are then not planned.
func TestCUDAShapesThatDependOnData(t *testing.T) {
	text := `
input x: f32[1,2,6,6]
const w: f32[3,2,3,3] = normal(seed=1, std=0.3)
y: f32[1,3,4,4] = Conv(x, w) "y"
n: i64[4,k] = NonZero(x) "n"
output y
output n
`
	g, set, feeds := lowertest.Configured(t, text, "onnxruntime")
	reference := programtest.Compiled(t, g, set, "onnxruntime", "ort")
	e := newOn(t, reference.Program(), cudatest.Device(t, 80), 1)
	defer e.Close()
	x := feeds["x"].F32()
	for k := range 12 {
		clear(x[:k])
		want, err := reference.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		for range 2 {
			got, err := e.Run(context.Background(), feeds, nil)
			require.NoError(t, err)
			programtest.Same(t, want, got, k)
		}
	}
	require.Zero(t, gpu.DevicePlans(e.engine))
}

// Everything is given back when an executor is closed, and a closed one says so.
func TestCUDAClose(t *testing.T) {
	d := cudatest.Device(t, 80)
	e, _, feeds := onDevice(t, "residual", d)
	for range 2 {
		_, err := e.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
	}
	require.Positive(t, d.PoolStats().Buffers)
	require.NoError(t, e.Close())
	require.Zero(t, d.PoolStats().Buffers)
	require.NoError(t, e.Close())
	_, err := e.Run(context.Background(), feeds, nil)
	require.ErrorContains(t, err, "closed")
	late, _, _ := onDevice(t, "residual", d)
	require.NoError(t, d.Close())
	require.NoError(t, late.Close(), "a closed device has taken everything back")
	_, err = e.RunStep(context.Background(), 0, nil)
	require.Error(t, err)
}

// An executor that nobody closes is closed when it is garbage.
func TestCUDAGarbage(t *testing.T) {
	d := cudatest.Device(t, 80)
	g, set, feeds := lowertest.Configured(t, lowertest.Networks["residual"], "onnxruntime")
	p := programtest.Compiled(t, g, set, "onnxruntime", "ort").Program()
	func() {
		e, err := program.New(p, gpu.On(d), 1)
		require.NoError(t, err)
		for range 2 {
			_, err = e.Run(context.Background(), feeds, nil)
			require.NoError(t, err)
		}
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return d.PoolStats().Buffers == 0
	}, longtest.Hang, 10*time.Millisecond)
}

// A run on the device allocates outputs and little more on the host.
func TestCUDAAllocatesLittle(t *testing.T) {
	if programtest.RaceDetector {
		t.Skip("the race detector makes pools forget")
	}
	f := newFake()
	f.idle = true
	d, err := cuda.OpenOn(f, 0)
	require.NoError(t, err)
	for _, name := range []string{"mobilenet", "squeezenet", "residual"} {
		e, _, feeds := onDevice(t, name, d)
		run := func() {
			_, err := e.Run(context.Background(), feeds, nil)
			require.NoError(t, err)
		}
		run()
		run()
		require.LessOrEqual(t, testing.AllocsPerRun(20, run), float64(4+2*len(e.Program().Inputs)+4*len(e.Program().Outputs)), name)
	}
}

// Errors name step, node, operator and shapes; a cancelled context stops between steps.
func TestCUDAErrors(t *testing.T) {
	f := newFake()
	d, err := cuda.OpenOn(f, 0)
	require.NoError(t, err)
	e, _, feeds := onDevice(t, "mobilenet", d)
	_, err = e.Run(context.Background(), feeds, nil)
	require.ErrorContains(t, err, "step 0")
	require.ErrorContains(t, err, "f32[1,3,9,9]")
	require.ErrorContains(t, err, "unspecified launch failure")
	require.Equal(t, 1, f.live, "the engine's stream")
	first := lower.StepID(slices.IndexFunc(e.Program().Steps, func(s lower.Step) bool { return s.Op.Name() == "Conv" }))
	s := &e.Program().Steps[first]
	x := tensor.New(e.Program().Tensors[s.Inputs[0]].DType, 1, 3, 9, 9)
	_, err = e.RunStep(context.Background(), first, []*tensor.Tensor{x})
	require.ErrorContains(t, err, `"conv1"`)
	require.ErrorContains(t, err, "Conv")
	require.ErrorContains(t, err, "u8[1,3,9,9]")

	e, _, feeds = onDevice(t, "mobilenet", cudatest.Device(t, 80))
	ctx, cancel := context.WithCancel(context.Background())
	steps := 0
	_, err = e.Run(ctx, feeds, func(*lower.Step, []*tensor.Tensor, []*tensor.Tensor) ([]*tensor.Tensor, error) {
		if steps++; steps == 3 {
			cancel()
		}
		return nil, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, steps)
	_, err = e.Run(ctx, feeds, nil)
	require.ErrorIs(t, err, context.Canceled)
	failure := errors.New("the hook's own")
	_, err = e.Run(context.Background(), feeds, func(*lower.Step, []*tensor.Tensor, []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return nil, failure
	})
	require.ErrorIs(t, err, failure)
	_, err = e.Run(context.Background(), feeds, nil)
	require.NoError(t, err, "what failed before leaves nothing behind")
}

// The device's own time is measured, of a run that gives what others give.
func TestCUDARunTimed(t *testing.T) {
	e, reference, feeds := onDevice(t, "residual", cudatest.Device(t, 80))
	want, err := reference.Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	for range 2 {
		got, took, err := e.RunTimed(context.Background(), feeds)
		require.NoError(t, err)
		programtest.Same(t, want, got)
		require.GreaterOrEqual(t, took, time.Duration(0))
	}
	_, _, err = reference.RunTimed(context.Background(), feeds)
	require.Error(t, err)
	require.Nil(t, reference.Placement())
	require.NoError(t, reference.Close())
}

// What can be made where there is a GPU says in one line why it cannot where there is none.
func TestMissing(t *testing.T) {
	err := gpu.CUDA.Missing()
	if err == nil {
		t.Skip("there is a GPU")
	}
	g, set, _ := lowertest.Configured(t, lowertest.Networks["residual"], "onnxruntime")
	p := programtest.Compiled(t, g, set, "onnxruntime", "ort").Program()
	_, made := program.New(p, gpu.CUDA, 1)
	require.EqualError(t, made, err.Error())
	require.NotContains(t, err.Error(), "\n")
}

// Every backend has a name of its own, and those that are listed as available can be made.
func TestAvailable(t *testing.T) {
	g, set, _ := lowertest.Configured(t, lowertest.Networks["residual"], "onnxruntime")
	p := programtest.Compiled(t, g, set, "onnxruntime", "ort").Program()
	var names []string
	for _, b := range programtest.Available() {
		require.NotContains(t, names, b.Name)
		names = append(names, b.Name)
		e, err := program.New(p, b, 1)
		require.NoError(t, err, b.Name)
		require.NoError(t, e.Close())
	}
	require.Subset(t, []string{"reference", "cpu", "cuda", "ptx"}, names)
}
