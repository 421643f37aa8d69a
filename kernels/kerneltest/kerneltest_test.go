package kerneltest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/kernels"
	"qwb/kernels/cpu"
	"qwb/kernels/ref"
)

func TestConformance(t *testing.T) {
	for name, table := range Tables(cpu.Detect()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Suite{Table: table, Memory: new(Canary), Short: !longtest.Wanted(t)}.Run(t)
		})
	}
}

func TestIntegerConformance(t *testing.T) {
	for name, table := range IntegerTables(cpu.Detect()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Suite{Table: table, Memory: new(Canary)}.RunInteger(t)
		})
	}
}

// The suite catches what it is there for.
func TestCanary(t *testing.T) {
	var m Canary
	x := m.New(3)
	kernels.Add(x[:3], x, x)
	require.NoError(t, m.Check())
	m.NewBytes(3)
	m.blocks[0][margin+3] = 0
	assert.ErrorContains(t, m.Check(), "byte 3 of a slice of 3")
	m.New(3)
	m.blocks[0][margin-1] = 0
	assert.ErrorContains(t, m.Check(), "byte -1 of a slice of 12")
}

// Choosing is a pure function of features, on any machine.
func TestSelect(t *testing.T) {
	plain := kernels.Select(cpu.Features{})
	assert.Equal(t, ref.Float32, plain.Arith())
	for _, r := range plain.Rows() {
		assert.Equal(t, "go", r.ISA, r.Name)
	}
	names := map[string]bool{}
	for _, r := range kernels.Rows() {
		assert.False(t, names[r.Name], "two rows %s", r.Name)
		names[r.Name] = true
		assert.True(t, r.Runs(cpu.Features{AVX2: true, AVX512: true, AVXVNNI: true, AVX512VNNI: true, AMX: true, NEON: true, NEONDot: true}),
			r.Name)
		assert.Equal(t, r.ISA == "go", r.Runs(cpu.Features{}), r.Name)
	}
	for _, f := range []cpu.Features{{}, {AVX2: true}, {AVX2: true, AVX512: true}, {AVX2: true, AVXVNNI: true},
		{AVX2: true, AVX512: true, AVX512VNNI: true}, {AVX2: true, AVX512: true, AVX512VNNI: true, AMX: true}} {
		table := kernels.Select(f)
		for op, r := range table.Rows() {
			assert.Equal(t, kernels.Op(op), r.Op)
			assert.True(t, r.Runs(f), r.Name)
			if r.Op == kernels.OpGemm || r.Op == kernels.OpDepthwise {
				assert.Equal(t, table.Arith(), r.Arith, r.Name)
			}
		}
	}
}
