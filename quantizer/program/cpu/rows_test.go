package cpu_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/program/cpu"
)

// What has no row runs by its definition and is named; what has one is never said to have none.
func TestWhatHasNoRowIsNamed(t *testing.T) {
	without := 0
	for _, a := range lowertest.Engines(t) {
		e, err := program.New(a.Program, cpu.Backend, 1)
		require.NoError(t, err)
		_, err = e.Run(context.Background(), a.Feeds, nil)
		require.NoError(t, err)
		reasons := map[lower.StepID]string{}
		if p := e.Placement(); p != nil {
			for _, s := range p.Host {
				reasons[s.Step] = s.Reason
			}
		}
		for _, s := range a.Program.Steps {
			none := "no kernel for " + s.Op.Name()
			if lower.Has(cpu.Backend.Own, lower.NameOf(s.Op), s.Op.Name()) {
				require.NotEqual(t, none, reasons[s.ID], a.Name)
			} else {
				require.Equal(t, none, reasons[s.ID], a.Name)
				without++
			}
		}
	}
	require.Positive(t, without)
}
