package sim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/sim"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// productless has operators that sum no products and have scales of their own: a mask, global response normalisation, a gate, a pyramid.
const productless = `
opset 13
input x: f32[1,8,8,8]
const w: f32[8,8,1,1] = normal(seed=1, std=0.4)
const mask: f32[8,8] = normal(seed=2, std=3)
const some: f32[] = 0.5
const sizes: f32[4] = [1, 1, 2, 2]
const shape: i64[3] = [1, 8, 64]
h = Conv(x, w)
sq = Mul(h, h)
mean = ReduceMean(sq) {axes=[2,3], keepdims=1}
root = Sqrt(mean)
more = Add(root, some)
share = Div(h, more)
gate = Sigmoid(share)
both = Mul(share, gate)
less = Sub(both, h)
pool = AveragePool(less) {kernel_shape=[2,2], strides=[2,2]}
most = MaxPool(pool) {kernel_shape=[2,2], strides=[2,2]}
up = Resize(most, _, sizes) {mode="linear"}
all = Concat(up, pool) {axis=1}
rows = Reshape(less, shape)
turned = Transpose(rows) {perm=[0,2,1]}
scores = Transpose(turned) {perm=[0,2,1]}
s = Softmax(rows) {axis=-1}
masked = Add(less, mask)
p = Softmax(masked) {axis=-1}
output all
output s
output p
output scores
`

// TestEverySlotThatRoundsIsInOneGroup takes every network on every target, and in every float precision.
func TestEverySlotThatRoundsIsInOneGroup(t *testing.T) {
	all := map[string]string{"productless": productless}
	for _, name := range networks {
		all[name] = lowertest.Networks[name]
	}
	own := map[string]bool{} // operators with rows, of those that sum no products
	check := func(t *testing.T, s *sim.Simulator, rounds func(*tqc.Slot) bool) {
		g, set := s.Graph(), s.Set()
		in := make([]int, set.NumSlots())
		for _, gr := range s.Groups() {
			for _, id := range gr.Slots {
				in[id]++
			}
			own[g.Node(gr.Nodes[0]).Op] = true
		}
		for id := range tqc.SlotID(set.NumSlots()) {
			if sl := set.Slot(id); rounds(sl) {
				require.Equal(t, 1, in[id], "%s:%s%d", g.Node(sl.Node).Name, sl.Kind, sl.Index)
			} else {
				require.LessOrEqual(t, in[id], 1)
			}
		}
	}
	for name, text := range all {
		for _, tg := range target.Builtin().All {
			t.Run(name+"/"+tg.Name, func(t *testing.T) {
				g, set, feeds := lowertest.Configured(t, text, tg.Name)
				s, err := sim.New(g, set, sim.Options{})
				require.NoError(t, err)
				check(t, s, func(sl *tqc.Slot) bool { return sl.State().Quantizes() })
				// All groups together are the whole.
				in := map[tqc.SlotID]bool{}
				for _, gr := range s.Groups() {
					for _, id := range gr.Slots {
						require.True(t, set.Slot(id).State().Quantizes(), "what another group rounds is in none else")
						in[id] = true
					}
				}
				requireSame(t, run(t, g, feeds, s.Hooks(func(tqc.SlotID) bool { return true })),
					run(t, g, feeds, s.Hooks(func(id tqc.SlotID) bool { return in[id] })), "")
			})
		}
		for _, domain := range []tqc.Domain{tqc.DomainFP16, tqc.DomainBF16, tqc.DomainTF32} {
			t.Run(fmt.Sprint(name, "/", domain), func(t *testing.T) {
				g := graphtest.Parse(t, text)
				set := tqc.NewSet(g)
				for _, id := range g.Nodes() {
					set.Domains[id] = domain
				}
				s, err := sim.New(g, set, sim.Options{})
				require.NoError(t, err)
				check(t, s, func(sl *tqc.Slot) bool {
					v, n := g.Value(sl.Value), g.Node(sl.Node)
					float := v.DType == tensor.Float32 && (sl.Kind == tqc.Output || target.DataInput(g, sl.Node, sl.Index))
					return float && (domain != tqc.DomainTF32 || sl.Kind == tqc.Input && (n.Op == "Conv" || n.Op == "Gemm" || n.Op == "MatMul"))
				})
			})
		}
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Sqrt", "ReduceMean", "Sigmoid", "Softmax", "AveragePool", "GlobalAveragePool",
		"Resize", "Concat"} {
		require.True(t, own[op], op)
	}
}

// What only moves numbers rounds nothing new: it is in the group of the operator that put them on their grid.
func TestMovedNumbersBelongToWhoPutThemOnTheirGrid(t *testing.T) {
	g, set, _ := lowertest.Configured(t, `
opset 13
input x: f32[1,8,8,8]
const w: f32[8,8,1,1] = normal(seed=1, std=0.4)
const m: f32[8,4] = normal(seed=2, std=0.4)
const shape: i64[3] = [1, 8, 4]
h = Conv(x, w)
less = AveragePool(h) {kernel_shape=[2,2], strides=[2,2]}
most = MaxPool(less) {kernel_shape=[2,2], strides=[2,2]}
rows = Reshape(most, shape)
turned = Transpose(rows) {perm=[0,2,1]}
y = MatMul(turned, m)
output y
`, "onnxruntime")
	s, err := sim.New(g, set, sim.Options{})
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, gr := range s.Groups() {
		of := g.Value(gr.Output).Name
		for _, id := range gr.Slots {
			if sl := set.Slot(id); sl.Kind == tqc.Output {
				rows[of] = append(rows[of], g.Value(sl.Value).Name)
			}
		}
	}
	require.Equal(t, map[string][]string{"h": {"h"}, "less": {"less", "most", "rows", "turned"}}, rows)
}
