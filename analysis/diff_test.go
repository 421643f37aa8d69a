package analysis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// kinds lists what differs, as node at: what.
func kinds(r *DiffResult) []string {
	out := []string{}
	for _, d := range r.Differences {
		out = append(out, strings.TrimSpace(d.Node+" "+d.At)+": "+string(d.What))
	}
	return out
}

func TestDiff(t *testing.T) {
	data := samplesOf(2, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.ONNXRuntime, data, 1)
	side := func(set *tqc.Set) Configured { return Configured{Graph: g, Set: set} }
	same, err := Diff(side(q.Set()), side(q.Set().Clone()))
	require.NoError(t, err)
	require.True(t, same.Equal)
	require.Empty(t, kinds(same))
	require.Equal(t, len(g.Nodes()), same.Nodes)
	require.Equal(t, 16*8*9+16*16*9+16*16+8*32+6*8, same.Codes, "all weights; the bias has no scale here")

	conv, _ := g.LookupNode("c1")
	relu, _ := g.LookupNode("r1")
	mean, _ := g.LookupNode("c3")
	for name, c := range map[string]struct {
		change func(set *tqc.Set) error
		want   []string
	}{
		"scale of a weight": {func(set *tqc.Set) error {
			s := set.Input(conv, 1)
			p := *set.Params(s)
			p.Scale = append([]float32(nil), p.Scale...)
			p.Scale[5] *= 4
			return set.Render(s, p)
		}, []string{"c1 in1: scale", "c1 in1: integers"}},
		"zero point": {func(set *tqc.Set) error {
			s := set.Input(conv, 0)
			p := *set.Params(s)
			return set.Render(s, tqc.Params{Scale: p.Scale, ZeroPoint: []int32{p.ZeroPoint[0] + 1}})
		}, []string{"c1 in0: zero point"}},
		"state":  {func(set *tqc.Set) error { return set.Advance(set.Input(mean, 1), tqc.FP32) }, []string{"c3 in1: state"}},
		"domain": {func(set *tqc.Set) error { set.Domains[relu] = tqc.DomainFP32; return nil }, []string{"r1: domain"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := q.Set().Clone()
			require.NoError(t, c.change(set))
			r, err := Diff(side(q.Set()), side(set))
			require.NoError(t, err)
			require.False(t, r.Equal)
			require.Equal(t, c.want, kinds(r))
			back, err := Diff(side(set), side(q.Set()))
			require.NoError(t, err)
			require.Equal(t, c.want, kinds(back), "the other way round")
		})
	}
}

func TestDiffMatchesByPlaceOrByName(t *testing.T) {
	data := samplesOf(2, 1, 8, 10, 10)
	g, q := configured(t, residualNet, &target.ONNXRuntime, data, 1)
	other := g.Clone()
	for i, id := range other.Nodes() {
		require.NoError(t, other.RenameNode(id, "node_"+string(rune('a'+i))))
	}
	r, err := Diff(Configured{Graph: g, Set: q.Set()}, Configured{Graph: other, Set: q.Set()})
	require.NoError(t, err)
	require.True(t, r.Equal, "%v", kinds(r))
	require.True(t, r.ByPlace)

	one := g.Clone()
	conv, _ := one.LookupNode("c1")
	require.NoError(t, one.RenameNode(conv, "first"))
	r, err = Diff(Configured{Graph: g, Set: q.Set()}, Configured{Graph: one, Set: q.Set()})
	require.NoError(t, err)
	require.True(t, r.Equal, "it reads and feeds the same: %v", kinds(r))
	require.False(t, r.ByPlace)
}
