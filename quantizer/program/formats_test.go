package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/longtest"
	"qwb/internal/programtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// Random networks with weights of 2 to 8 bits and activations of 8 and 16, signed and unsigned, give the same integers on the reference,
// on the CPU and on the GPU that is interpreted, under every profile that lowers them. What the CPU has no kernel for is named.
func TestFormats(t *testing.T) {
	compared, named := 0, map[string]int{}
	for i, tg := range lowertest.Formats() {
		for k, pr := range qmath.Profiles() {
			if (i+k)%4 != 0 && !longtest.Wanted(t) {
				continue
			}
			seed := uint64(i + 31*k)
			g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Random(seed, 0), &tg)
			p, err := lower.Compile(g, set, &tg, pr)
			if err != nil {
				continue // this profile has no form for something in it
			}
			t.Run(tg.Name+"/"+pr.Name, func(t *testing.T) {
				compared += programtest.Equal(t, p, feeds, programtest.Available()[1:], 2)
				for _, h := range onCPU(t, p, feeds).Host {
					named[h.Reason]++
				}
			})
		}
	}
	t.Logf("%d integers; by the reference on the CPU: %v", compared, named)
	require.Positive(t, compared)
	require.Positive(t, named["int16 activations"])
	require.Positive(t, named["uint16 activations"])
}

// onCPU runs a program on the CPU and says where its steps ran.
func onCPU(t *testing.T, p *lower.Program, feeds map[string]*tensor.Tensor) program.Placement {
	e, err := program.New(p, cpu.Backend, 1)
	require.NoError(t, err)
	_, err = e.Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	if placed := e.Placement(); placed != nil {
		return *placed
	}
	return program.Placement{}
}
