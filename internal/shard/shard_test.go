package shard

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// everything has a field of every sort that units have.
type everything struct {
	b     bool
	i     int8
	u     uint64
	f     float32
	d     []float64
	s     string
	p, np *everything
	m     map[string][]int
	set   map[float32]struct{}
	nm    map[string]int
	a     [2]int
	any   []any
	empty []int
	none  []int
}

func sample() everything {
	return everything{b: true, i: -8, u: math.MaxUint64, f: 1.5, s: "x\x00é",
		d: []float64{math.Inf(1), math.Copysign(0, -1), math.Pi, math.NaN()}, p: &everything{}, np: nil, nm: nil, none: nil,
		m: map[string][]int{"b": {2}, "a": nil}, set: map[float32]struct{}{3: {}, 1: {}}, a: [2]int{1, -2}, any: []any{1.5, nil, "s"},
		empty: []int{}}
}

// What was written is read again, floats bit for bit and nil as nil, and always has the same bytes.
func TestUnitsAreReadAsTheyWere(t *testing.T) {
	kinds := []any{"", 0.0}
	in := sample()
	b, err := encode(&in, kinds)
	require.NoError(t, err)
	for range 20 {
		again := sample()
		c, err := encode(&again, kinds)
		require.NoError(t, err)
		require.Equal(t, b, c)
	}
	var out everything
	require.NoError(t, decode(b, &out, kinds))
	require.True(t, math.IsNaN(out.d[3]) && math.Signbit(out.d[1]))
	in.d, out.d = in.d[:3], out.d[:3]
	require.Equal(t, in, out)
	_, err = encode(&in, kinds[:1])
	require.ErrorContains(t, err, "float64")
	var f func()
	_, err = encode(&f, nil)
	require.ErrorContains(t, err, "has no bytes")
}

// Bytes that were cut off or changed are an error or another value, and take no memory that they do not have.
func TestDamagedUnits(t *testing.T) {
	kinds := []any{"", 0.0}
	in := sample()
	b, err := encode(&in, kinds)
	require.NoError(t, err)
	for n := range b {
		var out everything
		require.Error(t, decode(b[:n], &out, kinds), n)
		for _, x := range []byte{0, 1, 0x7f, 0xff} {
			bad := bytes.Clone(b)
			bad[n] = x
			_ = decode(bad, &out, kinds)
		}
	}
	var out everything
	require.Error(t, decode(append(b, 0), &out, kinds))
	var many []float64
	require.Error(t, decode([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, &many, nil))
}

// A file of a part is read as it was written; every changed byte is noticed.
func TestFileOfAPart(t *testing.T) {
	r := New("eval", []string{"--mode=sim", "--", "m.plan.json"}, 2, 3)
	require.NoError(t, r.Fact("model", "abc"))
	_, err := Unit(r, "a", true, func() (everything, error) { return sample(), nil }, "", 0.0)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	back, err := Read(b.Bytes())
	require.NoError(t, err)
	require.Equal(t, r.Head, back.Head)
	require.Equal(t, r.units, back.units)
	for n := range b.Bytes() {
		bad := bytes.Clone(b.Bytes())
		bad[n] ^= 4
		_, err := Read(bad)
		require.Error(t, err, n)
		_, err = Read(b.Bytes()[:n])
		require.Error(t, err, n)
	}
}

// A merge takes results of the types that parts have, and says so where they have others or none.
func TestMergeOfOtherUnits(t *testing.T) {
	r := New("eval", nil, 1, 1)
	require.NoError(t, r.Fact("model", "abc"))
	_, err := Unit(r, "a", true, func() (int, error) { return 3, nil })
	require.NoError(t, err)
	m, err := Join([]string{"p"}, []*Run{r})
	require.NoError(t, err)
	v, err := Unit[int](m, "a", false, nil)
	require.NoError(t, err)
	require.Equal(t, 3, v)
	_, err = Unit[float64](m, "a", false, nil)
	require.ErrorContains(t, err, "another build")
	_, err = Unit[int](m, "b", false, nil)
	require.ErrorContains(t, err, "do not have b")
	require.ErrorContains(t, m.Fact("model", "def"), "another model (abc, not def)")
	require.ErrorContains(t, m.Fact("plan", "def"), "say nothing about the plan")
	require.NoError(t, m.Fact("model", "abc"))
}
