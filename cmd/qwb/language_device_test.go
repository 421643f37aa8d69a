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
	fails(t, exitUsage, "--backend reference of a checkpoint: cpu, cuda", append(generate, "--backend", "reference")...)
}
