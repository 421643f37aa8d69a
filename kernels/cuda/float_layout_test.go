package cuda

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

func TestFloatParameters(t *testing.T) {
	for name, k := range map[string]struct {
		size uintptr
		file string
		list []string
	}{
		"floatGemm": {unsafe.Sizeof(floatGemm{}), "float_gemm", []string{"gemm128", "gemm64", "gemm_rows"}},
		"floatConv": {unsafe.Sizeof(floatConv{}), "float_conv", []string{"conv128", "conv64", "conv_each", "conv_depthwise4",
			"conv_transpose_each"}},
		"floatPool":      {unsafe.Sizeof(floatPool{}), "float_pool", []string{"pool"}},
		"floatGlobal":    {unsafe.Sizeof(floatGlobal{}), "float_pool", []string{"global_pool"}},
		"floatRows":      {unsafe.Sizeof(floatRows{}), "float_rows", []string{"softmax"}},
		"floatNormalize": {unsafe.Sizeof(floatNormalize{}), "float_rows", []string{"normalize"}},
		"floatReduce":    {unsafe.Sizeof(floatReduce{}), "float_rows", []string{"reduce"}},
		"floatUnary":     {unsafe.Sizeof(floatUnary{}), "float_elementwise", []string{"unary"}},
		"floatAffine":    {unsafe.Sizeof(floatAffine{}), "float_elementwise", []string{"affine"}},
		"floatBinary":    {unsafe.Sizeof(floatBinary{}), "float_elementwise", []string{"binary"}},
		"selectParams":   {unsafe.Sizeof(selectParams{}), "float_elementwise", []string{"select"}},
		"compareParams":  {unsafe.Sizeof(compareParams{}), "float_elementwise", []string{"compare"}},
		"chainParams":    {unsafe.Sizeof(chainParams{}), "float_elementwise", []string{"chain"}},
		"integerParams":  {unsafe.Sizeof(integerParams{}), "float_elementwise", []string{"integers"}},
		"castParams":     {unsafe.Sizeof(castParams{}), "float_elementwise", []string{"cast"}},
		"moveParams":     {unsafe.Sizeof(moveParams{}), "float_move", []string{"move"}},
		"turnParams":     {unsafe.Sizeof(turnParams{}), "float_move", []string{"turn"}},
		"pickParams":     {unsafe.Sizeof(pickParams{}), "float_move", []string{"pick"}},
		"lookupParams":   {unsafe.Sizeof(lookupParams{}), "float_move", []string{"gather"}},
		"blendParams":    {unsafe.Sizeof(blendParams{}), "float_move", []string{"blend"}},
	} {
		for _, entry := range k.list {
			assert.EqualValues(t, k.size, paramBytes(t, k.file, entry), "%s for %s", name, entry)
		}
	}
}

func TestJoinedAxes(t *testing.T) {
	for _, c := range []struct {
		sizes, a, b          []int
		joined, joinA, joinB []int
	}{
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{12, 4, 1}, []int{24}, []int{1}, []int{1}},
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{0, 0, 1}, []int{6, 4}, []int{4, 1}, []int{0, 1}},
		{[]int{2, 1, 4}, []int{4, 4, 1}, []int{0, 0, 0}, []int{8}, []int{1}, []int{0}},
		{[]int{1, 1}, []int{1, 1}, []int{0, 0}, []int{1}, []int{0}, []int{0}},
		{nil, nil, nil, []int{1}, []int{0}, []int{0}},
		{[]int{2, 3}, []int{1, 2}, []int{3, 1}, []int{2, 3}, []int{1, 2}, []int{3, 1}},
	} {
		sizes, steps := joinAxes(c.sizes, c.a, c.b)
		assert.Equal(t, c.joined, sizes)
		assert.Equal(t, c.joinA, steps[0])
		assert.Equal(t, c.joinB, steps[1])
	}
}

func TestTurnedMatrices(t *testing.T) {
	batch, rows, columns, ok := turned([]int{2, 5, 7}, []int{35, 1, 5}, []int{35, 7, 1})
	assert.True(t, ok)
	assert.Equal(t, []int{2, 5, 7}, []int{batch, rows, columns})
	batch, rows, columns, ok = turned([]int{2, 7, 5}, []int{35, 5, 1}, []int{35, 1, 7})
	assert.True(t, ok)
	assert.Equal(t, []int{2, 5, 7}, []int{batch, rows, columns})
	_, _, _, ok = turned([]int{5, 7}, []int{7, 1}, []int{7, 1})
	assert.False(t, ok, "nothing moves")
	_, _, _, ok = turned([]int{2, 5, 7}, []int{70, 1, 5}, []int{35, 7, 1})
	assert.False(t, ok, "a gap between matrices")
}

func TestFloatTiles(t *testing.T) {
	d := &Device{Multiprocessors: 16}
	for _, c := range []struct {
		m, n, count int
		want        string
	}{{64, 1000, 100, "64"}, {1000, 64, 100, "64"}, {130, 130, 3, "64"}, {130, 130, 4, "128"}, {130, 1030, 1, "128"}, {90, 1100, 1,
		"64"}, {180, 1100, 1, "128"}, {729, 130, 2, "128"}} {
		entry, _, _ := floatTile(d, c.m, c.n, c.count)
		assert.Equal(t, c.want, entry, c)
	}
}
