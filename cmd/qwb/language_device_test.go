package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A language model on a device gives the texts and scores that it gives on the processor.
func TestLanguageOnADevice(t *testing.T) {
	languagePlace(t)
	write(t, "t.txt", []byte("a cab\nabba, abracadabra\n"))
	generate := []string{"generate", "m.bin", "--prompt", "a cab", "--tokens", "20"}
	require.Equal(t, done(t, generate...).stdout, done(t, append(generate, "--backend", "ptx")...).stdout)
	for _, weights := range [][]string{{}, {"--group-size", "8"}, {"--group-size", "16", "--bits", "4", "--mode", "sim"}} {
		want, got := evalText(t, weights...), evalText(t, append(weights, "--backend", "ptx")...)
		delete(want, "seconds")
		delete(got, "seconds")
		require.Equal(t, want, got, "%v", weights)
	}
	fails(t, exitUsage, `unknown backend "reference" of a checkpoint: one of cpu, cuda, ptx`, append(generate, "--backend", "reference")...)
	fails(t, exitFailed, "no-such.bin: no such file", "eval", "no-such.bin", "--text", "text.txt", "--backend", "ptx")
}

// Times of the interpreter say nothing; that they come with the device's name and peaks is what a GPU needs too.
func TestBenchGenerateOnADevice(t *testing.T) {
	languagePlace(t)
	o := done(t, append([]string{"bench", "generate", "m.bin", "--prompt", "3", "--group-size", "8", "--backend", "ptx"},
		brief...)...).object(t)
	require.Contains(t, o["backend"], "interpreter")
	decode := o["decode"].(map[string]any)
	require.InEpsilon(t, decode["gbps"].(float64)/decode["read_gbps"].(float64), decode["share_of_bandwidth"].(map[string]any)["median"], 1e-9)
	fails(t, exitUsage, `unknown backend "gpu" of a checkpoint`, "bench", "generate", "m.bin", "--backend", "gpu")
}
