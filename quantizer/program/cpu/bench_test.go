package cpu_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/target"
)

// BenchmarkInt8Forward times one sample of trained networks: their integer programs, and the float executor on the same graph.
func BenchmarkInt8Forward(b *testing.B) {
	for _, c := range programtest.Trained {
		net := programtest.Load(b, c.Model, c.Data, c.Preprocess, 1)
		feeds := net.Samples[0]
		for _, threads := range []int{1, 2} {
			name := fmt.Sprintf("model=%s/threads=%d", filepath.Base(c.Model), threads)
			for _, tg := range []*target.Target{&target.ONNXRuntime, &target.TRTInt8} {
				b.Run(name+"/mode=int8/platform="+tg.Name, func(b *testing.B) {
					profile, err := qmath.ProfileNamed(tg.Profile)
					require.NoError(b, err)
					p, err := lower.Compile(net.Graph, net.Configure(b, tg.Name), tg, profile)
					require.NoError(b, err)
					e, err := program.New(p, cpu.Backend, threads)
					require.NoError(b, err)
					forward(b, func() error {
						_, err := e.Run(context.Background(), feeds, nil)
						return err
					})
				})
			}
			b.Run(name+"/mode=fp32", func(b *testing.B) {
				session, err := exec.New(net.Graph, exec.Options{Threads: threads})
				require.NoError(b, err)
				r, outs := session.NewRunner(), make([]*tensor.Tensor, len(net.Graph.Outputs))
				forward(b, func() error { return r.RunInto(context.Background(), feeds, nil, outs) })
			})
		}
	}
}

func forward(b *testing.B, run func() error) {
	require.NoError(b, run()) // the run that plans memory
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, run())
	}
}
