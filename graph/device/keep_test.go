package device_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/tensor"
	"qwb/internal/cudatest"
	"qwb/kernels/cuda"
)

// Inputs may lie channels-last and outputs may stay so: the elements are those of a run on the host's row-major ones.
func TestLayoutsOfTheCaller(t *testing.T) {
	g, err := graph.Parse(`
input x: f32[2,4,6,5]
const w: f32[8,4,3,3] = normal(seed=1, std=0.3)
c: f32[2,8,4,3] = Conv(x, w) "c"
r: f32[2,8,4,3] = Relu(c) "r"
s: f32[2,4,6,5] = Sigmoid(x) "s"
t: f32[4,2,6,5] = Transpose(x) {perm=[1,0,2,3]} "t"
output r
output s
output t
`)
	require.NoError(t, err)
	x := tensor.New(tensor.Float32, 2, 4, 6, 5)
	for i := range x.F32() {
		x.F32()[i] = float32(i%17)/4 - 2
	}
	cudatest.Each(t, func(t *testing.T, d *cuda.Device) {
		plain, err := device.New(g, d, device.Options{})
		require.NoError(t, err)
		defer plain.Close()
		want, err := plain.Run(context.Background(), map[string]*tensor.Tensor{"x": x}, nil)
		require.NoError(t, err)
		kept, err := device.New(g, d, device.Options{KeepLayout: true})
		require.NoError(t, err)
		defer kept.Close()
		stream, err := d.NewStream()
		require.NoError(t, err)
		defer stream.Close()
		for _, layout := range []tensor.Layout{tensor.RowMajor, tensor.ChannelsLast} {
			p, err := kept.Prepare(context.Background(), map[string]device.Type{"x": {DType: tensor.Float32, Shape: x.Shape, Layout: layout}}, nil)
			require.NoError(t, err)
			in, lies := p.Inputs()[0], x
			require.Equal(t, layout, in.Layout)
			if layout == tensor.ChannelsLast {
				lies = x.ToChannelsLast()
			}
			raw, err := binary.Append(nil, binary.LittleEndian, lies.F32())
			require.NoError(t, err)
			require.NoError(t, stream.Upload(in.Buffer, raw))
			require.NoError(t, p.Launch(stream, nil, nil))
			for k, v := range p.Outputs() {
				got, err := v.Download(stream)
				require.NoError(t, err)
				require.True(t, tensor.Equal(want[k], got.ToRowMajor()), "input %v: output %d, %v", layout, k, v.Layout)
			}
			require.Equal(t, tensor.ChannelsLast, p.Outputs()[0].Layout, "of a convolution")
			require.Equal(t, layout, p.Outputs()[1].Layout)
		}
	})
}
