package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
)

func TestNeverNegative(t *testing.T) {
	g := graphtest.Parse(t, `
opset 17
input x: f32[1,4]
input c: bool[1,4]
const zero: f32[1] = [0]
const zero1: f32[] = 0
const one1: f32[] = 1
const minus: f32[] = -1
const below: f32[2] = [1, -1]
const axis: i64[1] = [0]
soft = Softmax(x)
moved = Transpose(soft)
held = Where(c, zero, soft)
scaled = Mul(held, soft)
square = Mul(x, x)
lower = Sub(soft, soft)
wide = Unsqueeze(lower, axis)
reshaped = Unsqueeze(scaled, axis)
mixed = Concat(soft, x) {axis=0}
cut = Clip(x, zero1)
above = Clip(x, one1, one1)
below0 = Clip(x, zero1, minus)
softcut = Clip(soft, minus, one1)
larger = Max(x, zero)
output moved: f32[4,1]
`)
	for name, want := range map[string]bool{"soft": true, "moved": true, "held": true, "scaled": true, "reshaped": true, "zero": true,
		"cut": true, "above": true, "softcut": true, "larger": true, "below0": false,
		"x": false, "below": false, "square": false, "lower": false, "wide": false, "mixed": false} {
		v, ok := g.Lookup(name)
		require.True(t, ok, name)
		require.Equal(t, want, g.NeverNegative(v), name)
	}
}
