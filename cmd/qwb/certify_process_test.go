//go:build unix && amd64

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/cpu"

	"qwb"
)

// On a processor without fused multiply-add integers and hashes are the same, and figures that hang on floats within their bounds.
func TestCertificateOnAnotherProcessor(t *testing.T) {
	if !cpu.X86.HasFMA || !cpu.X86.HasAVX2 {
		t.Skip("a processor without fused multiply-add")
	}
	certifiedPlace(t)
	done(t, "set", "work/m.plan.json", "depth", "domain=fp32")
	done(t, "certify", "work/m.plan.json", "--data", "eval", "-o", "islands.json")
	p := process(0, "verify-certificate", "islands.json", "--json")
	p.Env = append(p.Env, "GODEBUG=cpu.avx2=off,cpu.avx512f=off,cpu.fma=off")
	out, err := p.Output()
	require.NoError(t, err)
	var r qwb.RecheckResult
	require.NoError(t, json.Unmarshal(out, &r))
	require.Equal(t, [2]string{qwb.ArithmeticFused, qwb.ArithmeticSeparate}, r.Arithmetic)
	require.True(t, r.Holds)
	within := 0
	for _, c := range r.Checks {
		if c.Verdict == qwb.RecheckWithin {
			within++
			require.Contains(t, []string{"samples", "score", "drop", "error of the drop", "flips", "NSR", "error of the NSR",
				"integers, profile ort, backend cpu, behind float operators"}, c.What)
			continue
		}
		require.Equal(t, qwb.RecheckEqual, c.Verdict, "%v", c)
	}
	require.Positive(t, within, "the NSR has other last digits")
}
