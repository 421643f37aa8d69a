package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/kernels/cuda"
)

// What bench cuda does on a GPU it does on the interpreter, at tiny sizes.
func TestBenchCUDA(t *testing.T) {
	for _, c := range []struct {
		args    string
		results int
		more    []string
	}{
		{"bench cuda --backend ptx --rounds 2 --json --only ^gemm|^add|^.float.gemm", 4, nil},
		{"bench cuda --backend ptx --rounds 2 --json --networks --batches 1,2", 2, []string{"images_per_second", "images_per_second_end_to_end"}},
	} {
		o := done(t, strings.Fields(c.args)...).object(t)
		require.Equal(t, true, o["device"].(map[string]any)["emulated"])
		for _, k := range []string{"mma_s8_ops", "dp4a_ops", "fma_f32_ops", "copy_bytes"} {
			require.Positive(t, o["peaks"].(map[string]any)[k], k)
		}
		require.Empty(t, o["failed"])
		results := parts(t, o, "results[]")
		require.Len(t, results, c.results, c.args)
		for _, r := range results {
			for _, k := range append(c.more, "seconds", "share_of_peak", "gbps") {
				require.Contains(t, r, k)
			}
			require.Positive(t, r["seconds"])
			require.NotContains(t, r, "steps_on_host", "every step has a kernel: %v", r["host_reasons"])
		}
	}
	out := done(t, strings.Fields("bench cuda --backend ptx --rounds 1 --only ^gemm")...)
	require.Contains(t, out.stdout, "interpreted")
	require.Contains(t, out.stdout, "gemm m=64 n=48 k=80")
}

func TestBenchCUDARefuses(t *testing.T) {
	for args, message := range map[string]string{
		"bench cuda --backend cpu":                               `unknown backend "cpu": one of cuda, ptx`,
		"bench cuda --backend ptx --rounds 0":                    "all have to be above zero",
		"bench cuda --backend ptx --batches 0":                   "all have to be above zero",
		"bench cuda --backend ptx --only (":                      "--only",
		"bench cuda --backend ptx --only nothing":                "no case of that name",
		"bench cuda --backend ptx --networks --profile nonsense": "nonsense",
		"bench cuda --profile nonsense":                          "nonsense",
	} {
		r := invoke(strings.Fields(args)...)
		require.Equal(t, 2, r.code, args)
		require.Contains(t, r.stderr, message, args)
	}
	if _, err := cuda.Find(); err != nil {
		r := invoke("bench", "cuda")
		require.Equal(t, 1, r.code)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line")
		require.Contains(t, r.stderr, "backend cuda")
	}
}
