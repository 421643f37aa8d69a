package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A random checkpoint is written and measured; shares are the bytes over the time over the bandwidth.
func TestBenchGenerate(t *testing.T) {
	inFolder(t)
	done(t, "bench", "checkpoint", "--shape", "15M", "--group-size", "32", "-o", "m.bin")
	info, err := os.Stat("m.bin")
	require.NoError(t, err)
	require.EqualValues(t, 17_101_696, info.Size())
	args := append([]string{"bench", "generate", "m.bin", "--prompt", "9", "--threads", "2"}, brief...)
	o := done(t, args...).object(t)
	require.EqualValues(t, 2, o["threads"])
	decode, prefill := o["decode"].(map[string]any), o["prefill"].(map[string]any)
	require.EqualValues(t, 9, prefill["tokens"])
	require.InDelta(t, o["bytes_per_token"].(float64)*decode["tokens_per_second"].(float64), decode["gbps"].(float64)*1e9, 1e3)
	least, most := decode["min_seconds"].(float64), decode["max_seconds"].(float64)
	require.LessOrEqual(t, least, most)
	require.InDelta(t, 1, decode["best_tokens_per_second"].(float64)*least, 1e-9)
	require.Positive(t, decode["best_share_of_bandwidth"])
	require.Regexp(t, `(?s)15\.2 million parameters, 17\.1 MB of weights a token, .*decode .*GB/s.*prompt of 9 .*GOPS`,
		done(t, args[:len(args)-1]...).stdout)
}

func TestBenchGenerateMistakes(t *testing.T) {
	inFolder(t)
	fails(t, exitUsage, `checkpoint needs -o: the file to write`, "bench", "checkpoint")
	fails(t, exitUsage, `--shape: no shape "7B": there are 15M, 110M, 1\.1B`, "bench", "checkpoint", "--shape", "7B", "-o", "m.bin")
	fails(t, exitFailed, `groups of 100 do not divide rows of 768`, "bench", "checkpoint", "--group-size", "100", "-o", "m.bin")
	require.NoFileExists(t, "m.bin")
	fails(t, exitUsage, `--prompt 0: at least one token`, "bench", "generate", "m.bin", "--prompt", "0")
	fails(t, exitFailed, `m\.bin`, "bench", "generate", "m.bin")
}
