package exec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
)

// What is no step may run beside the steps of a sequence, in other goroutines: it keeps nothing and takes nothing away.
func TestRollingPassesBySamplesThatAreNoSteps(t *testing.T) {
	g := graphtest.Parse(t, "opset 17\ninput x: f32[1]; input h: f32[1]\ny = Add(x, h)\nh_out = Identity(y)\noutput y; output h_out")
	sequence := &exec.Sequence{Steps: 2, States: []graph.State{{Input: "h", Output: "h_out"}}}
	var r exec.Rolling
	left := tensor.FromF32([]float32{3}, 1)
	require.NoError(t, r.Keep(g, &exec.Sample{Sequence: sequence}, []*tensor.Tensor{left, left}))

	alone := &exec.Sample{Feeds: map[string]*tensor.Tensor{"h": tensor.FromF32([]float32{0}, 1)}}
	done := make(chan error)
	go func() { done <- r.Keep(g, alone, nil) }()
	require.Equal(t, alone.Feeds, r.Feeds(alone))
	require.NoError(t, r.Keep(g, alone, nil))
	require.NoError(t, <-done)

	require.Same(t, left, r.Feeds(&exec.Sample{Sequence: sequence, Step: 1, Feeds: alone.Feeds})["h"])
}
