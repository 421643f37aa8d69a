package program_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/programtest"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
)

// What engines answered, every backend answers, bit for bit.
func TestEngines(t *testing.T) {
	for _, a := range lowertest.Engines(t) {
		for _, b := range programtest.Available() {
			t.Run(a.Name+"/"+b.Name, func(t *testing.T) {
				e, err := program.New(a.Program, b, 2)
				require.NoError(t, err)
				defer e.Close()
				got, err := e.Run(context.Background(), a.Feeds, nil)
				require.NoError(t, err)
				require.Equal(t, a.Answer, got[0].F32())
			})
		}
	}
}
