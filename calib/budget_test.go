package calib

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

func inferred(t *testing.T, text string) *graph.Graph {
	g := graphtest.Parse(t, text)
	require.Empty(t, graph.InferShapes(g))
	return g
}

// Of a chain of Relu two values of 400 bytes are alive at a time; the input is the caller's.
func TestFootprint(t *testing.T) {
	text := "opset 21\ninput x: f32[N,100]\na = Relu(x)\nb = Relu(a)\nc = Relu(b)\nd = Add(c, a)\noutput d\n"
	g := inferred(t, text)
	for _, n := range []int{1, 3} {
		live, all := exec.Footprint(g, map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, n, 100)})
		require.EqualValues(t, 3*400*n, live, "a, and the two ends of an operator")
		require.EqualValues(t, 4*400*n, all)
	}
	live, _ := exec.Footprint(g, nil)
	require.EqualValues(t, 1200, live, "a size nobody gives counts as 1")
}

func TestHire(t *testing.T) {
	g := inferred(t, "opset 21\ninput x: f32[N,262144]\na = Relu(x)\nb = Relu(a)\noutput b\n") // 2 MiB for a sample
	feeds := map[string]*tensor.Tensor{"x": tensor.New(tensor.Float32, 1, 262144)}
	for _, c := range []struct {
		memory         int64 // in MiB
		threads, batch int
		want           crew
	}{
		{0, 0, 0, crew{1, 1, 1}},
		{0, 8, 4, crew{8, 1, 4}},
		{1, 4, 4, crew{1, 4, 1}}, // one sample, whatever it takes
		{4, 4, 4, crew{2, 2, 1}},
		{16, 4, 4, crew{4, 1, 2}},
		{16, 3, 9, crew{3, 1, 2}},
		{16, 1, 9, crew{1, 1, 7}}, // its first batch is kept beside one sample
	} {
		cfg := Config{Memory: c.memory << 20, Threads: c.threads, Batch: c.batch}
		got, w := cfg.hire(g, feeds)
		require.Equal(t, c.want, got, fmt.Sprint(c))
		require.Equal(t, c.batch > c.want.batch, w.Text != "")
	}
	// A device runs one batch at a time, of what fits into half of its memory too.
	for memory, batch := range map[int64]int{80 << 30: 8, 12 << 20: 3, 3 << 20: 1} {
		cfg := Config{Memory: 16 << 20, Threads: 4, Batch: 9, Device: sized{bytes: memory}}
		got, _ := cfg.hire(g, feeds)
		require.Equal(t, crew{1, 4, batch}, got, memory)
	}
}

// sized is a device that has memory.
type sized struct {
	Device
	bytes int64
}

func (s sized) MemoryBytes() int64 { return s.bytes }
