package espdl

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/exporttest"
)

// moving has what moves, joins, cuts and reduces integers, and layouts that meet.
const moving = `input x: f32[1,4,6,8]
const w: f32[8,4,3,3] = normal(seed=1, std=0.3)
const k: f32[4,4,1,1] = normal(seed=4, std=0.3)
const v: f32[8,12,1,1] = normal(seed=2, std=0.3)
const scales: f32[4] = [1, 1, 2, 2]
const shape: i64[3] = [1, 12, 192]
const starts: i64[2] = [1, 2]
const ends: i64[2] = [9, 100]
const axes: i64[2] = [1, 2]
const picks: i64[3] = [2, 0, 1]
const pads: i64[6] = [0, 0, 1, 0, 0, 2]
const parts: i64[2] = [4, 4]
a = Conv(x, w) {pads=[1,1,1,1]} "first"
p, q = Split(a, parts) {axis=1} "halves"
c = Conv(x, k) "side"
j = Concat(p, q, c) {axis=1} "joined"
u = Resize(j, _, scales) {mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"} "larger"
s = ReduceMax(u) {axes=[2], keepdims=1} "top"
b = Conv(u, v) "second"
d = DepthToSpace(b) {blocksize=2, mode="DCR"} "blocks"
m = ReduceMean(d) {axes=[3], keepdims=0} "mean"
t = Transpose(m) {perm=[0,2,1]} "turned"
r = Reshape(u, shape) "flat"
l = Slice(r, starts, ends, axes) "cut"
g = Gather(l, picks) {axis=1} "picked"
e = Pad(g, pads) "padded"
output t
output e
output s
`

// changed returns a change of an attribute of the first node of an operator.
func changed(op, name string, to func(v any) any) func(m *Model) {
	return func(m *Model) {
		for i := range m.Nodes {
			for k, a := range m.Nodes[i].Attrs {
				if m.Nodes[i].Op == op && a.Name == name {
					m.Nodes[i].Attrs[k].Value = to(a.Value)
					return
				}
			}
		}
	}
}

// nudged returns a change of element k of a list that the first node of an operator reads.
func nudged(op string, input, k, by int) func(m *Model) {
	return func(m *Model) {
		for i := range m.Nodes {
			if m.Nodes[i].Op == op {
				raw := constantNamed(m, m.Nodes[i].Inputs[input]).Raw[8*k:]
				binary.LittleEndian.PutUint64(raw, uint64(int64(binary.LittleEndian.Uint64(raw))+int64(by)))
				return
			}
		}
	}
}

func TestDamagedMovesAreFound(t *testing.T) {
	f := Format()
	more := func(v any) any { return v.(int64) + 1 }
	less := func(v any) any { return v.(int64) - 1 }
	swapped := func(v any) any {
		list := v.([]int64)
		list[1], list[2] = list[2], list[1]
		return list
	}
	var faults []exporttest.Damaged
	for what, change := range map[string]func(m *Model){
		"an axis of a Concat": changed("Concat", "axis", less), "an axis of a Split": changed("Split", "axis", less),
		"sizes of a Split":       nudged("Split", 1, 0, 1),
		"a mode of a Resize":     changed("Resize", "mode", func(any) any { return "linear" }),
		"a rounding of a Resize": changed("Resize", "nearest_mode", func(any) any { return "ceil" }),
		"a scale of a Resize": func(m *Model) {
			for i := range m.Nodes {
				if m.Nodes[i].Op == "Resize" {
					constantNamed(m, m.Nodes[i].Inputs[2]).Raw[6] ^= 0x40
				}
			}
		},
		"an axis of a maximum": nudged("ReduceMax", 1, 0, 1), "an axis of a mean": nudged("ReduceMean", 1, 0, -1),
		"axes that stay":   changed("ReduceMean", "keepdims", more),
		"a size of blocks": changed("DepthToSpace", "blocksize", more), "an order of blocks": changed("DepthToSpace", "mode", func(any) any {
			return "CRD"
		}),
		"an order of axes": func(m *Model) { nodeNamed(m, "turned").Attrs[0].Value = swapped(nodeNamed(m, "turned").Attrs[0].Value) },
		"an order of axes that a layout needs": func(m *Model) {
			for i := range m.Nodes {
				if n := &m.Nodes[i]; n.Op == "Transpose" && strings.HasSuffix(n.Name, "_transposed") {
					n.Attrs[0].Value = swapped(n.Attrs[0].Value)
					return
				}
			}
		},
		"what a convolution reads": func(m *Model) { nodeNamed(m, "side").Inputs[0], nodeNamed(m, "first").Inputs[0] = "p", "x" },
		"the order of what is joined": func(m *Model) {
			n := nodeNamed(m, "joined")
			n.Inputs[0], n.Inputs[1] = n.Inputs[1], n.Inputs[0]
		},
		"a shape": nudged("Reshape", 1, 1, 1), "where a cut begins": nudged("Slice", 1, 0, 1), "where it ends": nudged("Slice", 2, 0, -1),
		"along what": nudged("Slice", 3, 0, 1), "its steps": nudged("Slice", 4, 1, 1),
		"an index": nudged("Gather", 1, 1, 1), "along what indices go": changed("Gather", "axis", more), "a pad": nudged("Pad", 1, 2, 1),
		"a mode of pads": changed("Pad", "mode", func(any) any { return "edge" }),
	} {
		faults = append(faults, exporttest.Damaged{What: what, Plant: edit(change)})
	}
	exporttest.ReadBack(t, &f, moving, "espdl_int8", faults)
	b := exporttest.Equal(t, &f, exporttest.Input(t, &f, moving, "espdl_int8", nil))
	require.Greater(t, b.Compared, int64(300))
}

func nodeNamed(m *Model, name string) *Node {
	for i := range m.Nodes {
		if m.Nodes[i].Name == name {
			return &m.Nodes[i]
		}
	}
	return nil
}
