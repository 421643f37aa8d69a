package qdq_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Any set of operators of any imported graph can be sent back to float. The grids of what stays are those of the file, nothing is
// quantized twice, and simulation and integers agree with each other.
func TestRelease(t *testing.T) {
	compared := 0
	for name, text := range files {
		for _, tg := range []*target.Target{&target.ONNXRuntime, &target.TRTInt8, &target.ONNX} {
			im := imported(t, parsed(t, text), tg)
			order, err := im.Graph.Order()
			require.NoError(t, err)
			var sets [][]graph.NodeID
			for _, id := range order {
				sets = append(sets, []graph.NodeID{id})
			}
			sets = append(sets, order, order[:len(order)/2], order[len(order)/2:])
			for _, nodes := range sets {
				before := im.Set.Clone()
				set, err := qdq.Release(im.Graph, im.Set, im.Target, dispatch.Forced{Nodes: nodes, Who: dispatch.ByUser})
				require.NoError(t, err, name)
				require.Equal(t, before, im.Set, "the set given is as it was")
				for _, id := range nodes {
					require.NotEqual(t, tqc.DomainInt, set.Domains[id])
				}
				sameGrids(t, im.Graph, im.Set, set)
				feeds := inputs(im.Graph, 5)
				released := *im
				released.Set = set
				got := run(t, im.Graph, simulate(t, &released), feeds)
				pr, err := qmath.ProfileNamed("onnx")
				require.NoError(t, err)
				p, err := lower.Compile(im.Graph, set, tg, pr)
				if err != nil { // as before: an operator without an integer form
					_, was := lower.Compile(im.Graph, im.Set, tg, pr)
					require.Error(t, was, "%s on %s: %v", name, tg.Name, err)
					continue
				}
				x, err := program.New(p, cpu.Backend, 1)
				require.NoError(t, err)
				integers, err := x.Run(context.Background(), feeds, nil)
				require.NoError(t, err)
				compared++
				for i := range got {
					near(t, got[i], integers[i], name)
				}
			}
		}
	}
	require.Greater(t, compared, 100)
}

// sameGrids requires that what quantizes in b has the grid of a.
func sameGrids(t testing.TB, g *graph.Graph, a, b *tqc.Set) {
	for i := range b.NumSlots() {
		s := tqc.SlotID(i)
		if state := b.Slot(s).State(); state == tqc.FP32 {
			continue
		}
		require.Equal(t, tqc.DomainInt, b.Domains[b.Slot(s).Node])
		require.Equal(t, a.Params(s), b.Params(s), g.Node(b.Slot(s).Node).Name)
		require.Equal(t, a.Slot(s).Config, b.Slot(s).Config)
	}
}

// near requires that few elements differ by more than rounding.
func near(t testing.TB, want, got *tensor.Tensor, name string) {
	a, b := want.ToRowMajor().F32(), got.ToRowMajor().F32()
	require.Len(t, b, len(a), name)
	far, most := 0.0, 0.0
	for i := range a {
		far += abs(float64(a[i]) - float64(b[i]))
		most = max(most, abs(float64(a[i])))
	}
	require.LessOrEqual(t, far/float64(max(len(a), 1)), 0.02*most+1e-6, name)
}

func abs(x float64) float64 { return max(x, -x) }

// What is forced to integers stays on them, or the error says what is against it.
func TestReleaseKeepsForcedIntegers(t *testing.T) {
	im := imported(t, parsed(t, pairs), &target.ONNXRuntime)
	relu, _ := im.Graph.LookupNode("relu")
	conv, _ := im.Graph.LookupNode("conv")
	pointwise, _ := im.Graph.LookupNode("pointwise")
	force := func(id graph.NodeID, d tqc.Domain) dispatch.Forced {
		return dispatch.Forced{Nodes: []graph.NodeID{id}, Who: dispatch.ByUser, Why: im.Graph.Node(id).Name, Domain: d}
	}
	set, err := qdq.Release(im.Graph, im.Set, im.Target, force(relu, tqc.DomainFP32), force(pointwise, tqc.DomainInt))
	require.NoError(t, err)
	require.Equal(t, tqc.DomainInt, set.Domains[pointwise])
	_, err = qdq.Release(im.Graph, im.Set, im.Target, force(relu, tqc.DomainFP32), force(conv, tqc.DomainInt))
	require.ErrorContains(t, err, `dispatch: node "conv" (Conv,`)
	require.ErrorContains(t, err, `cannot run on integers, as is wanted (user: conv): user: goes with "relu"`)
}

// A tensor that a released operator brought to its grid is brought to it by its reader, once for all of them.
func TestReleasedStates(t *testing.T) {
	im := imported(t, parsed(t, pairs), &target.ONNXRuntime)
	relu, _ := im.Graph.LookupNode("relu")
	conv, _ := im.Graph.LookupNode("conv")
	set, err := qdq.Release(im.Graph, im.Set, im.Target, dispatch.Forced{Nodes: []graph.NodeID{relu}, Who: dispatch.ByUser, Why: "relu"})
	require.NoError(t, err)
	released := *im
	released.Set = set
	require.Equal(t, tqc.DomainFP32, set.Domains[conv], "the convolution goes with its activation")
	require.Equal(t, []string{"user: relu", `user: goes with "relu"`}, []string{set.Why[relu], set.Why[conv]})
	for _, c := range []struct {
		node string
		kind tqc.Kind
		i    int
		want string
	}{
		{"conv", tqc.Input, 1, "FP32"}, {"conv", tqc.Output, 0, "FP32"}, {"relu", tqc.Output, 0, "FP32"},
		{"pool", tqc.Input, 0, "FP32"}, {"pointwise", tqc.Input, 0, "ACTIVATED"}, {"pointwise", tqc.Output, 0, "ACTIVATED"},
		{"add", tqc.Input, 1, "FP32"}, {"mean", tqc.Output, 0, "FP32"}, {"flat", tqc.Output, 0, "FP32"}, {"classify", tqc.Input, 0, "ACTIVATED"},
	} {
		require.Equal(t, c.want, state(&released, c.node, c.kind, c.i), "%s %s%d", c.node, c.kind, c.i)
	}
}
