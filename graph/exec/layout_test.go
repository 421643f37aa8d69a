package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels"
	"qwb/kernels/cpu"
)

// A change of layout is the move that its strides say, whatever the size and the number of threads.
func TestRelayout(t *testing.T) {
	for _, threads := range []int{1, 3} {
		s := &Session{sessionState{par: testTeam(threads).run, table: kernels.Select(cpu.Detect())}}
		if threads == 1 {
			s.par = nil
		}
		for _, shape := range [][]int{{1, 3, 40, 30}, {2, 3, 7, 5}, {3, 17, 9, 33}, {2, 64, 31}, {1, 40, 2, 3, 5}, {2, 2, 100, 200},
			{0, 5, 3, 3}} {
			x := graphtest.Normal(1, shape...)
			want := tensor.New(tensor.Float32, shape...)
			want.Layout = tensor.ChannelsLast
			move{shape: shape, dst: strides(want), src: strides(x)}.run(serial, want.Data, x.Data)
			r := &runnerState{s: s}
			r.mem.pool = &r.pool
			there := r.convert(handle{t: x, buf: noBuf}, tensor.ChannelsLast)
			require.Equal(t, want.F32(), there.t.F32(), "%v", shape)
			back := r.convert(there, tensor.RowMajor)
			require.Equal(t, x.F32(), back.t.F32(), "%v", shape)
		}
	}
}
