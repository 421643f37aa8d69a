package cprogram_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/cprogram"
	"qwb/quantizer/lower/lowertest"
)

// What engines answered, C answers, or it says which operator has no form in C.
func TestEngines(t *testing.T) {
	compiler(t)
	for _, a := range lowertest.Engines(t) {
		t.Run(a.Name, func(t *testing.T) {
			if _, err := cprogram.Write(io.Discard, a.Program, cprogram.Options{}); err != nil {
				require.ErrorContains(t, err, "has no form in C")
				require.ErrorContains(t, err, `"function"`)
				return
			}
			require.Positive(t, compared(t, a.Program, a.Feeds, nil, strict))
		})
	}
}
