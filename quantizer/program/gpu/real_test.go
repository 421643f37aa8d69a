package gpu_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/internal/longtest"
	"qwb/internal/programtest"
	"qwb/kernels/cuda"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/gpu"
	"qwb/quantizer/target"
)

// Of every float network of the test data, on both platforms, every step runs on the device.
// Nothing is computed there: kernels of the fake device do nothing, and where a step runs depends on shapes alone.
func TestCUDAPlacement(t *testing.T) {
	longtest.Need(t, "takes a minute")
	root := programtest.Testdata(t, "models")
	device, host := map[string]int{}, map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if err != nil || filepath.Ext(path) != ".onnx" || strings.Contains(path, "quantized") || strings.Contains(path, "qdq") ||
			strings.Contains(path, "silero") { // sizes of its inputs are open, and few fit
			return err
		}
		for _, platform := range []string{"onnxruntime", "trt_int8"} {
			t.Run(name+"/"+platform, func(t *testing.T) {
				placed := placements(t, name, platform)
				for _, k := range slices.Sorted(maps.Keys(placed)) {
					t.Logf("%4d %s", placed[k], k)
				}
				for k, n := range placed {
					if op, on, _ := strings.Cut(k, " on the "); strings.HasPrefix(on, "device") {
						device[op] += n
					} else {
						host[k] += n
					}
				}
			})
		}
		return nil
	})
	require.NoError(t, err)
	for _, op := range slices.Sorted(maps.Keys(device)) {
		t.Logf("%5d %s on the device", device[op], op)
	}
	require.Empty(t, host)
}

// placements counts where the steps of a network run.
func placements(t *testing.T, model, platform string) map[string]int {
	net := programtest.Load(t, model, "synthetic:1", "none", 1)
	set := net.Configure(t, platform)
	tg, err := target.Find(platform)
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed(tg.Profile)
	require.NoError(t, err)
	p, err := lower.Compile(net.Graph, set, tg, pr)
	if err != nil {
		t.Skip("does not apply: " + err.Error())
	}
	f := newFake()
	f.idle = true
	dev, err := cuda.OpenOn(f, 0)
	require.NoError(t, err)
	e, err := program.New(p, gpu.On(dev), 2)
	require.NoError(t, err)
	defer e.Close()
	_, err = e.Run(context.Background(), net.Samples[0], nil)
	require.NoError(t, err)
	placed := e.Placement()
	count := map[string]int{}
	onHost := map[lower.StepID]bool{}
	for _, h := range placed.Host {
		count[fmt.Sprintf("%s on the host: %s", h.Op, h.Reason)]++
		onHost[h.Step] = true
	}
	for i := range p.Steps {
		if !onHost[p.Steps[i].ID] {
			count[p.Steps[i].Op.Name()+" on the device"]++
		}
	}
	return count
}

// On trained networks and real data the device computes the integers of the reference: as a whole, step by step and replayed.
func TestCUDAOnTrainedNetworks(t *testing.T) {
	needFMA(t)
	ctx := context.Background()
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		for _, c := range programtest.Trained {
			for platform, profile := range map[string]string{"onnxruntime": "ort", "trt_int8": "trt"} {
				slow := d.Emulated && (c.Heavy || strings.HasPrefix(c.Model, "classifiers"))
				if slow && (d.Arch < 80 || platform == "trt_int8") {
					continue
				}
				t.Run(filepath.Base(c.Model)+"/"+platform, func(t *testing.T) {
					if slow {
						longtest.Need(t, "interpreting it takes seconds")
					}
					net := programtest.Load(t, c.Model, c.Data, c.Preprocess, 1)
					p := programtest.Compiled(t, net.Graph, net.Configure(t, platform), platform, profile).Program()
					var kept [][]*tensor.Tensor
					want, err := programtest.Reference(t, p, 2).Run(ctx, net.Samples[0],
						func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
							kept = append(kept, slices.Clone(out))
							return nil, nil
						})
					require.NoError(t, err)
					e, err := program.New(p, gpu.On(d), 2)
					require.NoError(t, err)
					defer e.Close()
					compared := 0
					got, err := e.Run(ctx, net.Samples[0], func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
						for k, id := range s.Outputs {
							if id != lower.NoTensor {
								compared += out[k].Len()
								require.True(t, tensor.Equal(kept[s.ID][k], out[k]), "%s\nwant %s\n got %s", lower.FormatStep(p, s.ID),
									programtest.Sample(kept[s.ID][k]), programtest.Sample(out[k]))
							}
						}
						return nil, nil
					})
					require.NoError(t, err)
					programtest.Same(t, want, got)
					for range 2 {
						got, err = e.Run(ctx, net.Samples[0], nil)
						require.NoError(t, err)
						programtest.Same(t, want, got)
					}
					require.Empty(t, e.Placement().Host)
					t.Logf("%d integers equal", compared)
				})
			}
		}
	})
}
