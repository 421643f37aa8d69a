package exec

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// Without a budget, what one value may take follows the size of what was handed in; with one, the budget alone counts.
func TestSingleValue(t *testing.T) {
	g := graphtest.Parse(t, `opset 17
input x: f32[4]; input go: bool[]
const w: f32[1000,1000] = fill(1)
b = Constant() {value=f32[8] [1, 2, 3, 4, 5, 6, 7, 8]}
y = If(go) {then_branch=graph {
	const inside: f32[500] = fill(2)
	z = Neg(inside)
	output z
}, else_branch=graph {
	e = Neg(x)
	output e
}}
output y`)
	require.Equal(t, int64(4*(1000*1000+8+500)), constantBytes(g), "constants, those that nodes hold, those of branches")
	s, err := New(g, Options{})
	require.NoError(t, err)
	require.Equal(t, int64(leastSingle), s.single(0), "a small model")
	require.Equal(t, 64*(1+constantBytes(g)+1<<30), s.single(1<<30), "large inputs")
	require.LessOrEqual(t, s.single(math.MaxInt64/2), int64(math.MaxInt64))
	require.Positive(t, s.single(math.MaxInt64/2), "no overflow")
	for i := range s.steps {
		for _, inner := range s.steps[i].subs {
			require.Equal(t, s.single(1<<40), inner.single(1<<40), "a branch is part of its model")
		}
	}
	s, err = New(g, Options{Memory: 1 << 20})
	require.NoError(t, err)
	require.Zero(t, s.single(1<<30))
}

// A file of a few bytes cannot ask for gigabytes on a machine that has them: at once, in a branch, or once a session is made.
func TestSingleValueIsRefused(t *testing.T) {
	const big = "const s: i64[1] = [1500000000]\n" // of float32: 6 GB
	for what, text := range map[string]string{
		"a run": "input x: f32[1]\n" + big + "y = Expand(x, s) \"big\"\noutput y",
		"a branch": "input x: f32[1]; input go: bool[]\n" + big + `y = If(go) {then_branch=graph {
	z = Expand(x, s) "big"
	output z
}, else_branch=graph {
	e = Neg(x)
	output e
}}
output y`,
		"a constant": big + "y = ConstantOfShape(s) \"big\"\noutput y",
	} {
		t.Run(what, func(t *testing.T) {
			g := graphtest.Parse(t, "opset 17\n"+text)
			graph.InferShapes(g)
			feeds := map[string]*tensor.Tensor{}
			for _, v := range g.Inputs {
				if name := g.Value(v).Name; name == "x" {
					feeds[name] = tensor.New(tensor.Float32, 1)
				} else {
					feeds[name] = tensor.New(tensor.Bool)
					feeds[name].Data.([]bool)[0] = true
				}
			}
			s, err := New(g, Options{})
			if err == nil {
				_, err = s.NewRunner().Run(t.Context(), feeds, nil)
			}
			var full *MemoryError
			require.ErrorAs(t, err, &full)
			require.ErrorContains(t, err, `"big"`)
			require.Equal(t, int64(6_000_000_000), full.Bytes)
			require.LessOrEqual(t, full.Budget, max(leastSingle, defaultMemory()))
			if defaultMemory() > full.Bytes {
				require.True(t, full.Single)
				require.ErrorContains(t, err, "unless a memory budget is given")
			}
		})
	}
}

// The limit is the least of the machine's, of the process's control group's, and of those that the group is in.
func TestMachineMemory(t *testing.T) {
	const meminfo = "MemTotal: 1048576 kB\n"
	for what, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing":          {nil, 0},
		"the machine":      {map[string]string{"/proc/meminfo": meminfo}, 1 << 30},
		"a container":      {map[string]string{"/proc/meminfo": meminfo, "/sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"a container of 1": {map[string]string{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "8192"}, 8192},
		"a scope": {map[string]string{"/proc/self/cgroup": "0::/user.slice/run.scope\n", "/sys/fs/cgroup/user.slice/run.scope/memory.max": "max",
			"/sys/fs/cgroup/user.slice/memory.max": "4096", "/proc/meminfo": meminfo}, 4096},
		"a job": {map[string]string{"/proc/self/cgroup": "3:cpu:/x\n2:hugetlb,memory:/job/1\n0::/\n", "/proc/meminfo": meminfo,
			"/sys/fs/cgroup/memory/job/1/memory.limit_in_bytes": "8192", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "16384",
			"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1"}, 8192},
		"a group that the container does not see": {map[string]string{"/proc/self/cgroup": "0::/../../host\n", "/proc/meminfo": meminfo,
			"/sys/fs/cgroup/memory.max": "4096"}, 4096},
	} {
		require.Equal(t, c.want, machineMemory(func(name string) ([]byte, error) {
			if s, ok := c.files[name]; ok {
				return []byte(s), nil
			}
			return nil, os.ErrNotExist
		}), what)
	}
}
